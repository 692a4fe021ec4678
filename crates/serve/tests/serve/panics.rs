//! A step of a model that panics: who was in it is told, nobody else notices, and the next request is answered.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glassformer::graph::{
    Ask, Batch, Capacity, Constants, Dtype, Error, Graph, Leaders, PageLayout, Runner, State,
};
use glassformer::tasks::{QueueLimits, Reserve};
use glassformer::{Backend, Cpu, TextEncoder, TextGenerator};
use glassformer_serve::{Keys, Limits, Served, Server};
use serde_json::{Value, json};

use super::{backend, folder, get, post, writing};

/// A backend whose next run panics when it is told to.
struct Breaking {
    inner: Cpu,
    next: Arc<AtomicBool>,
}

impl Backend for Breaking {
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        capacity: &Capacity,
    ) -> Result<Box<dyn Runner>, Error> {
        let inner = self.inner.prepare(graph, weights, capacity)?;
        Ok(Box::new(BreakingRunner { inner, next: self.next.clone() }))
    }
}

struct BreakingRunner {
    inner: Box<dyn Runner>,
    next: Arc<AtomicBool>,
}

impl Runner for BreakingRunner {
    fn graph(&self) -> &Arc<Graph> {
        self.inner.graph()
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        assert!(!self.next.swap(false, Ordering::SeqCst), "told to panic");
        self.inner.run(state, batch)
    }

    fn read<'s>(&self, state: &'s State, output: usize, rows: Range<usize>) -> Result<Cow<'s, [f32]>, Error> {
        self.inner.read(state, output, rows)
    }

    fn leaders(&self, state: &State, output: usize, ask: Ask, into: &mut Leaders) -> Result<(), Error> {
        self.inner.leaders(state, output, ask, into)
    }

    fn write(&self, state: &mut State, name: &str, numbers: &[f32]) -> Result<(), Error> {
        self.inner.write(state, name, numbers)
    }

    fn kept<'s>(&self, state: &'s State, name: &str) -> Result<Cow<'s, [f32]>, Error> {
        self.inner.kept(state, name)
    }

    fn keeps(&self) -> Dtype {
        self.inner.keeps()
    }

    fn page_bytes(&self, layout: &PageLayout) -> usize {
        self.inner.page_bytes(layout)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_panics_ends_what_was_in_it_and_nothing_else() {
    let next = Arc::new(AtomicBool::new(false));
    let breaking: Arc<dyn Backend> = Arc::new(Breaking { inner: Cpu::new(2), next: next.clone() });
    let generator = TextGenerator::open(folder("story"), breaking).expect("it opens");
    let queue = QueueLimits { orders: 64, tokens: 10_000 };
    generator
        .reserve(&Reserve { sequences: 4, longest: 256, memory: 64 << 20, queue })
        .expect("there is memory");
    let story = Served::writing("story", generator, || TextEncoder::open(folder("story"), backend()));
    let router = Server::new(vec![story, writing("talk")], Limits::default(), Keys::default()).router();
    let body =
        |model: &str| json!({ "model": model, "prompt": "The cat", "max_tokens": 5, "temperature": 0 });
    let text = |answer: &Value| answer["choices"][0]["text"].clone();
    let before = text(&post(&router, "/v1/completions", body("story")).await.ok());

    next.store(true, Ordering::SeqCst);
    let (broken, other) = tokio::join!(
        post(&router, "/v1/completions", body("story")),
        post(&router, "/v1/completions", body("talk"))
    );
    let told = broken.refused(500, None);
    assert!(!told.contains("told to panic"), "{told}");
    other.ok();
    let metrics = get(&router, "/metrics").await.body;
    assert!(metrics.contains("engine_panics{model=\"story\"} 1"), "{metrics}");
    assert!(metrics.contains("engine_panics{model=\"talk\"} 0"), "{metrics}");

    assert_eq!(text(&post(&router, "/v1/completions", body("story")).await.ok()), before);
    assert_eq!(get(&router, "/health/ready").await.status.as_u16(), 200);
}
