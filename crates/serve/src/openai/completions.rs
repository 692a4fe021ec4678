//! `/v1/completions`: texts that are continued or, with an encoder, rewritten.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use glassformer::tasks::{GeneratedText, Likelihood, News};
use glassformer::tokens::{SpecialText, Tokenizer};
use glassformer::{Finish, TextGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::logprobs::{number, text};
use super::options::{Options, Usage, reason, within};
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::Served;
use crate::streams::{Broken, Framing, Pieces};
use crate::work::Work;
use crate::{App, streams};

/// Texts to be continued; a model with an encoder writes what they lead to.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// Which model; the first that writes if none is named.
    pub model: Option<String>,
    /// A text, several, token ids, or several lists of them.
    pub prompt: Prompt,
    /// Whether the prompt comes before what is written.
    pub echo: Option<bool>,
    /// Tells log-probabilities, and so many of the likeliest tokens at each place.
    #[schema(minimum = 0, maximum = 20)]
    pub logprobs: Option<i64>,
    /// Not supported.
    #[schema(value_type = Option<String>)]
    pub suffix: Option<Value>,
    /// How many answers are written to give the best `n`; only as many as those.
    pub best_of: Option<i64>,
    /// How text is written.
    #[serde(flatten)]
    pub options: Options,
}

/// What is continued.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// Token ids.
    Ids(Vec<i64>),
    /// Several lists of token ids.
    Lists(Vec<Vec<i64>>),
}

/// Continued texts.
#[derive(Serialize, ToSchema)]
pub struct Completion {
    id: String,
    /// `text_completion`.
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<Choice>,
    usage: Usage,
}

/// A continued text.
#[derive(Serialize, ToSchema)]
struct Choice {
    text: String,
    index: usize,
    logprobs: Option<Lists>,
    /// `stop` or `length`.
    finish_reason: Option<&'static str>,
    /// A beam's score.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

/// Log-probabilities, a list for each thing that is told of a token.
#[derive(Clone, Default, Serialize, ToSchema)]
struct Lists {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Vec<Option<BTreeMap<String, f64>>>,
    text_offset: Vec<usize>,
}

impl Lists {
    fn push(&mut self, tokenizer: &Tokenizer, id: u32, told: Option<(f32, &[(u32, f32)])>) {
        let last = self.tokens.last().map_or(0, |token| token.chars().count());
        self.text_offset.push(self.text_offset.last().map_or(0, |offset| offset + last));
        self.tokens.push(text(id, tokenizer));
        self.token_logprobs.push(told.map(|(logprob, _)| number(logprob)));
        let top = |&(id, logprob): &(u32, f32)| (text(id, tokenizer), number(logprob));
        self.top_logprobs.push(told.map(|(_, others)| others.iter().map(top).collect()));
    }
}

impl Prompt {
    /// Token ids of each, and the texts as they were given.
    fn ids(&self, generator: &TextGenerator) -> Result<(Vec<Vec<u32>>, Vec<String>), Fault> {
        let checked = |list: &Vec<i64>| {
            let ids = known_ids(list, generator.tokenizer(), "prompt")?;
            if ids.is_empty() {
                return Err(Fault::bad("prompt", "a prompt has no tokens"));
            }
            Ok(ids)
        };
        let texts = |texts: &[String]| Ok((generator.prompts(texts)?, texts.to_vec()));
        let lists = |lists: &[Vec<i64>]| {
            let ids: Vec<Vec<u32>> = lists.iter().map(checked).collect::<Result<_, Fault>>()?;
            let text = |ids: &Vec<u32>| generator.tokenizer().decode(ids, SpecialText::Skip);
            let texts = ids.iter().map(text).collect::<Result<_, _>>();
            Ok((ids, texts.map_err(glassformer::tasks::Error::from)?))
        };
        match self {
            Self::Text(text) => texts(std::slice::from_ref(text)),
            Self::Texts(given) => texts(given),
            Self::Ids(ids) => lists(std::slice::from_ref(ids)),
            Self::Lists(given) => lists(given),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Text(_) | Self::Ids(_) => 1,
            Self::Texts(texts) => texts.len(),
            Self::Lists(lists) => lists.len(),
        }
    }
}

/// Token ids of a request, if the model has them all.
pub fn known_ids(ids: &[i64], tokenizer: &Tokenizer, param: &str) -> Result<Vec<u32>, Fault> {
    let known = tokenizer.vocabulary().size();
    let one = |&id: &i64| {
        let own = u32::try_from(id).ok().filter(|&id| (id as usize) < known);
        own.ok_or_else(|| Fault::bad(param, format!("{id} is no id of the model's {known} tokens")))
    };
    ids.iter().map(one).collect()
}

/// Continue texts, or rewrite them
#[utoipa::path(post, path = "/v1/completions", tag = "OpenAI", request_body = CompletionRequest,
    responses((status = 200, body = Completion, description = "Continued texts; with `stream`, pieces of them as server-sent events")))]
