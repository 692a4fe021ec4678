//! One model for many callers: a thread of its own takes steps of all their requests together.
//!
//! Callers put orders into a queue and are told what happens to them. Orders of one caller are taken in their order, and callers take turns.
//! What fails, fails alone: a request that the model cannot answer, and a step that panics ends the requests that were in it.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use glassformer_engine::{Event, Generated, Generator, Load, Request, Room, Session, Token};

use crate::Error;

/// Orders that are looked at together when a service decides how much room they need.
const TOGETHER: usize = 64;

/// A thread that answers requests. Dropping it ends all of them.
pub struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked of a service.
pub struct Order {
    /// What is wanted.
    pub request: Request,
    /// Who asks: callers with different keys take turns.
    pub key: u64,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
    /// Hears what happens, on the service's thread: it must not wait for anything. Breaking off cancels the order.
    pub tell: Box<dyn FnMut(Update) -> ControlFlow<()> + Send>,
}

/// What happens to an order.
#[derive(Debug)]
pub enum Update {
    /// A token was written.
    Token {
        /// Which of the returned sequences.
        sequence: usize,
        /// The token.
        token: Token,
    },
    /// It is done: what was generated, best first. Nothing comes after this.
    Done(Vec<Generated>),
    /// It could not be answered. Nothing comes after this.
    Failed(Error),
}

/// The number of an order, to cancel it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Orders.
    pub orders: usize,
    /// Tokens of their prompts and sources.
    pub tokens: usize,
}

impl Default for QueueLimits {
    /// As much as there is memory for.
    fn default() -> Self {
        Self { orders: usize::MAX, tokens: usize::MAX }
    }
}

/// What a service has to do, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceLoad {
    /// Orders that wait for their turn.
    pub queued: usize,
    /// Tokens of their prompts and sources.
    pub queued_tokens: usize,
    /// What is under way.
    pub session: Load,
    /// Tokens that were written.
    pub written_tokens: u64,
    /// Steps that were taken.
    pub steps: u64,
    /// Steps that panicked.
    pub panics: u64,
}

/// Where a service's memory comes from.
pub struct Rooms {
    /// Prepares the model for so much at once.
    pub prepare: Box<Prepare>,
    /// The room that some requests need, if it is more than there is.
    pub more: Box<More>,
}

/// See [`Rooms::prepare`].
pub type Prepare = dyn FnMut(Room) -> Result<Generator, Error> + Send;

/// See [`Rooms::more`].
pub type More = dyn Fn(&[&Request], Option<Room>) -> Option<Room> + Send;

struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
    limits: QueueLimits,
}

#[derive(Default)]
struct Inbox {
    queue: Queue,
    /// Orders that nobody wants any more.
    cancelled: Vec<Ticket>,
    given: u64,
    ended: bool,
    load: ServiceLoad,
}

/// Waiting orders, by who asks.
#[derive(Default)]
struct Queue {
    /// Whose turn it is comes first.
    callers: VecDeque<(u64, VecDeque<Entry>)>,
    orders: usize,
    tokens: usize,
}

struct Entry {
    ticket: Ticket,
    order: Order,
}

impl Entry {
    fn tokens(&self) -> usize {
        self.order.request.prompt.len() + self.order.request.source.len()
    }

    fn tell(&mut self, update: Update) -> ControlFlow<()> {
        (self.order.tell)(update)
    }
}

impl Queue {
    fn push(&mut self, entry: Entry) {
        self.orders += 1;
        self.tokens += entry.tokens();
        let key = entry.order.key;
        match self.callers.iter_mut().find(|(caller, _)| *caller == key) {
            Some((_, entries)) => entries.push_back(entry),
            None => self.callers.push_back((key, VecDeque::from([entry]))),
        }
    }

    /// The next order: of the caller whose turn it is.
    fn pop(&mut self) -> Option<Entry> {
        let (key, mut entries) = self.callers.pop_front()?;
        let entry = entries.pop_front();
        if !entries.is_empty() {
            self.callers.push_back((key, entries));
        }
        let entry = entry?;
        self.orders -= 1;
        self.tokens -= entry.tokens();
        Some(entry)
    }

    /// Takes out all orders of which `is` holds.
    fn take(&mut self, is: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let mut taken = Vec::new();
        for (_, entries) in &mut self.callers {
            let (out, stay): (VecDeque<Entry>, _) = entries.drain(..).partition(&is);
            *entries = stay;
            taken.extend(out);
        }
        self.callers.retain(|(_, entries)| !entries.is_empty());
        self.orders -= taken.len();
        self.tokens -= taken.iter().map(Entry::tokens).sum::<usize>();
        taken
    }
}

