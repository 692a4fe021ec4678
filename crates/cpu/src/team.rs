//! A team of threads that walks a whole plan together: one task, run by every worker, with barriers between steps.
//!
//! It is not a thread pool: there is no queue and no future. A pass over a Transformer is about two hundred short steps, so what
//! counts is the price of going from one step to the next. Workers therefore spin for a while at a barrier before they park, and the
//! work of a step is handed out by one atomic counter, or by one for each worker where it matters who has what.
//!
//! A run allocates nothing. Which worker gets which item depends on timing; so must nothing that the items compute.

use std::any::Any;
use std::cell::Cell;
use std::hint::spin_loop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a worker spins at a barrier: about twice what it costs to put a thread to sleep and wake it again.
const PATIENCE_IN_A_RUN: Duration = Duration::from_micros(100);
/// How long a helper spins for the next run: long enough to bridge the sampling of one token.
const PATIENCE_BETWEEN_RUNS: Duration = Duration::from_micros(200);
/// Looks at a gate between two looks at the clock.
const LOOKS: usize = 64;
/// Times a worker gives its core away before it parks, where there are more workers than cores. With 5 workers on 2
/// cores a barrier takes 10 µs without yields, 8 µs with one, 2.5 µs with 4, and no less with 16.
const YIELDS: usize = 4;

/// A fixed number of threads that run one task together. The thread that calls [`Team::run`] is worker 0.
///
/// Between runs the helpers spin for 200 µs, then sleep. Dropping the team ends them.
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    running: Mutex<()>,
}

