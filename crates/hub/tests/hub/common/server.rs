//! A small server of HTTP on this machine, each connection for one request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// By name in small letters.
    pub headers: BTreeMap<String, String>,
}

impl Request {
    /// The first byte that was asked for.
    pub fn from(&self) -> Option<usize> {
        self.headers.get("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// The connection breaks after so many bytes of the body.
    pub cut: Option<usize>,
}

impl Reply {
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// `bytes`, or what of them was asked for.
    pub fn bytes(request: &Request, bytes: &[u8]) -> Self {
        match request.from() {
            None => Self::new(200).body(bytes),
            Some(from) if from >= bytes.len() => {
                Self::new(416).with("Content-Range", format!("bytes */{}", bytes.len()))
            }
            Some(from) => Self::new(206)
                .with("Content-Range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len()))
                .body(&bytes[from..]),
        }
    }
}

/// A server that runs until the test ends.
pub struct Server {
    pub url: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn new(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (answer, heard) = (Arc::new(answer), log.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, heard) = (answer.clone(), heard.clone());
                thread::spawn(move || {
                    let mut stream = stream;
                    let _ = serve(&mut stream, &*answer, &heard);
                });
            }
        });
        Self { url, log }
    }

    /// What was asked so far.
    pub fn log(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// How often something with `part` in its path was asked for.
    pub fn count(&self, part: &str) -> usize {
        self.log().iter().filter(|request| request.path.contains(part)).count()
    }
}

/// Answers one request on a connection.
pub fn serve(
    stream: &mut (impl Read + Write),
    answer: &dyn Fn(&Request) -> Reply,
    heard: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(&mut *stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let mut request = Request { method: method.to_owned(), path: path.to_owned(), headers: BTreeMap::new() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                request.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    heard.lock().unwrap().push(request.clone());
    let reply = answer(&request);
    write!(stream, "HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status)?;
    if !reply.headers.iter().any(|(name, _)| *name == "Content-Length") {
        write!(stream, "Content-Length: {}\r\n", reply.body.len())?;
    }
    for (name, value) in &reply.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    if request.method != "HEAD" {
        stream.write_all(&reply.body[..reply.cut.unwrap_or(reply.body.len()).min(reply.body.len())])?;
    }
    stream.flush()
}
