//! Callers on many threads share one model: each gets the same bits as alone, and what fails, fails alone.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, Generated, Generator, Request, Room, Stopper};
use glassformer_formula::named::{self, Size};
use glassformer_model::Model;
use glassformer_tasks::{Error, Order, QueueLimits, Rooms, Service, Update};

const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 31, length: 96 };
const ROOM: Room = Room { sequences: 4, source: 0, target: 60, rows: 60, pages: 16, source_pages: 0 };

fn model() -> Arc<Model> {
    Arc::new(Model::random(named::llama(SIZE, 1), 11).expect("the formula works"))
}

fn generator(model: &Model) -> Generator {
    Generator::new(model, &Cpu::new(1), ROOM).expect("it prepares")
}

/// A service with so much room and no more.
fn service(model: &Arc<Model>, limits: QueueLimits) -> Service {
    let model = model.clone();
    let prepare = move |_: Room| Ok(generator(&model));
    let more = |_: &[&Request], had: Option<Room>| if had.is_none() { Some(ROOM) } else { None };
    Service::start(Rooms { prepare: Box::new(prepare), more: Box::new(more) }, limits).expect("it starts")
}

fn request(first: u32, tokens: usize) -> Request {
    let decoding =
        Decoding { max_new_tokens: Some(tokens), min_new_tokens: Some(tokens), ..Decoding::default() };
    Request { owner: Some(1), ..Request::prompt((0..20).map(|i| 3 + (first + i) % 25).collect(), decoding) }
}

fn order(request: Request, key: u64) -> (Order, Receiver<Update>) {
    let (sender, updates) = channel();
    let tell = move |update| match sender.send(update) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    (Order { request, key, deadline: None, tell: Box::new(tell) }, updates)
}

/// How an order ended.
fn end(updates: &Receiver<Update>) -> Result<Vec<Generated>, Error> {
    loop {
        match updates.recv().expect("it ends") {
            Update::Token { .. } => {}
            Update::Done(outputs) => return Ok(outputs),
            Update::Failed(error) => return Err(error),
        }
    }
}

fn ask(service: &Service, request: Request, key: u64) -> Result<Vec<Generated>, Error> {
    let (order, updates) = order(request, key);
    service.submit(vec![order])?;
    end(&updates)
}

#[test]
fn callers_on_many_threads_get_the_same_bits_as_alone() {
    let model = model();
    let (service, alone) = (service(&model, QueueLimits::default()), generator(&model));
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (service, alone) = (&service, &alone);
            scope.spawn(move || {
                for turn in 0..6 {
                    let request = request(caller * 3 + turn, 5 + turn as usize);
                    let expected = alone.run(vec![request.clone()]).expect("it generates").remove(0);
                    assert_eq!(ask(service, request, u64::from(caller)).expect("it answers"), expected);
                }
            });
        }
    });
    let load = service.load();
    assert_eq!((load.queued, load.session.running, load.panics), (0, 0, 0));
    assert!(load.steps < 8 * 6 * 8, "{} steps: they share some", load.steps);
}

#[derive(Debug)]
struct Panics;

impl Stopper for Panics {
    fn stops(&self, _: &[u32]) -> bool {
        panic!("this stopper always does")
    }
}

#[test]
fn a_panic_ends_its_own_step_and_nothing_else() {
    let model = model();
    let service = service(&model, QueueLimits::default());
    let bad = Request { stopper: Some(Arc::new(Panics)), ..request(1, 5) };
    let error = ask(&service, bad, 1).expect_err("it panics").to_string();
    assert!(error.contains("this stopper always does"), "{error}");
    assert_eq!(service.load().panics, 1);
    assert_eq!(ask(&service, request(1, 5), 1).expect("it goes on")[0].ids.len(), 5);
}

#[test]
fn nobody_waits_for_a_thread_that_is_gone() {
    let model = model();
    let service = service(&model, QueueLimits::default());
    let (mut fatal, updates) = order(request(1, 5), 1);
    fatal.tell = Box::new(|_| panic!("whoever is told must not panic"));
    let (other, other_updates) = order(request(2, 40), 1);
    service.submit(vec![fatal, other]).expect("both may wait");
    assert!(matches!(end(&other_updates), Err(Error::Service { .. })));
    assert!(updates.recv().is_err());
    assert!(matches!(ask(&service, request(1, 5), 1), Err(Error::Service { .. })));
}

