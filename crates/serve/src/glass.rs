//! The page at `/`, and what it asks for: runs with everything that was computed. A run stays for a while, so that the page can fetch
//! the tensors that a reader looks at.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use glassformer::explain::record::{About, Level};
use glassformer::explain::why::{Each, Edit, Edits, Method, Questions, With};
use glassformer::explain::{self, Detail, Follow, page};
use glassformer::tensor::Tensor;
use glassformer::{Backend, Model, TextEncoder, TextGenerator, tasks};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::body::Json;
use crate::fault::Fault;
use crate::keys::Who;
use crate::models::Served;
use crate::openai::fresh_id;
use crate::openai::options::within;

/// Runs that are kept for all callers together, the latest.
const RUNS: usize = 16;
/// Numbers of all that are kept: 256 MB.
const NUMBERS: usize = 64 << 20;
/// Tokens that are written where nobody says how many.
const NEW_TOKENS: usize = 12;
/// The most tokens that are written.
const MOST_TOKENS: i64 = 256;
/// Steps of integrated gradients.
const STEPS: usize = 64;

/// A model that is shown: by what it does with texts.
pub enum Shown {
    /// It writes.
    Writes(Box<TextGenerator>),
    /// It reads.
    Reads(Box<TextEncoder>),
}

impl Shown {
    fn model(&self) -> &Model {
        match self {
            Self::Writes(generator) => &generator.checkpoint().model,
            Self::Reads(encoder) => &encoder.checkpoint().model,
        }
    }
}

/// How a model is shown: it is opened for that when somebody asks first, and computed by `backend`.
pub struct Glass {
    backend: Arc<dyn Backend>,
    precision: String,
    open: Box<OpenShown>,
    opened: OnceLock<Shown>,
}

type OpenShown = dyn Fn() -> Result<Shown, tasks::Error> + Send + Sync;

impl Glass {
    /// A model that `open` opens, computed by `backend` in this precision.
    pub fn new(
        backend: Arc<dyn Backend>,
        precision: impl Into<String>,
        open: impl Fn() -> Result<Shown, tasks::Error> + Send + Sync + 'static,
    ) -> Self {
        Self { backend, precision: precision.into(), open: Box::new(open), opened: OnceLock::new() }
    }

    fn shown(&self) -> Result<&Shown, Fault> {
        if let Some(shown) = self.opened.get() {
            return Ok(shown);
        }
        let shown = (self.open)()?;
        Ok(self.opened.get_or_init(|| shown))
    }
}

/// A run that the page may ask about.
struct Kept {
    id: String,
    who: Who,
    served: Arc<Served>,
    numbers: Numbers,
}

/// What a run computed, by name.
type Numbers = Arc<BTreeMap<String, Tensor>>;

/// The latest runs, oldest first.
#[derive(Default)]
pub struct Runs(Mutex<VecDeque<Kept>>);

impl Runs {
    fn keep(&self, kept: Kept) {
        let count = |kept: &Kept| kept.numbers.values().map(|tensor| tensor.data().len()).sum::<usize>();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push_back(kept);
        while runs.len() > RUNS || runs.len() > 1 && runs.iter().map(count).sum::<usize>() > NUMBERS {
            runs.pop_front();
        }
    }

    /// The run `id` of this caller.
    fn find(&self, who: Who, id: &str) -> Option<(Arc<Served>, Numbers)> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = runs.iter().find(|kept| kept.id == id && kept.who == who)?;
        Some((found.served.clone(), found.numbers.clone()))
    }
}

/// The page. It has nothing inside that needs a key.
pub async fn front() -> Response {
    let policy = format!("{}; frame-ancestors 'none'", page::policy());
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, policy.as_str()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, page::PAGE).into_response()
}

/// A model that can be shown.
#[derive(Serialize, ToSchema)]
pub struct ShownModel {
    /// What it is called.
    name: String,
    /// What kind of model it is: `marian`, `llama`.
    kind: String,
    /// What it can be asked.
    tasks: Vec<&'static str>,
    /// Its formula.
    formula: String,
}

/// Which models can be shown
#[utoipa::path(get, path = "/glass/models", tag = "Glassformer", responses((status = 200, body = Vec<ShownModel>)))]
pub async fn models(State(app): State<App>) -> axum::Json<Vec<ShownModel>> {
    let shown = |served: &Arc<Served>| ShownModel {
        name: served.name().to_owned(),
        kind: served.kind().to_owned(),
        tasks: served.abilities().into_iter().map(crate::Ability::word).collect(),
        formula: served.formula(),
    };
    axum::Json(app.models().all().iter().filter(|served| served.glass().is_some()).map(shown).collect())
}