pub async fn complete(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(mut request): Json<CompletionRequest>,
) -> Result<Response, Fault> {
    let start = Instant::now();
    let served = app.models().of(request.model.as_deref(), |served| served.generator().is_some())?.clone();
    let generator = served.writer()?;
    check(&request, &app)?;
    let echo = request.echo == Some(true);
    let nothing_new = echo && request.options.max_tokens == Some(0);
    if nothing_new {
        request.options.max_tokens = None;
    }
    let mut options = request.options.generate(generator, &app)?;
    if request.options.max_tokens.is_none() && request.options.max_completion_tokens.is_none() {
        options.decoding.max_new_tokens = options.decoding.max_new_tokens.or(Some(USUAL));
    }
    let top = within("logprobs", request.logprobs, 0, app.limits().logprobs as i64)?;
    options.decoding.logprobs = top.map(|top| top as usize);
    let (own, prompt) = (generator.clone(), request.prompt.clone());
    let (ids, texts) = app.compute(move || prompt.ids(&own)).await?;
    let scored = match options.decoding.logprobs.filter(|_| echo) {
        Some(top) if !generator.reads_source() => score(&app, &served, ids.clone(), top).await?,
        Some(_) | None => Vec::new(),
    };
    let head = Head {
        id: format!("cmpl-{}", super::fresh_id()),
        created: super::now(),
        model: served.name().to_owned(),
        prompts: if echo { texts } else { Vec::new() },
        ids: ids.clone(),
        scored,
    };
    if nothing_new {
        return Ok(axum::Json(head.prompts_alone(generator)).into_response());
    }
    let work = Work::begin(&app, &served, ids, options, (who, start)).await?;
    if request.options.streams() {
        let usage = request.options.tells_usage();
        let write = move |pieces| stream(work, head, usage, pieces);
        return Ok(streams::answer(Framing::Events, app.limits().write_time, write));
    }
    Ok(axum::Json(whole(work, head).await?).into_response())
}

/// How many tokens are written where nothing says how many.
const USUAL: usize = 256;

fn check(request: &CompletionRequest, app: &App) -> Result<(), Fault> {
    if request.suffix.as_ref().is_some_and(|suffix| !suffix.is_null() && suffix != "") {
        return Err(Fault::bad(
            "suffix",
            "texts are continued, and nothing is put in between: leave suffix out",
        ));
    }
    let returns = request.options.n.unwrap_or(1);
    if request.best_of.is_some_and(|best| best != returns) {
        return Err(Fault::bad("best_of", "as many answers are written as are given: leave best_of out"));
    }
    match request.prompt.count() {
        0 => Err(Fault::bad("prompt", "there is no prompt")),
        count if count > app.limits().texts => {
            Err(Fault::bad("prompt", format!("there are more than {} prompts", app.limits().texts)))
        }
        _ => Ok(()),
    }
}

/// How likely each token of a prompt is; nothing of prompts of a single token.
async fn score(
    app: &App,
    served: &std::sync::Arc<Served>,
    ids: Vec<Vec<u32>>,
    top: usize,
) -> Result<Vec<Option<Likelihood>>, Fault> {
    let served = served.clone();
    app.compute(move || {
        let long: Vec<Vec<u32>> = ids.iter().filter(|ids| ids.len() > 1).cloned().collect();
        let mut scored = served.reader()?.score_tokens(&long, top)?.into_iter();
        Ok(ids.iter().map(|ids| if ids.len() > 1 { scored.next() } else { None }).collect())
    })
    .await
}

/// What all pieces of an answer say.
struct Head {
    id: String,
    created: u64,
    model: String,
    /// The prompts as texts, where they are told.
    prompts: Vec<String>,
    ids: Vec<Vec<u32>>,
    /// How likely they are, where that is told.
    scored: Vec<Option<Likelihood>>,
}

impl Head {
    /// The text of prompt number `text`, where it is told.
    fn prompt(&self, text: usize) -> &str {
        self.prompts.get(text).map_or("", String::as_str)
    }

    /// What is told of the tokens of prompt number `text`.
    fn lists(&self, text: usize, tokenizer: &Tokenizer) -> Lists {
        let mut lists = Lists::default();
        if self.prompts.is_empty() {
            return lists;
        }
        let likelihood = self.scored.get(text).and_then(Option::as_ref);
        for (place, &id) in self.ids[text].iter().enumerate() {
            let told = likelihood.zip(place.checked_sub(1)).and_then(|(likelihood, at)| {
                let others = likelihood.others.get(at).map_or(&[][..], Vec::as_slice);
                Some((likelihood.tokens.get(at)?.logprob, others))
            });
            lists.push(tokenizer, id, told);
        }
        lists
    }

