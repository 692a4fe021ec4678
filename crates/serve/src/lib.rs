//! One process that serves models of every family over HTTP: encoders, decoders and encoder-decoders, to programs that people already
//! have.
//!
//! It speaks the interface of `OpenAI`, those of text-embeddings-inference and Ollama as far as they read, and one of its own for what
//! nobody else serves: translations, summaries, classes, names, answers, blanks, scores. `/docs` describes all of it.
//!
//! ```no_run
//! use glassformer_serve::{Keys, Limits, Served, Server};
//!
//! # async fn example() -> std::io::Result<()> {
//! let models = vec![Served::translator(glassformer::translator().expect("it is part of the program"))];
//! let server = Server::new(models, Limits::default(), Keys::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! server.run(listener, async { drop(tokio::signal::ctrl_c().await) }).await;
//! # Ok(())
//! # }
//! ```
//!
//! Requests of all callers run together: each model that writes has a thread that takes steps of all texts at once, each model that
//! reads runs what came meanwhile as one batch. Everything is checked against [`Limits`] before it waits. Results are the same bits as
//! alone.
#![forbid(unsafe_code)]

mod body;
mod calendar;
mod docs;
mod edge;
mod fault;
mod glass;
mod keys;
mod limits;
mod metrics;
mod models;
mod ollama;
mod openai;
mod own;
mod routes;
mod streams;
mod tei;
mod words;
mod work;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use fault::Fault;
use metrics::Metrics;
use models::Models;

pub use glass::{Glass, Shown};
pub use keys::Keys;
pub use limits::Limits;
pub use models::{Ability, Served};

/// What every request sees.
#[derive(Clone)]
struct App(Arc<Shared>);

struct Shared {
    models: Models,
    limits: Limits,
    keys: Keys,
    hosts: Vec<String>,
    metrics: Metrics,
    /// Runs that the page may ask about.
    runs: glass::Runs,
    /// Threads for requests that compute, or wait for a model that reads.
    threads: Semaphore,
    /// Requests that have such a thread, or wait for one.
    waiting: AtomicUsize,
    ready: AtomicBool,
    began: u64,
}

impl App {
    fn models(&self) -> &Models {
        &self.0.models
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn keys(&self) -> &Keys {
        &self.0.keys
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn runs(&self) -> &glass::Runs {
        &self.0.runs
    }

    /// Whether new requests are welcome.
    fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Relaxed)
    }

    /// When the server began, in seconds since 1970.
    fn began(&self) -> u64 {
        self.0.began
    }

    /// The hosts that requests may name; any where there are none.
    fn hosts(&self) -> &[String] {
        &self.0.hosts
    }

    /// Computes on a thread that may block, when there is one.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let shared = &self.0;
        let waiting = Waiting::new(&shared.waiting);
        if waiting.count > shared.limits.queue + THREADS {
            return Err(Fault::busy(waiting.count));
        }
        let _thread = shared.threads.acquire().await.map_err(|_| Fault::internal("there are no threads"))?;
        // A panic is told by the one who waits for it.
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request broke something");
            Err(Fault::internal("the request broke something; the server's log says what"))
        })
    }
}

/// One of those who wait for a thread, or have one.
struct Waiting<'a> {
    counter: &'a AtomicUsize,
    count: usize,
}

impl<'a> Waiting<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        Self { counter, count }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads that may compute or wait for a model that reads at once.
const THREADS: usize = 64;

/// A server, before it runs.
pub struct Server {
    app: App,
}

impl Server {
    /// A server of `models`, the first of which answers where a request names none.
    pub fn new(models: Vec<Served>, limits: Limits, keys: Keys) -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let shared = Shared {
            models: Models::new(models),
            limits,
            keys,
            hosts: Vec::new(),
            metrics: Metrics::new(),
            runs: glass::Runs::default(),
            threads: Semaphore::new(THREADS),
            waiting: AtomicUsize::new(0),
            ready: AtomicBool::new(true),
            began,
        };
        Self { app: App(Arc::new(shared)) }
    }

    /// Answers only requests whose `Host` is one of these, so that no page of another site can ask through a browser.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<String>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.app.0) {
            shared.hosts = hosts;
        }
        self
    }

    /// The routes, to be served by other means, or tested without a connection.
    pub fn router(&self) -> Router {
        routes::router(&self.app)
    }

    /// Serves `listener` until `end` is done: then it accepts nothing more, and waits for what is under way.
    pub async fn run(self, listener: TcpListener, end: impl Future<Output = ()>) {
        let (ending, ended) = watch::channel(false);
        let serving = edge::serve(listener, self.router(), *self.app.limits(), ended);
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            () = serving.as_mut() => return,
            () = end => {}
        }
        self.app.0.ready.store(false, Ordering::Relaxed);
        let _ = ending.send(true);
        serving.await;
    }
}

/// Why a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to (SIGTERM).
    Terminated,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

impl Server {
    /// Serves `address` until a signal comes, and then ends in good order; a second signal ends it at once. `begun` hears where it
    /// listens.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn run_until_signal(self, address: SocketAddr, begun: impl FnOnce(SocketAddr)) -> io::Result<Ended> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(THREADS + 4)
            .thread_name("glassformer-http")
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind(address).await?;
            // From here on a signal ends it in order.
            let mut signals = Signals::new()?;
            begun(listener.local_addr()?);
            let mut why = Ended::Terminated;
            let end = async {
                why = signals.next().await;
                tokio::spawn(async move {
                    signals.next().await;
                    tracing::warn!("told twice to end: what was under way is lost");
                    std::process::exit(130);
                });
            };
            self.run(listener, end).await;
            Ok(why)
        })
    }
}

/// Signals to end.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one.
    async fn next(&mut self) -> Ended {
        tokio::select! {
            _ = self.terminate.recv() => Ended::Terminated,
            _ = self.interrupt.recv() => Ended::Interrupted,
        }
    }
}

/// Signals to end: Ctrl-C alone.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for one.
    async fn next(&mut self) -> Ended {
        let _ = tokio::signal::ctrl_c().await;
        Ended::Interrupted
    }
}