/// The worked example, run and checked
#[utoipa::path(get, path = "/glass/document", tag = "Glassformer", responses((status = 200, description = "As `explain --json` has it")))]
pub async fn document(State(app): State<App>) -> Result<Response, Fault> {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let made = || {
        if let Some(made) = DOCUMENT.get() {
            return Ok(made.as_str());
        }
        let made = page::document()?;
        Ok(DOCUMENT.get_or_init(|| made).as_str())
    };
    let text = app.compute(made).await?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// A text that is to be followed through a model.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ExplainRequest {
    /// Which model; the first that can be shown if none is named.
    model: Option<String>,
    /// The text.
    text: String,
    /// The second text of a pair: the context of a question, a hypothesis.
    second: Option<String>,
    /// How many tokens are written at most; 12 if not given.
    #[schema(minimum = 1, maximum = 256)]
    max_new_tokens: Option<i64>,
    /// How many beams a search follows; as the model says if not given.
    #[schema(minimum = 1, maximum = 16)]
    beams: Option<i64>,
}

impl ExplainRequest {
    fn follow(&self) -> Result<Follow<'_>, Fault> {
        if self.text.trim().is_empty() {
            return Err(Fault::bad("text", "text is empty; give a sentence"));
        }
        let most = within("max_new_tokens", self.max_new_tokens, 1, MOST_TOKENS)?;
        let max_new_tokens = most.map_or(NEW_TOKENS, |most| most as usize);
        Ok(Follow {
            text: &self.text,
            second: self.second.as_deref(),
            max_new_tokens,
            detail: Detail::Summary,
        })
    }

    /// How `generator` writes.
    fn options(&self, follow: &mut Follow<'_>, generator: &TextGenerator) -> Result<tasks::Generate, Fault> {
        let mut options = follow.usual(generator);
        if let Some(beams) = within("beams", self.beams, 1, 16)? {
            options.decoding.beams = beams as usize;
        }
        // Which beam is the best is known at the end alone, so all of it is there.
        if options.decoding.beams > 1 {
            follow.max_new_tokens = MOST_TOKENS as usize;
        } else {
            options.decoding.max_new_tokens = Some(follow.max_new_tokens);
        }
        Ok(options)
    }

    fn served(&self, app: &App) -> Result<Arc<Served>, Fault> {
        app.models().of(self.model.as_deref(), |served| served.glass().is_some()).cloned()
    }
}

fn glass(served: &Served) -> Result<&Glass, Fault> {
    let name = served.name();
    served.glass().ok_or_else(|| {
        Fault::body("unsupported_task", format!("the model {name} is not shown by this server"))
    })
}

/// Follow a text through a model: the run as `trace.json` has it, with an `trace` by which its tensors can be asked for
#[utoipa::path(post, path = "/glass/explain", tag = "Glassformer", request_body = ExplainRequest,
    responses((status = 200, description = "The run, as `explain --trace` writes it")))]
