//! `LibreTranslate`'s `/translate`, `/languages` and `/detect`, as far as a model says what it translates.

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::Texts;
use super::writing::{Given, translated};
use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;

/// Texts to be translated.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct LibreRequest {
    /// A text, or several.
    pub q: Texts,
    /// The language of the texts; `auto` where the model reads one alone.
    pub source: String,
    /// The language to translate into.
    pub target: String,
    /// `text`: nothing else is read.
    pub format: Option<String>,
}

/// Translated texts.
#[derive(Serialize, ToSchema)]
pub struct LibreAnswer {
    /// A text where one was given, and a list of them otherwise.
    #[serde(rename = "translatedText")]
    #[schema(value_type = Object)]
    translated_text: Value,
}

/// Translate texts, as `LibreTranslate` does
#[utoipa::path(post, path = "/translate", tag = "LibreTranslate", request_body = LibreRequest,
    responses((status = 200, body = LibreAnswer)))]
pub async fn translate(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<LibreRequest>,
) -> Result<axum::Json<LibreAnswer>, Fault> {
    if request.format.as_deref().is_some_and(|format| format != "text") {
        return Err(Fault::bad("format", "only text is read"));
    }
    let single = matches!(request.q, Texts::One(_));
    let texts = request.q.all(&app)?;
    let from = Some(request.source).filter(|source| source != "auto");
    let given = Given { from, to: Some(request.target), ..Given::default() };
    let (_, texts, _) = translated(&app, who, texts, given).await?;
    let mut texts = texts.into_iter().map(|(text, _)| text);
    let translated_text = if single { json!(texts.next()) } else { json!(texts.collect::<Vec<_>>()) };
    Ok(axum::Json(LibreAnswer { translated_text }))
}

/// A language, and what it is translated into.
#[derive(Serialize, ToSchema)]
pub struct LanguagePair {
    code: String,
    name: String,
    targets: Vec<String>,
}

/// The pairs of the models whose files say which languages they translate.
fn pairs(app: &App) -> Vec<(String, String)> {
    let models = app.models().all().iter().filter_map(|served| served.generator());
    let pair = |(from, to): (&str, &str)| (from.to_owned(), to.to_owned());
    models.filter_map(|generator| generator.tokenizer().languages().map(pair)).collect()
}

/// The languages that are translated, of the models whose files say so
#[utoipa::path(get, path = "/languages", tag = "LibreTranslate", responses((status = 200, body = Vec<LanguagePair>)))]
pub async fn languages(State(app): State<App>) -> axum::Json<Vec<LanguagePair>> {
    let one =
        |(from, to): (String, String)| LanguagePair { name: from.clone(), code: from, targets: vec![to] };
    axum::Json(pairs(&app).into_iter().map(one).collect())
}

/// A text whose language is asked for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct DetectRequest {
    /// The text.
    pub q: String,
}

/// A language that a text may be in.
#[derive(Serialize, ToSchema)]
pub struct Detected {
    language: &'static str,
    /// From 0 to 100: how much of the text is written so.
    confidence: f64,
}

/// Say what a text is written in, where its script says so: Chinese, Japanese, Korean; nothing otherwise
#[utoipa::path(post, path = "/detect", tag = "LibreTranslate", request_body = DetectRequest,
    responses((status = 200, body = Vec<Detected>)))]
pub async fn detect(Json(request): Json<DetectRequest>) -> axum::Json<Vec<Detected>> {
    axum::Json(detected(&request.q).into_iter().collect())
}

/// Letters of one script are of one language; Latin and Cyrillic ones are of many, which is not guessed.
fn detected(text: &str) -> Option<Detected> {
    let letters: Vec<char> = text.chars().filter(|c| c.is_alphabetic()).collect();
    let share =
        |is: fn(&char) -> bool| letters.iter().filter(|c| is(c)).count() as f64 / letters.len().max(1) as f64;
    let kana = share(|c| matches!(c, '\u{3040}'..='\u{30ff}'));
    let hangul = share(|c| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}'));
    let han = share(|c| matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'));
    let (language, share) = match () {
        () if kana > 0.1 => ("ja", kana + han),
        () if hangul > 0.5 => ("ko", hangul),
        () if han > 0.5 => ("zh", han),
        () => return None,
    };
    Some(Detected { language, confidence: (share * 100.0).round() })
}