impl Team {
    /// A team of `threads` workers, the caller included.
    ///
    /// Where the system refuses to start that many threads the team is smaller: results never depend on its size.
    /// [`Team::size`] says what came out.
    pub fn new(threads: NonZeroUsize) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let shared = Arc::new(Shared::new(threads.get(), threads.get() <= cores));
        let start = |index: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("team-{index}");
            thread::Builder::new().name(name).spawn(move || shared.help(index)).ok()
        };
        let helpers = (1..threads.get()).map_while(start).collect();
        Self { shared, helpers, running: Mutex::new(()) }
    }

    /// The number of workers, the caller included.
    pub fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `task` once on every worker and returns when all are done.
    ///
    /// Callers on several threads take turns. A task must not run its own team again: it would wait for itself.
    ///
    /// # Panics
    /// With the payload of the first worker that panicked. The other workers are stopped at their next barrier, and
    /// the team can be used again.
    pub fn run(&self, task: &(dyn Fn(&Worker<'_>) + Sync)) {
        let turn = lock(&self.running);
        let shared = &*self.shared;
        let job = Job { task, count: self.size() };
        if job.count == 1 {
            return task(&Worker::new(0, 1, shared));
        }
        shared.tickets.0.store(0, Relaxed);
        shared.reached.iter().chain(&shared.owned).for_each(|counter| counter.0.store(0, Relaxed));
        shared.unfinished.0.store(job.count - 1, Relaxed);
        let finished = shared.finish.epoch();
        shared.job.store(ptr::from_ref(&job).cast::<Job<'static>>().cast_mut(), Relaxed);
        shared.start.open();
        shared.work(0, &job);
        // Nothing above unwinds, so the job stays on this stack until the last helper is done with it.
        shared.finish.wait(finished, shared.patience(PATIENCE_IN_A_RUN));
        let panicked = shared.barrier.repair();
        drop(turn);
        if let Some(payload) = panicked {
            resume_unwind(payload);
        }
    }

    /// Runs `task` on this thread as a team of one: for work that is done before a helper has woken up.
    ///
    /// It waits for nobody, so several threads may do this at once, and also while the team runs.
    pub fn run_alone(&self, task: impl FnOnce(&Worker<'_>)) {
        task(&Worker::new(0, 1, &self.shared));
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.job.store(ptr::null_mut(), Relaxed);
        self.shared.start.open();
        for helper in self.helpers.drain(..) {
            // A helper catches what its task throws; were it to die otherwise, there is nothing left to tell.
            let _ = helper.join();
        }
    }
}

/// One member of a team, during one run.
pub struct Worker<'a> {
    /// Which worker this is; 0 is the thread that called [`Team::run`].
    pub index: usize,
    /// How many workers run the task.
    pub count: usize,
    shared: &'a Shared,
    /// The next item this worker will do, counted over all shares of the run laid end to end.
    ticket: Cell<usize>,
    /// The items in the shares that this worker has left behind.
    passed: Cell<usize>,
    /// The items of each worker of the shares by owner that this one has left behind.
    owned: Cell<usize>,
}

impl<'a> Worker<'a> {
    fn new(index: usize, count: usize, shared: &'a Shared) -> Self {
        Self { index, count, shared, ticket: Cell::new(0), passed: Cell::new(0), owned: Cell::new(0) }
    }

    /// Waits until every worker is here. What one wrote before it, all can read after it.
    ///
    /// Every worker must come to the same barriers. If another worker panics, this one unwinds from here.
    pub fn barrier(&self) {
        if self.count > 1 {
            self.shared.barrier.wait(self.count, self.shared.patience(PATIENCE_IN_A_RUN));
        }
    }

    /// This worker as a team of one: it gets all items of a share, and no barrier holds it up.
    ///
    /// For a part of a task that one worker does while the others go on to the next barrier.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self::new(self.index, 1, self.shared)
    }

    /// Calls `work` for items `0..items`, each on exactly one worker, whichever is free.
    ///
    /// There is no barrier at its end: other workers may still be busy with their items. Every worker must come to
    /// the same shares, in the same order and with the same `items`; any number of them may follow each other.
    ///
    /// One counter serves all shares of a run, because a worker that draws a ticket beyond the end of this share
    /// keeps it for the next one. The usual counter per share has to be reset by somebody, at a moment when nobody
    /// uses it; this one needs no reset, and one atomic step less per worker and share.
    pub fn share(&self, items: usize, mut work: impl FnMut(usize)) {
        if self.count == 1 {
            return (0..items).for_each(work);
        }
        let first = self.passed.get();
        let end = first + items;
        while self.ticket.get() < end {
            work(self.ticket.get() - first);
            self.ticket.set(self.shared.draw());
        }
        self.passed.set(end);
    }

    /// Calls `work` for items `0..each` of every worker, with the worker's index and the item's, each on exactly one of them: a worker
    /// does its own in order, and then those that another has not come to. For items of which the next one should be where the last one
    /// was.
    ///
    /// There is no barrier at its end, and every worker must come to the same shares, as with [`Worker::share`].
    pub fn share_by_owner(&self, each: usize, mut work: impl FnMut(usize, usize)) {
        if self.count == 1 {
            return (0..each).for_each(|item| work(0, item));
        }
        // Whoever left the share before has seen every counter at its end, so none is below the beginning of this one.
        let first = self.owned.get();
        let end = first + each;
        for owner in (self.index..self.count).chain(0..self.index) {
            let next = |item: usize| (item < end).then_some(item + 1);
            while let Ok(item) = self.shared.owned[owner].0.fetch_update(Relaxed, Relaxed, next) {
                work(owner, item - first);
            }
        }
        self.owned.set(end);
    }

    /// The same as [`Worker::share`], where an item needs what the one `lag` before it wrote: it begins when that one is done, and all before that.
    ///
    /// Items are drawn in order, so the worker that has the first of those not done never waits.
    pub fn share_behind(&self, items: usize, lag: usize, mut work: impl FnMut(usize)) {
        let first = self.passed.get();
        self.share(items, |item| {
            if self.count > 1 {
                self.shared.reached[self.index].0.store(first + item, Release);
                if item >= lag {
                    self.wait_for_all_behind(first + item - lag);
                }
            }
            work(item);
        });
        if self.count > 1 {
            self.shared.reached[self.index].0.store(self.ticket.get(), Release);
        }
    }

    /// Waits until every other worker has gone beyond this item, counted over all shares of the run.
    fn wait_for_all_behind(&self, item: usize) {
        let gone = |(index, reached): (usize, &CachePadded<AtomicUsize>)| {
            index == self.index || reached.0.load(Acquire) > item
        };
        let all_gone = || self.shared.reached[..self.count].iter().enumerate().all(gone);
        let is_broken = || self.shared.barrier.broken.load(Relaxed);
        while !all_gone() {
            if is_broken() {
                resume_unwind(Box::new(Stopped));
            }
            let spin = self.shared.patience(PATIENCE_IN_A_RUN).unwrap_or_default();
            if !spin_until(spin, || all_gone() || is_broken()) {
                thread::yield_now();
            }
        }
    }
}

/// What a run hands to the helpers; it lives on the stack of the caller.
struct Job<'a> {
    task: &'a (dyn Fn(&Worker<'_>) + Sync),
    count: usize,
}

/// Keeps what one worker writes often off the cache lines (prefetched in pairs) that others read.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// What the caller and the helpers have in common.
struct Shared {
    /// Whether each worker can have a core of its own, so that spinning takes nothing from another worker.
    may_spin: bool,
    /// The job of this run; null sends the helpers home.
    job: AtomicPtr<Job<'static>>,
    start: Gate,
    finish: Gate,
    barrier: Barrier,
    tickets: CachePadded<AtomicUsize>,
    /// What each worker has come to, at least, in the shares where others may wait for it: a ticket.
    reached: Vec<CachePadded<AtomicUsize>>,
    /// How many items of each worker were begun, counted over all shares by owner of the run.
    owned: Vec<CachePadded<AtomicUsize>>,
    unfinished: CachePadded<AtomicUsize>,
}

impl Shared {
    fn new(threads: usize, may_spin: bool) -> Self {
        Self {
            may_spin,
            reached: (0..threads).map(|_| CachePadded::default()).collect(),
            owned: (0..threads).map(|_| CachePadded::default()).collect(),
            job: AtomicPtr::new(ptr::null_mut()),
            start: Gate::default(),
            finish: Gate::default(),
            barrier: Barrier::default(),
            tickets: CachePadded(AtomicUsize::new(0)),
            unfinished: CachePadded(AtomicUsize::new(0)),
        }
    }

