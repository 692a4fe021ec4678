//! Answers that come piece by piece: server-sent events, or a line of JSON for each.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::fault::Fault;

/// Events that wait for a slow reader; then whoever writes them waits, too.
const EVENTS: usize = 64;

/// How often a stream says that it is alive, so that a reader who has gone is noticed.
const PING: Duration = Duration::from_secs(15);

/// How the pieces of an answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events: `data: {…}`.
    Events,
    /// A line for each.
    Lines,
}

/// The reader has gone, or takes nothing.
#[derive(Debug)]
pub struct Gone;

/// Where the pieces of an answer go.
pub struct Pieces {
    sender: Sender<Bytes>,
    framing: Framing,
    patience: Duration,
}

impl Pieces {
    /// Sends a piece.
    pub async fn send(&self, piece: &impl Serialize) -> Result<(), Gone> {
        self.named(None, piece).await
    }

    /// Sends a piece as the event of that name.
    pub async fn named(&self, name: Option<&str>, piece: &impl Serialize) -> Result<(), Gone> {
        // Types of this crate are always JSON.
        let json = serde_json::to_string(piece).unwrap_or_default();
        let text = match (self.framing, name) {
            (Framing::Events, Some(name)) => format!("event: {name}\ndata: {json}\n\n"),
            (Framing::Events, None) => format!("data: {json}\n\n"),
            (Framing::Lines, _) => format!("{json}\n"),
        };
        self.text(text).await
    }

    /// Says that nothing more comes, as `OpenAI` does.
    async fn done(&self) -> Result<(), Gone> {
        match self.framing {
            Framing::Events => self.text("data: [DONE]\n\n".to_owned()).await,
            Framing::Lines => Ok(()),
        }
    }

    /// Waits for something, and says meanwhile that it is alive.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Gone> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = work.as_mut() => return Ok(done),
                () = self.sender.closed() => return Err(Gone),
                () = tokio::time::sleep(PING), if self.framing == Framing::Events => {
                    self.text(": ping\n\n".to_owned()).await?;
                }
            }
        }
    }

    async fn text(&self, text: String) -> Result<(), Gone> {
        match timeout(self.patience, self.sender.send(Bytes::from(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}

/// An answer whose pieces `write` sends. If it fails, the last piece says why. Whatever it holds is dropped when the reader goes.
pub fn answer<F>(framing: Framing, patience: Duration, write: impl FnOnce(Pieces) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver): (_, Receiver<Bytes>) = channel(EVENTS);
    tokio::spawn(write(Pieces { sender, framing, patience }));
    let stream = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(stream));
    let kind = match framing {
        Framing::Events => "text/event-stream",
        Framing::Lines => "application/x-ndjson",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl Pieces {
    /// Ends a stream of `OpenAI`'s: the last piece says that it is whole, or what went wrong.
    pub async fn end(&self, poured: Result<(), Broken>) {
        // Whether anybody hears it is no matter any more.
        match poured {
            Ok(()) => drop(self.done().await),
            Err(Broken::Gone) => {}
            Err(Broken::Fault(fault)) => drop(self.send(&fault.openai()).await),
        }
    }
}

/// How a stream ended early.
pub enum Broken {
    /// Nobody reads any more.
    Gone,
    /// It could not go on.
    Fault(Fault),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