    fn choice(&self, index: usize, text: usize, written: &GeneratedText, work: &Work) -> Choice {
        let logprobs = work.asks_logprobs().then(|| {
            let tokenizer = work.generator().tokenizer();
            let mut lists = self.lists(text, tokenizer);
            for ((&id, &logprob), others) in written.ids.iter().zip(&written.logprobs).zip(&written.others) {
                lists.push(tokenizer, id, Some((logprob, others)));
            }
            lists
        });
        let whole = format!("{}{}", self.prompt(text), written.text);
        Choice {
            text: whole,
            index,
            logprobs,
            finish_reason: Some(reason(written.finish)),
            score: written.score,
        }
    }

    /// An answer in which nothing was written.
    fn prompts_alone(self, generator: &TextGenerator) -> Completion {
        let choice = |index: usize| {
            let logprobs = (!self.scored.is_empty()).then(|| self.lists(index, generator.tokenizer()));
            let text = self.prompt(index).to_owned();
            Choice { text, index, logprobs, finish_reason: Some(reason(Finish::Length)), score: None }
        };
        let choices = (0..self.ids.len()).map(choice).collect();
        let usage = Usage::new(self.ids.iter().map(Vec::len).sum(), 0);
        Completion {
            id: self.id,
            object: "text_completion",
            created: self.created,
            model: self.model,
            choices,
            usage,
        }
    }
}

async fn whole(mut work: Work, head: Head) -> Result<Completion, Fault> {
    let mut answers: Vec<Vec<GeneratedText>> = head.ids.iter().map(|_| Vec::new()).collect();
    while let Some(news) = work.next().await? {
        if let News::Done { text, written, .. } = news {
            answers[text] = written;
        }
    }
    let count = answers.iter().flatten().map(|written| written.ids.len()).sum();
    let usage = Usage::new(work.read_tokens(), count);
    let all = answers.iter().enumerate().flat_map(|(text, all)| all.iter().map(move |one| (text, one)));
    let choice = |(index, (text, written))| head.choice(index, text, written, &work);
    let choices = all.enumerate().map(choice).collect();
    let Head { id, created, model, .. } = head;
    Ok(Completion { id, object: "text_completion", created, model, choices, usage })
}

async fn stream(mut work: Work, head: Head, tells_usage: bool, pieces: Pieces) {
    pieces.end(pour(&mut work, &head, tells_usage, &pieces).await).await;
}

async fn pour(work: &mut Work, head: &Head, tells_usage: bool, pieces: &Pieces) -> Result<(), Broken> {
    let (returns, tokenizer) = (work.returns(), work.generator().clone());
    let tokenizer = tokenizer.tokenizer();
    let piece = |choices: Value, usage: Option<Usage>| {
        let mut piece = json!({
            "id": head.id, "object": "text_completion", "created": head.created, "model": head.model, "choices": choices,
        });
        if let Some(usage) = usage {
            piece["usage"] = json!(usage);
        }
        piece
    };
    let choice = |index: usize, text: &str, finish: Option<&'static str>, logprobs: Option<Lists>| json!([{ "index": index, "text": text, "finish_reason": finish, "logprobs": logprobs }]);
    let logprobs = work.asks_logprobs();
    let mut told: Vec<Lists> = vec![Lists::default(); head.ids.len() * returns];
    for (text, prompt) in head.prompts.iter().enumerate() {
        for sequence in 0..returns {
            let lists = logprobs.then(|| head.lists(text, tokenizer));
            pieces.send(&piece(choice(text * returns + sequence, prompt, None, lists), None)).await?;
        }
    }
    let mut count = 0;
    while let Some(news) = pieces.during(work.next()).await?? {
        match news {
            News::Token { text, sequence, piece: part, token } => {
                count += 1;
                let index = text * returns + sequence;
                if let Some(logprob) = token.logprob {
                    told[index].push(tokenizer, token.id, Some((logprob, &token.others)));
                }
                if !part.is_empty() {
                    let lists = logprobs.then(|| std::mem::take(&mut told[index]));
                    pieces.send(&piece(choice(index, &part, None, lists), None)).await?;
                }
            }
            News::Done { text, rest, written } => {
                for (sequence, (rest, written)) in rest.iter().zip(&written).enumerate() {
                    let index = text * returns + sequence;
                    let lists = logprobs.then(|| std::mem::take(&mut told[index]));
                    let last = choice(index, rest, Some(reason(written.finish)), lists);
                    pieces.send(&piece(last, None)).await?;
                }
            }
        }
    }
    if tells_usage {
        pieces.send(&piece(json!([]), Some(Usage::new(work.read_tokens(), count)))).await?;
    }
    Ok(())
}
