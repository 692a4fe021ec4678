//! What gateways and dashboards ask of a server, in Prometheus' text form, by the names that they know.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use glassformer::tasks::ServiceLoad;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::App;
use crate::models::Served;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    model: String,
    finished_reason: &'static str,
}

type Times = Family<OfModel, Histogram, fn() -> Histogram>;
type Level = Family<OfModel, Gauge<f64, AtomicU64>>;

/// All that is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    first_token: Times,
    between_tokens: Times,
    whole: Times,
    prompt_tokens: Family<OfModel, Counter>,
    generation_tokens: Family<OfModel, Counter>,
    finished: Family<Finished, Counter>,
    running: Level,
    waiting: Level,
    queued_tokens: Level,
    pages: Level,
    asked_tokens: Level,
    kept_tokens: Level,
    preempted: Level,
    panics: Level,
    memory: Gauge<f64, AtomicU64>,
    invalid: Family<OfModel, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    ])
}

impl Metrics {
    pub fn new() -> Self {
        let times = || Times::new_with_constructor(seconds as fn() -> Histogram);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            first_token: times(),
            between_tokens: times(),
            whole: times(),
            prompt_tokens: Family::default(),
            generation_tokens: Family::default(),
            finished: Family::default(),
            running: Level::default(),
            waiting: Level::default(),
            queued_tokens: Level::default(),
            pages: Level::default(),
            asked_tokens: Level::default(),
            kept_tokens: Level::default(),
            preempted: Level::default(),
            panics: Level::default(),
            memory: Gauge::default(),
            invalid: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Requests, by route and status", self.requests.clone());
        registry.register(
            "time_to_first_token_seconds",
            "From a request to its first token",
            self.first_token.clone(),
        );
        registry.register(
            "inter_token_latency_seconds",
            "From one token to the next",
            self.between_tokens.clone(),
        );
        registry.register(
            "e2e_request_latency_seconds",
            "From a request to the end of its answer",
            self.whole.clone(),
        );
        registry.register("prompt_tokens", "Tokens of prompts and sources", self.prompt_tokens.clone());
        registry.register("generation_tokens", "Tokens that were written", self.generation_tokens.clone());
        registry.register(
            "request_success",
            "Texts that were written, by why they ended",
            self.finished.clone(),
        );
        registry.register(
            "nan_logits",
            "Texts that ended because scores were not numbers",
            self.invalid.clone(),
        );
        let levels = [
            ("num_requests_running", "Sequences that are written now", &self.running),
            ("num_requests_waiting", "Requests that wait", &self.waiting),
            ("num_tokens_waiting", "Tokens of prompts that wait", &self.queued_tokens),
            ("kv_cache_usage_perc", "Share of the pages for keys and values that is held", &self.pages),
            (
                "prefix_cache_queries",
                "Tokens that could have been kept from earlier requests",
                &self.asked_tokens,
            ),
            ("prefix_cache_hits", "Those that were", &self.kept_tokens),
            ("num_preemptions", "How often a request had to give its pages back", &self.preempted),
            ("engine_panics", "Steps of a model that broke", &self.panics),
        ];
        for (name, help, level) in levels {
            registry.register(name, help, level.clone());
        }
        registry.register("process_resident_memory_bytes", "Memory of the process", self.memory.clone());
    }

    /// Everything, as text.
    pub fn text<'m>(&self, models: impl IntoIterator<Item = &'m Served>) -> String {
        for served in models {
            let label = OfModel { model: served.name().to_owned() };
            let Some(generator) = served.generator() else { continue };
            let ServiceLoad { queued, queued_tokens, session, panics, .. } = generator.load();
            let share = session.held_pages as f64 / session.pages.max(1) as f64;
            let levels = [
                (&self.running, session.running as f64),
                (&self.waiting, (queued + session.waiting) as f64),
                (&self.queued_tokens, queued_tokens as f64),
                (&self.pages, share),
                (&self.asked_tokens, session.asked_tokens as f64),
                (&self.kept_tokens, session.kept_tokens as f64),
                (&self.preempted, session.preempted as f64),
                (&self.panics, panics as f64),
            ];
            for (level, value) in levels {
                level.get_or_create(&label).set(value);
            }
        }
        self.memory.set(resident().unwrap_or(0.0));
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }

    /// A clock for one request to a model.
    pub fn clock(&self, model: &str, start: Instant) -> Clock {
        let label = OfModel { model: model.to_owned() };
        Clock {
            prompt: self.prompt_tokens.get_or_create_owned(&label),
            written: self.generation_tokens.get_or_create_owned(&label),
            first: self.first_token.get_or_create_owned(&label),
            between: self.between_tokens.get_or_create_owned(&label),
            whole: self.whole.get_or_create_owned(&label),
            invalid: self.invalid.get_or_create_owned(&label),
            finished: self.finished.clone(),
            label,
            start,
            last: None,
        }
    }
}

/// Measures one request.
pub struct Clock {
    label: OfModel,
    prompt: Counter,
    written: Counter,
    first: Histogram,
    between: Histogram,
    whole: Histogram,
    invalid: Counter,
    finished: Family<Finished, Counter>,
    start: Instant,
    last: Option<Instant>,
}

impl Clock {
    /// So many tokens were read.
    pub fn read(&self, tokens: usize) {
        self.prompt.inc_by(tokens as u64);
    }

    /// A token was written.
    pub fn token(&mut self) {
        let now = Instant::now();
        let seconds = |time: Duration| time.as_secs_f64();
        match self.last.replace(now) {
            Some(last) => self.between.observe(seconds(now - last)),
            None => self.first.observe(seconds(now - self.start)),
        }
        self.written.inc();
    }

    /// Whether tokens were told one by one.
    pub fn has_tokens(&self) -> bool {
        self.last.is_some()
    }

    /// So many tokens were written at once.
    pub fn tokens(&mut self, count: usize) {
        self.written.inc_by(count as u64);
    }

    /// A text is done, for this reason.
    pub fn done(&self, finished_reason: &'static str) {
        let label = Finished { model: self.label.model.clone(), finished_reason };
        self.finished.get_or_create(&label).inc();
    }

    /// A text could not be written because scores were not numbers.
    pub fn invalid(&self) {
        self.invalid.inc();
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.whole.observe(self.start.elapsed().as_secs_f64());
    }
}

/// Counts requests by their route: paths that are no route are counted as one.
pub async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let code = response.status().as_u16();
    app.metrics().requests.get_or_create(&Answered { route, code }).inc();
    response
}

/// Bytes of memory that the process has, where the system says so.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