#[test]
fn a_model_that_cannot_be_prepared_fails_each_request_alone() {
    let prepare = |_: Room| panic!("there is no such model");
    let more = |_: &[&Request], had: Option<Room>| if had.is_none() { Some(ROOM) } else { None };
    let rooms = Rooms { prepare: Box::new(prepare), more: Box::new(more) };
    let service = Service::start(rooms, QueueLimits::default()).expect("it starts");
    for _ in 0..2 {
        let error = ask(&service, request(1, 5), 1).expect_err("it panics").to_string();
        assert!(error.contains("there is no such model"), "{error}");
    }
}

#[test]
fn what_can_never_be_answered_fails_alone() {
    let model = model();
    let service = service(&model, QueueLimits::default());
    let (bad, bad_updates) = order(Request::prompt(vec![400], Decoding::default()), 1);
    let (good, good_updates) = order(request(2, 4), 1);
    service.submit(vec![bad, good]).expect("both may wait");
    assert!(end(&bad_updates).expect_err("there is no such id").to_string().contains("400"));
    assert_eq!(end(&good_updates).expect("it answers")[0].ids.len(), 4);
}

#[test]
fn callers_take_turns() {
    let model = model();
    let service = service(&model, QueueLimits::default());
    let ends = Arc::new(Mutex::new(Vec::new()));
    let (done, waiting) = channel();
    let noted = |key: u64| {
        let (ends, done) = (ends.clone(), done.clone());
        let tell = move |update| {
            if matches!(update, Update::Done(_)) {
                ends.lock().expect("nobody panics").push(key);
                done.send(()).expect("the test waits");
            }
            ControlFlow::Continue(())
        };
        Order { request: request(1, 20), key, deadline: None, tell: Box::new(tell) }
    };
    // A hundred orders of one caller, and then one of another: it does not wait for all of them.
    let mut orders: Vec<Order> = (0..100).map(|_| noted(1)).collect();
    orders.push(noted(2));
    service.submit(orders).expect("they may wait");
    (0..101).for_each(|_| waiting.recv().expect("each ends"));
    let place = ends.lock().expect("nobody panics").iter().position(|&key| key == 2);
    assert!(place.is_some_and(|place| place < 10), "{place:?}");
}

#[test]
fn cancelled_and_late_orders_give_their_pages_back() {
    let model = model();
    let service = service(&model, QueueLimits::default());
    let (order_of_one, updates) = order(Request { owner: None, ..request(1, 40) }, 1);
    let ticket = service.submit(vec![order_of_one]).expect("it may wait")[0];
    assert!(matches!(updates.recv(), Ok(Update::Token { .. })));
    service.cancel(ticket);
    while updates.recv().is_ok() {}
    let (late, updates) = order(request(1, 40), 1);
    service.submit(vec![Order { deadline: Some(Instant::now()), ..late }]).expect("it may wait");
    assert!(matches!(end(&updates), Err(Error::Late)));
    let (gone, updates) = order(Request { owner: None, ..request(1, 40) }, 1);
    drop(updates);
    service.submit(vec![gone]).expect("it may wait");
    ask(&service, Request { owner: None, ..request(1, 2) }, 1).expect("it answers");
    // What was cancelled is gone at the next step.
    while service.load().session.held_pages > 0 {
        std::thread::yield_now();
    }
    assert_eq!(service.load().session.running, 0);
}

#[test]
fn a_full_queue_says_so_and_an_ended_service_too() {
    let model = model();
    let limits = QueueLimits { orders: 2, tokens: 50 };
    let service = service(&model, limits);
    let three = || (0..3).map(|first| order(request(first, 3), 1)).unzip::<_, _, Vec<_>, Vec<_>>();
    assert!(matches!(service.submit(three().0), Err(Error::Busy { .. })));
    let (long, _updates) = order(Request::prompt(vec![3; 51], Decoding::default()), 1);
    assert!(matches!(service.submit(vec![long]), Err(Error::Busy { waiting: 0 })));
    let (mut order, updates) = order(request(1, 30), 1);
    let mut tell = order.tell;
    let (leave, left) = channel::<()>();
    order.tell = Box::new(move |update| {
        let answer = tell(update);
        // No second token before the service is about to be dropped, and few while it is.
        let _ = left.recv();
        std::thread::sleep(Duration::from_millis(20));
        answer
    });
    service.submit(vec![order]).expect("there is a place");
    assert!(matches!(updates.recv(), Ok(Update::Token { .. })));
    drop(leave);
    drop(service);
    assert!(matches!(end(&updates), Err(Error::Service { .. })));
}