    /// How long to spin where a worker with a core of its own would spin for `spin`.
    fn patience(&self, spin: Duration) -> Option<Duration> {
        self.may_spin.then_some(spin)
    }

    fn draw(&self) -> usize {
        self.tickets.0.fetch_add(1, Relaxed)
    }

    /// The life of a helper: wait for a run, take part, say so.
    fn help(&self, index: usize) {
        let mut runs = 0;
        loop {
            self.start.wait(runs, self.patience(PATIENCE_BETWEEN_RUNS));
            runs += 1;
            let job = self.job.load(Relaxed);
            // SAFETY: the start gate opened after `job` was stored. The pointer is null, or points at the `Job` on
            // the stack of the `run` that opened the gate, which does not return or unwind before every helper has
            // counted itself out of `unfinished`, below; this reference is not used after that.
            let Some(job) = (unsafe { job.as_ref() }) else { return };
            self.work(index, job);
            if self.unfinished.0.fetch_sub(1, AcqRel) == 1 {
                self.finish.open();
            }
        }
    }

    /// One worker's part of a run. Does not unwind.
    fn work(&self, index: usize, job: &Job<'_>) {
        let worker = Worker { ticket: Cell::new(self.draw()), ..Worker::new(index, job.count, self) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (job.task)(&worker))) {
            self.barrier.fail(payload);
        }
    }
}

/// A meeting point of all workers that lets them go when one of them can no longer come.
#[derive(Default)]
struct Barrier {
    arrived: CachePadded<AtomicUsize>,
    gate: Gate,
    broken: AtomicBool,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What the workers that did nothing wrong unwind with.
struct Stopped;

impl Barrier {
    fn wait(&self, count: usize, spin: Option<Duration>) {
        // The gate cannot open between this look and the arrival, except by `fail`, which is looked for below.
        let epoch = self.gate.epoch();
        if self.broken.load(Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
        if self.arrived.0.fetch_add(1, AcqRel) + 1 == count {
            self.arrived.0.store(0, Relaxed);
            return self.gate.open();
        }
        self.gate.wait(epoch, spin);
        if self.broken.load(Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Notes that a worker panicked and frees all that wait for it.
    fn fail(&self, payload: Box<dyn Any + Send>) {
        let mut first = lock(&self.panicked);
        if first.is_none() && !payload.is::<Stopped>() {
            *first = Some(payload);
        } else {
            // Dropping it could panic once more, and there is nobody to tell.
            std::mem::forget(payload);
        }
        drop(first);
        self.broken.store(true, Relaxed);
        self.gate.open();
    }

    /// Makes the barrier usable again, when no worker is in the run any more, and hands over the first panic.
    fn repair(&self) -> Option<Box<dyn Any + Send>> {
        if !self.broken.load(Relaxed) {
            return None;
        }
        self.broken.store(false, Relaxed);
        self.arrived.0.store(0, Relaxed);
        lock(&self.panicked).take()
    }
}

/// A counter that only goes up and that threads can wait for: spinning first, then asleep.
#[derive(Default)]
struct Gate {
    epoch: CachePadded<AtomicUsize>,
    sleeping: AtomicUsize,
    mutex: Mutex<()>,
    condition: Condvar,
}

impl Gate {
    fn epoch(&self) -> usize {
        self.epoch.0.load(Acquire)
    }

    /// Lets everyone go who waits. What happened before is seen by whoever returns from `wait`.
    fn open(&self) {
        // Sequentially consistent, as in `sleep`: either this thread sees the sleeper or the sleeper the new epoch.
        self.epoch.0.fetch_add(1, SeqCst);
        if self.sleeping.load(SeqCst) > 0 {
            // A sleeper holds this lock from its look at the epoch until it waits for the condition.
            drop(lock(&self.mutex));
            self.condition.notify_all();
        }
    }

    /// Returns when the epoch is no longer `seen`. Without `spin` there are more workers than cores, and the one
    /// that is waited for may need this core.
    fn wait(&self, seen: usize, spin: Option<Duration>) {
        let open = || self.epoch() != seen;
        let came = match spin {
            Some(spin) => spin_until(spin, open),
            None => (0..YIELDS).any(|_| {
                open() || {
                    thread::yield_now();
                    false
                }
            }),
        };
        if !came {
            self.sleep(seen);
        }
    }

    #[cold]
    fn sleep(&self, seen: usize) {
        let mut guard = lock(&self.mutex);
        self.sleeping.fetch_add(1, SeqCst);
        while self.epoch.0.load(SeqCst) == seen {
            guard = self.condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, Relaxed);
    }
}

/// Spins until `done`, for about `limit`; says whether it was done. The clock is read only once in a while.
fn spin_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let mut began = None;
    loop {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            spin_loop();
        }
        if began.get_or_insert_with(Instant::now).elapsed() >= limit {
            return done();
        }
    }
}

/// Locks although a thread that held the lock may have panicked: nothing here is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