pub async fn run(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Json(request): Json<ExplainRequest>,
) -> Result<Response, Fault> {
    let served = request.served(&app)?;
    let own = served.clone();
    let recording = app
        .compute(move || {
            let mut follow = request.follow()?;
            let glass = glass(&own)?;
            let (name, precision) = (own.name().to_owned(), glass.precision.clone());
            let about = About { name, precision, ..About::default() };
            let (backend, with) = (&*glass.backend, (&about, Level::Steps));
            Ok(match glass.shown()? {
                Shown::Writes(generator) => {
                    let options = request.options(&mut follow, generator)?;
                    follow.record_written(generator, &options, backend, with)?
                }
                Shown::Reads(encoder) => follow.record_read(encoder, backend, with)?,
            })
        })
        .await?;
    let (id, json) = (fresh_id(), recording.json()?);
    app.runs().keep(Kept { id: id.clone(), who, served, numbers: Arc::new(recording.numbers) });
    let body = json.replacen('{', &format!("{{\"trace\":\"{id}\","), 1);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The numbers of a tensor of a run: `f32`, little-endian, row by row
#[utoipa::path(get, path = "/glass/t/{run}/{tensor}", tag = "Glassformer", responses((status = 200, content_type = "application/octet-stream")))]
pub async fn tensor(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Path((run, name)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let gone = "there is no such run any more; follow the text again";
    let (served, numbers) =
        app.runs().find(who, &run).ok_or_else(|| Fault::refused(StatusCode::NOT_FOUND, "not_found", gone))?;
    let bytes = app
        .compute(move || {
            let bytes =
                |tensor: &Tensor| -> Vec<u8> { tensor.data().iter().flat_map(|x| x.to_le_bytes()).collect() };
            if let Some(tensor) = numbers.get(&name) {
                return Ok(bytes(tensor));
            }
            // Weights are where they were.
            let weight = glass(&served)?.shown()?.model().tensor(&name);
            let none = || Fault::refused(StatusCode::NOT_FOUND, "not_found", "the run has no such tensor");
            weight.as_ref().map(bytes).ok_or_else(none)
        })
        .await?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// What is asked about a run.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct WhyRequest {
    #[serde(flatten)]
    run: ExplainRequest,
    /// What is done to the run, as `explain --edit` reads it.
    #[schema(value_type = Vec<Object>)]
    edits: Option<Vec<Edit>>,
    /// Whether the score is taken apart into what each head and sublayer wrote.
    attribute: Option<bool>,
    /// What is taken away in turn: `heads` or `sublayers`.
    ablate: Option<String>,
    /// Which tokens the score hangs on: `input` or `integrated`.
    gradients: Option<String>,
    /// Which score; that of what was written or chosen if not given.
    about: Option<String>,
    /// Why not this one: its score is subtracted.
    contrast: Option<String>,
    /// Which word that was written, or which blank or token, counted from 1.
    place: Option<usize>,
}

impl WhyRequest {
    fn questions(&self) -> Result<Questions, Fault> {
        let wrong = |name: &str, given: &str, known: &str| {
            Fault::bad(name, format!("{name} is {given:?}; it can be {known}"))
        };
        let ablate = match self.ablate.as_deref() {
            None => None,
            Some("heads") => Some((Each::Heads, With::Zero)),
            Some("sublayers") => Some((Each::Sublayers, With::Zero)),
            Some(other) => return Err(wrong("ablate", other, "heads or sublayers")),
        };
        let gradients = match self.gradients.as_deref() {
            None => None,
            Some("input") => Some(Method::GradientTimesInput),
            Some("integrated") => Some(Method::Integrated { steps: STEPS }),
            Some(other) => return Err(wrong("gradients", other, "input or integrated")),
        };
        Ok(Questions {
            lens: false,
            heads: false,
            attribute: self.attribute.unwrap_or_default(),
            ablate,
            gradients,
            edits: self.edits.clone().map(|edits| Edits { schema: 1, edits }),
            about: self.about.clone(),
            contrast: self.contrast.clone(),
            place: self.place,
        })
    }
}

/// Ask why: what edits change, what wrote a score, what becomes of it without each head, which tokens it hangs on
#[utoipa::path(post, path = "/glass/why", tag = "Glassformer", request_body = WhyRequest,
    responses((status = 200, description = "The answers, as `explain --json` has them")))]
pub async fn why(State(app): State<App>, Json(request): Json<WhyRequest>) -> Result<Response, Fault> {
    let served = request.run.served(&app)?;
    let body = app
        .compute(move || {
            let (mut follow, questions) = (request.run.follow()?, request.questions()?);
            let glass = glass(&served)?;
            let why = match glass.shown()? {
                Shown::Writes(generator) => {
                    let options = request.run.options(&mut follow, generator)?;
                    follow.why_written((generator, &options), &*glass.backend, &questions)?.0
                }
                Shown::Reads(encoder) => follow.why_read(encoder, &*glass.backend, &questions)?,
            };
            serde_json::to_string(&why).map_err(|error| Fault::internal(error.to_string()))
        })
        .await?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// What explaining says is wrong, to who asked over HTTP.
impl From<explain::Error> for Fault {
    fn from(error: explain::Error) -> Self {
        match error {
            explain::Error::Tasks(error) => error.into(),
            explain::Error::Long { limit, .. } => {
                let message = format!("{error}, and {limit} at most can be followed; give a sentence");
                Self::refused(StatusCode::UNPROCESSABLE_ENTITY, "context_length_exceeded", message)
            }
            explain::Error::Pair { what, hint } => Self::body("invalid_input", format!("{what}; {hint}")),
            explain::Error::Why { .. }
            | explain::Error::Edits { .. }
            | explain::Error::NoTensor { .. }
            | explain::Error::Detail { .. } => Self::body("invalid_value", error.to_string()),
            other => {
                tracing::error!(error = %other, "a run could not be shown");
                Self::internal("the run could not be shown; the server's log says why")
            }
        }
    }
}
