//! `/v1/translate` and `/v1/summarize`.

use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use glassformer::tasks::{self, GeneratedText, News, Translation};
use glassformer::translator::Parted;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Texts, long};
use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::Served;
use crate::openai::options::{Options, Usage};
use crate::work::Work;

/// Texts to be translated.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TranslateRequest {
    /// Which model; the first that rewrites texts if none is named.
    pub model: Option<String>,
    /// A text, or several. Lines stay lines; long ones are cut into sentences.
    pub input: Texts,
    /// The language of the texts, where the model reads several: a code such as `en`, or its English name.
    pub from: Option<String>,
    /// The language to translate into, where the model writes several.
    pub to: Option<String>,
    /// When lines are cut into sentences; where they are long if not given.
    pub split: Option<Split>,
    /// Whether sentences that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
    /// How text is written.
    #[serde(flatten)]
    pub options: Options,
}

/// When lines are cut into sentences.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Where they are long.
    Long,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Translated texts.
#[allow(clippy::struct_field_names)] // names of the interface
#[derive(Serialize, ToSchema)]
pub struct Translations {
    model: String,
    /// A translation for each text, in their order.
    translations: Vec<Translated>,
    usage: Usage,
}

/// A translation.
#[derive(Serialize, ToSchema)]
struct Translated {
    text: String,
    /// The scores of its sentences, where beams were searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scores: Vec<f32>,
}

/// What has to be written, and what it is of.
struct Planned {
    translation: Translation,
    parted: Option<Parted>,
}

/// Translate texts
#[utoipa::path(post, path = "/v1/translate", tag = "Glassformer", request_body = TranslateRequest,
    responses((status = 200, body = Translations)))]
pub async fn translate(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<TranslateRequest>,
) -> Result<axum::Json<Translations>, Fault> {
    let TranslateRequest { model, input, from, to, split, truncate, options } = request;
    let texts = input.all(&app)?;
    let given = Given { model, from, to, split, truncate, options };
    let (model, texts, usage) = translated(&app, who, texts, given).await?;
    let translations = texts.into_iter().map(|(text, scores)| Translated { text, scores }).collect();
    Ok(axum::Json(Translations { model, translations, usage }))
}

/// How texts are to be translated.
#[derive(Default)]
pub struct Given {
    /// Which model.
    pub model: Option<String>,
    /// The language of the texts.
    pub from: Option<String>,
    /// The language to translate into.
    pub to: Option<String>,
    /// When lines are cut into sentences.
    pub split: Option<Split>,
    /// Whether sentences that are too long are cut.
    pub truncate: Option<bool>,
    /// How text is written.
    pub options: Options,
}

/// A text with the scores of its sentences.
type Scored = (String, Vec<f32>);

/// Translates texts: the model that did it, the translations, and how many tokens that took.
pub async fn translated(
    app: &App,
    who: Who,
    texts: Vec<String>,
    given: Given,
) -> Result<(String, Vec<Scored>, Usage), Fault> {
    let start = Instant::now();
    let served = app.models().of(given.model.as_deref(), rewrites)?.clone();
    refuse_streams(&given.options)?;
    let mut generate = given.options.generate(served.writer()?, app)?;
    generate.long = long(given.truncate);
    let split = match given.split {
        Some(Split::Long) | None => tasks::Split::Long,
        Some(Split::Always) => tasks::Split::Always,
        Some(Split::Never) => tasks::Split::Never,
    };
    let options = tasks::Translate { generate: Some(generate), from: given.from, to: given.to, split };
    let (own, name, count) = (served.clone(), served.name().to_owned(), texts.len());
    let mut planned = app.compute(move || plan(&own, &texts, &options)).await?;
    let (sources, generate) = (planned.translation.take_sources(), planned.translation.options().clone());
    if sources.is_empty() {
        return Ok((name, planned.put_together(&[], count), Usage::default()));
    }
    let mut work = Work::begin(app, &served, sources, generate, (who, start)).await?;
    let written = best(&mut work, planned.translation.owners().len()).await?;
    let usage = Usage::new(work.read_tokens(), written.iter().map(|text| text.ids.len()).sum());
    Ok((name, planned.put_together(&written, count), usage))
}

