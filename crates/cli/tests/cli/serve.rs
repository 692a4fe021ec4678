//! `serve` as a program: it says where it listens, answers, and ends in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use super::{command, folder, run};

/// A server that listens, and where.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = command(&[&["serve", "--port", "0"], args].concat());
        command.env_remove("GLASSFORMER_KEYS").stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut all = String::new();
        while !all.contains("serving on http://") {
            assert_ne!(said.read_line(&mut all).expect("it is text"), 0, "it ended: {all}");
        }
        let address = all.split("serving on http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.expect("it says where").to_owned();
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || drop(said.read_to_end(&mut Vec::new())));
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        answer
    }

    /// Sends a signal, and gives the code it ends with.
    #[cfg(unix)]
    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([signal, &id]).status().expect("there is kill");
        assert!(sent.success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_translator_of_the_program_is_served_without_a_model() {
    let server = Server::start(&[]);
    let answer = server.ask("POST", "/v1/translate", r#"{"input": "Hello"}"#);
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("你好"), "{answer}");
    assert!(server.ask("GET", "/v1/models", "").contains(r#""id":"en-zh""#));
}

#[test]
#[cfg(unix)]
fn a_signal_ends_it_in_order() {
    assert_eq!(Server::start(&["en-zh"]).end("-TERM"), Some(0));
    assert_eq!(Server::start(&["mine=en-zh"]).end("-INT"), Some(130));
}

#[test]
fn what_cannot_be_served_is_said_before_it_listens() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port().to_string();
    run(&["serve", "-q", "--port", &port]).refused_with(&port, "--port");
    run(&["serve", "--host", "0.0.0.0", "--port", "0"]).refused_with("0.0.0.0", "--keys");
    run(&["serve", "-q", "en-zh", "en-zh"]).refused_with("en-zh", "NAME=");
    run(&["serve", "no/such/model.gguf"]).refused_with("no/such/model.gguf", "folder");
    let folder = folder("serve-keys");
    let (absent, blank) = (folder.join("absent"), folder.join("blank"));
    std::fs::write(&blank, "# nothing\n\n").expect("it is written");
    run(&["serve", "--keys", &absent.display().to_string()]).refused_with("absent", "a key on each line");
    run(&["serve", "--keys", &blank.display().to_string()]).refused_with("no keys", "a key on each line");
    run(&["serve", "en-zh", "--memory", "1"]).refused_with("memory", "shorter texts");
}

/// Requests of every kind, wrong ones too, for a while: memory does not grow. `GLASSFORMER_LONG_TESTS` makes it an hour.
#[test]
#[cfg(target_os = "linux")]
fn memory_stays_flat() {
    let server = Server::start(&["en-zh"]);
    let round = |number: usize| {
        let text = format!("The cat sat on the {number} red mats.");
        let (same, new) =
            (r#"{"input": "Hello"}"#, format!(r#"{{"input": ["{text}", "A dog"], "beams": 2}}"#));
        for (path, body, code) in [
            ("/v1/translate", same, 200),
            ("/v1/translate", &new, 200),
            ("/v1/translate", r#"{"input": 5}"#, 400),
            ("/v1/completions", r#"{"prompt": "A cat", "max_tokens": 3, "logprobs": 2}"#, 200),
            ("/v1/fill", r#"{"input": "A [MASK]"}"#, 400),
            ("/nowhere", &new, 404),
        ] {
            let answer = server.ask("POST", path, body);
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path} {body}: {answer}");
        }
        // Somebody who asks and goes.
        let body = new.replace("A dog", &text.repeat(10));
        let mut gone = TcpStream::connect(&server.address).expect("it listens");
        let head = "POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        let _ = write!(gone, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    };
    let resident = || -> f64 {
        let metrics = server.ask("GET", "/metrics", "");
        let line = metrics.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        line.expect("it is there").parse().expect("a number")
    };
    // Until what is kept from earlier requests is as large as it may become, memory grows.
    let seconds = if std::env::var_os("GLASSFORMER_LONG_TESTS").is_some() { 3600 } else { 0 };
    (0..40).for_each(round);
    let before = resident();
    let begin = std::time::Instant::now();
    let mut rounds = 40..;
    rounds.by_ref().take(40).for_each(round);
    rounds.take_while(|_| begin.elapsed().as_secs() < seconds).for_each(round);
    let grown = (resident() - before) / 1e6;
    assert!(grown < 64.0, "{grown} MB more than before");
}

#[test]
#[cfg(unix)]
fn explain_opens_the_page_of_a_text_on_this_machine_alone() {
    let mut command = command(&["explain", "--open", "The cat & 猫"]);
    // The browser is a program that ends at once.
    command
        .env("BROWSER", "true")
        .env_remove("GLASSFORMER_KEYS")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    said.read_line(&mut line).expect("it is text");
    let (address, asked) = line.trim().split_once("/#").expect("a text is asked");
    assert_eq!(asked, "text=The%20cat%20%26%20%E7%8C%AB");
    let address = address.strip_prefix("http://").expect("an address").to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let server = Server { child, address };
    let page = server.ask("GET", "/", "");
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("script-src 'sha256-"), "{page:.300}");
    let run = server.ask("POST", "/glass/explain", r#"{"text": "The cat sat"}"#);
    assert!(run.contains("猫坐着") && run.contains(r#""trace":"#), "{run:.300}");
    assert_eq!(server.end("-INT"), Some(0));
}
