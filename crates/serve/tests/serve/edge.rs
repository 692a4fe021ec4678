//! Connections: slow clients, clients that go, many clients, and the end of the server.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::writing;
use glassformer_serve::{Keys, Limits, Server};

/// A server on a port of its own, and what ends it.
struct Running {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn run(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one");
    let server = Server::new(vec![writing("story")], limits, Keys::default());
    let (end, ended) = oneshot::channel();
    let task = tokio::spawn(server.run(listener, async { drop(ended.await) }));
    Running { address, end, task }
}

/// Short times, for tests.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.header_time = Duration::from_millis(300);
    limits.body_time = Duration::from_millis(300);
    limits.write_time = Duration::from_millis(500);
    limits.shutdown_time = Duration::from_secs(20);
    limits
}

fn text(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be set");
    stream
}

/// Sends, and reads until the other side closes.
fn talk(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(sent).expect("it is read");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // What it no longer reads, the other side may answer with a reset, after its own answer.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

async fn off<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic")
}

/// How many, in a test that `GLASSFORMER_LONG_TESTS` makes longer.
fn many(few: usize, more: usize) -> usize {
    if std::env::var_os("GLASSFORMER_LONG_TESTS").is_some() { more } else { few }
}

fn completion(more: &Value) -> String {
    let mut body = json!({ "prompt": "The cat", "max_tokens": 3, "temperature": 0 });
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    text("POST", "/v1/completions", &body.to_string())
}

/// A gauge of the server.
fn gauge(address: SocketAddr, name: &str) -> f64 {
    let answer = talk(address, text("GET", "/metrics", "").as_bytes());
    let start = format!("{name}{{model=\"story\"}} ");
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {name}: {answer}"));
    line.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_too_slow_are_told_or_closed() {
    let running = run(limits()).await;
    let address = running.address;
    off(move || {
        // Headers that never end; many of them, and others are answered meanwhile.
        let mut half: Vec<TcpStream> = (0..many(200, 2000)).map(|_| connect(address)).collect();
        for stream in &mut half {
            stream.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: loc").expect("it is read");
        }
        assert_eq!(status(&talk(address, completion(&json!({})).as_bytes())), 200);
        for mut stream in half {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
        // A body that never comes.
        let slow = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\nconnection: close\r\n\r\n{";
        assert_eq!(status(&talk(address, slow.as_bytes())), 408);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_at_the_door() {
    let running = run(limits()).await;
    let address = running.address;
    off(move || {
        let both = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
        let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(10_000));
        for sent in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", both, &large, &many, "\u{0}\u{1}\r\n\r\n"] {
            let mut stream = connect(address);
            // It may close before all is sent.
            let _ = stream.write_all(sent.as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.is_empty() || (400..600).contains(&status(&answer)), "{answer}");
        }
        // A body in chunks of a byte is a body.
        let body = json!({ "prompt": "The cat", "max_tokens": 1 }).to_string();
        let chunks: String = body.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
        let sent = format!("POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n{chunks}0\r\n\r\n");
        assert_eq!(status(&talk(address, sent.as_bytes())), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_leaves_nothing_behind() {
    let running = run(limits()).await;
    let address = running.address;
    off(move || {
        for round in 0..many(40, 500) {
            let mut stream = connect(address);
            let more = json!({ "max_tokens": 200, "stream": round % 2 == 0 });
            stream.write_all(completion(&more).as_bytes()).expect("it is read");
            if round % 4 == 0 {
                let _ = stream.read(&mut [0; 64]);
            }
        }
        // All of them are let go, and others are answered as ever.
        while gauge(address, "num_requests_running") + gauge(address, "num_requests_waiting") > 0.0 {
            std::thread::yield_now();
        }
        assert_eq!(status(&talk(address, completion(&json!({})).as_bytes())), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_takes_nothing_is_cut() {
    let running = run(limits()).await;
    let address = running.address;
    off(move || {
        // Log-probabilities make answers large enough to fill what the system keeps for a connection.
        let more = json!({ "prompt": vec!["The cat"; 40], "max_tokens": 200, "stream": true, "logprobs": 20, "ignore": 1 });
        let mut stream = connect(address);
        stream.write_all(completion(&more).as_bytes()).expect("it is read");
        while gauge(address, "num_requests_running") + gauge(address, "num_requests_waiting") > 0.0 {
            std::thread::yield_now();
        }
        drop(stream);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_get_an_answer_each_and_all_the_same() {
    let running = run(Limits::default()).await;
    let address = running.address;
    let clients = many(200, 1000);
    let answers = off(move || {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                std::thread::spawn(move || talk(address, completion(&json!({ "max_tokens": 6 })).as_bytes()))
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("it is answered")).collect::<Vec<_>>()
    })
    .await;
    let texts: Vec<Value> = answers
        .iter()
        .filter(|answer| status(answer) == 200)
        .map(|answer| serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON"))
        .collect();
    assert!(answers.iter().all(|answer| [200, 429].contains(&status(answer))));
    assert!(!texts.is_empty());
    for text in &texts {
        assert_eq!(text["choices"], texts[0]["choices"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_waits_for_what_is_under_way() {
    let running = run(limits()).await;
    let address = running.address;
    let (begun, first) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        let mut stream = connect(address);
        stream
            .write_all(completion(&json!({ "max_tokens": 150, "stream": true })).as_bytes())
            .expect("it is read");
        let mut answer = vec![0; 32];
        stream.read_exact(&mut answer).expect("it begins");
        begun.send(()).expect("somebody waits");
        stream.read_to_end(&mut answer).expect("it ends");
        String::from_utf8_lossy(&answer).into_owned()
    });
    off(move || first.recv().expect("it began")).await;
    running.end.send(()).expect("it runs");
    running.task.await.expect("it ends");
    let answer = off(move || client.join().expect("it is answered")).await;
    assert!(answer.contains("[DONE]"), "{answer}");
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_while_the_server_ends_is_told_so() {
    let mut limits = limits();
    limits.body_time = Duration::from_secs(20);
    let running = run(limits).await;
    let address = running.address;
    let body = json!({ "prompt": "The cat", "max_tokens": 1 }).to_string();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    // A request that is under way: the server asks for its body.
    let mut early = off(move || {
        let mut stream = connect(address);
        stream.write_all(head.as_bytes()).expect("it is read");
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).expect("the body is asked for");
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    })
    .await;
    running.end.send(()).expect("it runs");
    off(move || {
        let ready = || status(&talk(address, text("GET", "/health/ready", "").as_bytes()));
        while ready() != 503 {
            std::thread::yield_now();
        }
        assert_eq!(status(&talk(address, text("GET", "/health/live", "").as_bytes())), 200);
        let late = talk(address, completion(&json!({})).as_bytes());
        assert_eq!(status(&late), 503);
        assert!(late.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{late}");
        early.write_all(body.as_bytes()).expect("it is read");
        let mut answer = Vec::new();
        early.read_to_end(&mut answer).expect("it is answered");
        assert_eq!(status(&String::from_utf8_lossy(&answer)), 200);
    })
    .await;
    running.task.await.expect("it ends");
    assert!(TcpStream::connect(address).is_err());
}