impl Shared {
    /// Nothing is ever half done in here, so another thread's panic leaves it as good as it was.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// A service whose memory comes from `rooms`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(rooms: Rooms, limits: QueueLimits) -> Result<Self, Error> {
        let shared = Arc::new(Shared { inbox: Mutex::default(), wake: Condvar::new(), limits });
        let worker = Worker::new(shared.clone(), rooms);
        let thread = thread::Builder::new().name("glassformer-service".into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| Error::Service { what: format!("has no thread: {error}") })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Lets orders wait for their turn, all of them or none.
    ///
    /// # Errors
    /// If more would wait than may, or the thread has ended.
    pub fn submit(&self, orders: Vec<Order>) -> Result<Vec<Ticket>, Error> {
        let mut inbox = self.shared.inbox();
        if inbox.ended {
            return Err(Error::Service { what: "has ended".to_owned() });
        }
        let tokens: usize =
            orders.iter().map(|order| order.request.prompt.len() + order.request.source.len()).sum();
        let QueueLimits { orders: most, tokens: most_tokens } = self.shared.limits;
        let queue = &inbox.queue;
        if queue.orders.saturating_add(orders.len()) > most
            || queue.tokens.saturating_add(tokens) > most_tokens
        {
            return Err(Error::Busy { waiting: queue.orders });
        }
        let tickets = orders.into_iter().map(|order| {
            inbox.given += 1;
            let ticket = Ticket(inbox.given);
            inbox.queue.push(Entry { ticket, order });
            ticket
        });
        let tickets = tickets.collect();
        drop(inbox);
        self.shared.wake.notify_one();
        Ok(tickets)
    }

    /// Cancels an order: nothing more is told of it.
    pub fn cancel(&self, ticket: Ticket) {
        self.shared.inbox().cancelled.push(ticket);
        self.shared.wake.notify_one();
    }

    /// What there is to do, and what was done.
    pub fn load(&self) -> ServiceLoad {
        let inbox = self.shared.inbox();
        ServiceLoad { queued: inbox.queue.orders, queued_tokens: inbox.queue.tokens, ..inbox.load }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.inbox().ended = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Worker {
    shared: Arc<Shared>,
    rooms: Rooms,
    at: Option<Running>,
    /// Orders that may need more room than there is: nobody else begins before they have it.
    large: VecDeque<Entry>,
    load: ServiceLoad,
}

impl Drop for Worker {
    /// Nobody waits for a thread that is gone, whatever ended it.
    fn drop(&mut self) {
        let waiting = {
            let mut inbox = self.shared.inbox();
            inbox.ended = true;
            inbox.queue.take(|_| true)
        };
        let running = self.at.iter_mut().flat_map(|at| at.entries.drain().map(|(_, entry)| entry));
        for mut entry in running.chain(self.large.drain(..)).chain(waiting) {
            let error = Error::Service { what: "has ended".to_owned() };
            let _ = catch_unwind(AssertUnwindSafe(|| entry.tell(Update::Failed(error))));
        }
    }
}

/// A session, and whose its requests are.
struct Running {
    room: Room,
    generator: Generator,
    session: Session,
    entries: HashMap<usize, Entry>,
}

impl Running {
    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }
}

impl Worker {
    fn new(shared: Arc<Shared>, rooms: Rooms) -> Self {
        Self { shared, rooms, at: None, large: VecDeque::new(), load: ServiceLoad::default() }
    }

    fn run(mut self) {
        while self.take() {
            if !self.large.is_empty() && self.is_idle() {
                self.grow();
            }
            self.step();
        }
    }

    fn is_idle(&self) -> bool {
        self.at.as_ref().is_none_or(Running::is_idle)
    }