fn rewrites(served: &Served) -> bool {
    served.generator().is_some_and(glassformer::TextGenerator::reads_source)
}

fn refuse_streams(options: &Options) -> Result<(), Fault> {
    if options.streams() {
        return Err(Fault::bad("stream", "results come whole here: leave stream out"));
    }
    if options.n.is_some_and(|n| n > 1) {
        return Err(Fault::bad("n", "one result is given for each text: leave n out"));
    }
    Ok(())
}

fn plan(served: &Served, texts: &[String], options: &tasks::Translate) -> Result<Planned, Fault> {
    let generator = served.writer()?;
    if !served.is_translator() {
        return Ok(Planned { translation: generator.translation(texts, options)?, parted: None });
    }
    let parted = Parted::new(texts);
    let translation = generator.translation(parted.english(), options);
    Ok(Planned { translation: translation.map_err(|error| parted.owned(error))?, parted: Some(parted) })
}

impl Planned {
    /// The `count` texts of which these are the sentences.
    fn put_together(&self, written: &[GeneratedText], count: usize) -> Vec<Scored> {
        let texts = self.translation.put_together(written);
        let texts = match &self.parted {
            Some(parted) => parted.put_together(texts),
            None => texts,
        };
        let mut scores = vec![Vec::new(); count];
        for (sentence, &part) in written.iter().zip(self.translation.owners()) {
            let text = self.parted.as_ref().map_or(part, |parted| parted.owner(part));
            if let (Some(score), Some(own)) = (sentence.score, scores.get_mut(text)) {
                own.push(score);
            }
        }
        texts.into_iter().zip(scores).collect()
    }
}

/// The best answer to each of `count` texts.
async fn best(work: &mut Work, count: usize) -> Result<Vec<GeneratedText>, Fault> {
    let mut best = vec![GeneratedText::default(); count];
    while let Some(news) = work.next().await? {
        if let News::Done { text, written, .. } = news
            && let Some(first) = written.into_iter().next()
        {
            best[text] = first;
        }
    }
    Ok(best)
}

/// Texts to be summarised.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SummarizeRequest {
    /// Which model; the first that rewrites texts if none is named.
    pub model: Option<String>,
    /// A text, or several.
    pub input: Texts,
    /// Whether texts that are too long are cut; otherwise they are an error.
    pub truncate: Option<bool>,
    /// How text is written.
    #[serde(flatten)]
    pub options: Options,
}

/// Summaries of texts.
#[allow(clippy::struct_field_names)] // names of the interface
#[derive(Serialize, ToSchema)]
pub struct Summaries {
    model: String,
    /// A summary for each text, in their order.
    summaries: Vec<Summary>,
    usage: Usage,
}

/// A summary.
#[derive(Serialize, ToSchema)]
struct Summary {
    text: String,
    /// Its score, where beams were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

/// Summarise texts
#[utoipa::path(post, path = "/v1/summarize", tag = "Glassformer", request_body = SummarizeRequest,
    responses((status = 200, body = Summaries)))]
pub async fn summarize(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<SummarizeRequest>,
) -> Result<axum::Json<Summaries>, Fault> {
    let start = Instant::now();
    let served = app.models().of(request.model.as_deref(), rewrites)?.clone();
    refuse_streams(&request.options)?;
    let generator = served.writer()?.clone();
    let mut options = request.options.generate(&generator, &app)?;
    options.long = long(request.truncate);
    let texts = request.input.all(&app)?;
    let count = texts.len();
    let prompts = app.compute(move || Ok(generator.summary_prompts(&texts)?)).await?;
    let mut work = Work::begin(&app, &served, prompts, options, (who, start)).await?;
    let written = best(&mut work, count).await?;
    let usage = Usage::new(work.read_tokens(), written.iter().map(|text| text.ids.len()).sum());
    let summary = |text: GeneratedText| Summary { text: text.text.trim().to_owned(), score: text.score };
    let summaries = written.into_iter().map(summary).collect();
    Ok(axum::Json(Summaries { model: served.name().to_owned(), summaries, usage }))
}