    /// Waits until there is something to do, and takes new orders as far as there is room. False when the service ends.
    fn take(&mut self) -> bool {
        let shared = self.shared.clone();
        let mut inbox = shared.inbox();
        while !inbox.ended
            && self.is_idle()
            && self.large.is_empty()
            && inbox.queue.orders == 0
            && inbox.cancelled.is_empty()
        {
            inbox = shared.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        if inbox.ended {
            return false;
        }
        let mut over = self.give_up(&mut inbox);
        if self.is_idle() {
            // Before anything begins there may be more room for all of it.
            while self.large.len() < TOGETHER {
                let Some(entry) = inbox.queue.pop() else { break };
                self.large.push_back(entry);
            }
        }
        while self.large.is_empty() && self.has_place() {
            let Some(entry) = inbox.queue.pop() else { break };
            let room = self.at.as_ref().map(|at| at.room);
            if (self.rooms.more)(&[&entry.order.request], room).is_some() {
                self.large.push_back(entry);
            } else {
                over.extend(self.submit(entry));
            }
        }
        drop(inbox);
        for (mut entry, error) in over {
            let _ = entry.tell(Update::Failed(error));
        }
        true
    }

    /// Takes out what was cancelled, and gives back what is too late.
    fn give_up(&mut self, inbox: &mut Inbox) -> Vec<(Entry, Error)> {
        let cancelled = std::mem::take(&mut inbox.cancelled);
        let now = Instant::now();
        let late = |entry: &Entry| entry.order.deadline.is_some_and(|deadline| deadline <= now);
        let over = |entry: &Entry| late(entry) || cancelled.contains(&entry.ticket);
        let mut taken = inbox.queue.take(over);
        let (out, stay): (VecDeque<Entry>, _) = self.large.drain(..).partition(over);
        self.large = stay;
        taken.extend(out);
        if let Some(Running { session, entries, .. }) = &mut self.at {
            let numbers: Vec<usize> =
                entries.iter().filter(|(_, entry)| over(entry)).map(|(&number, _)| number).collect();
            for number in numbers {
                session.cancel(number);
                taken.extend(entries.remove(&number));
            }
        }
        taken.retain(|entry| !cancelled.contains(&entry.ticket));
        taken.into_iter().map(|entry| (entry, Error::Late)).collect()
    }

    /// Whether another order can begin.
    fn has_place(&self) -> bool {
        self.at.as_ref().is_none_or(|at| {
            let Load { running, waiting, .. } = at.session.load();
            running + waiting < at.room.sequences
        })
    }

    /// Gives an order to the session; it comes back with the reason if it can never be answered.
    fn submit(&mut self, entry: Entry) -> Option<(Entry, Error)> {
        let Some(at) = &mut self.at else {
            return Some((entry, Error::Service { what: "has no room".to_owned() }));
        };
        match at.session.submit(entry.order.request.clone()) {
            Ok(number) => {
                at.entries.insert(number, entry);
                None
            }
            Err(error) => Some((entry, error.into())),
        }
    }

    /// Prepares the model for what waits for more room.
    fn grow(&mut self) {
        let requests: Vec<&Request> = self.large.iter().map(|entry| &entry.order.request).collect();
        let had = self.at.as_ref().map(|at| at.room);
        if let Some(room) = (self.rooms.more)(&requests, had) {
            // What is there stays until the new one is made: its weights are prepared already, and are shared.
            let prepared = catch_unwind(AssertUnwindSafe(|| (self.rooms.prepare)(room)));
            let prepared = prepared.unwrap_or_else(|payload| {
                let what = format!("panicked while it prepared the model: {}", said(&*payload));
                Err(Error::Service { what })
            });
            match prepared {
                Ok(generator) => {
                    let session = generator.session();
                    self.at = Some(Running { room, generator, session, entries: HashMap::new() });
                }
                Err(error) => {
                    if let Some(mut entry) = self.large.pop_front() {
                        let _ = entry.tell(Update::Failed(error));
                    }
                    return;
                }
            }
        }
        let waiting = std::mem::take(&mut self.large);
        for entry in waiting {
            if let Some((mut entry, error)) = self.submit(entry) {
                let _ = entry.tell(Update::Failed(error));
            }
        }
    }

    /// Takes one step, and tells what happened.
    fn step(&mut self) {
        let Some(at) = &mut self.at else { return };
        if at.is_idle() {
            self.load.session = at.session.load();
            self.shared.inbox().load = self.load;
            return;
        }
        self.load.steps += 1;
        let stepped = catch_unwind(AssertUnwindSafe(|| at.session.step()));
        let stepped = match stepped {
            Ok(Ok(events)) => Ok(events),
            Ok(Err(error)) => Err(error.to_string()),
            Err(payload) => {
                self.load.panics += 1;
                Err(format!("panicked: {}", said(&*payload)))
            }
        };
        let is_token = |event: &&Event| matches!(event, Event::Token { .. });
        let written = stepped.iter().flatten().filter(is_token).count();
        self.load.written_tokens += written as u64;
        self.load.session = at.session.load();
        // Whoever is told can look it up.
        self.shared.inbox().load = self.load;
        match stepped {
            Ok(events) => events.into_iter().for_each(|event| at.tell(event)),
            Err(what) => at.fail(&what),
        }
    }
}

impl Running {
    fn tell(&mut self, event: Event) {
        let (number, update) = match event {
            Event::Token { request, sequence, token } => (request, Update::Token { sequence, token }),
            Event::Done { request, outputs } => (request, Update::Done(outputs)),
            Event::Failed { request, error } => (request, Update::Failed(error.into())),
        };
        let over = !matches!(update, Update::Token { .. });
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let broken_off = entry.tell(update).is_break();
        if over || broken_off {
            self.entries.remove(&number);
        }
        if broken_off {
            self.session.cancel(number);
        }
    }

    /// Ends all that was under way, and begins anew.
    fn fail(&mut self, what: &str) {
        for (_, mut entry) in self.entries.drain() {
            let what = format!("lost this request: a step of the model {what}");
            let _ = entry.tell(Update::Failed(Error::Service { what }));
        }
        self.session = self.generator.session();
    }
}

/// What a panic said.
fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("nothing")
}
