//! Connections: accepted within limits, closed when a client is too slow, and let go when the server ends.
//!
//! HTTP/1 alone. axum's own loop sets no clock, so that a client that never ends its headers would hold a connection for ever.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::limits::Limits;

/// How long to wait where the system has no more connections to give.
const NO_MORE: Duration = Duration::from_millis(100);

/// How many of those who come while the server ends are answered at a time.
const LATE: usize = 64;

/// Accepts connections until `ending` says so, and then waits for those that are under way.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, mut ending: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(8192));
    loop {
        // Whoever finds no place waits in the system's own queue.
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place,
            () = ended(&mut ending) => break,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut ending) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                refused(&error).await;
                continue;
            }
        };
        let (router, http, ending) = (router.clone(), http.clone(), ending.clone());
        tokio::spawn(async move {
            connection(stream, peer, router, &http, limits, ending).await;
            drop(place);
        });
    }
    // All places are free when nobody is left.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    tokio::select! {
        left = timeout(limits.shutdown_time, places.acquire_many(all)) => if left.is_err() {
            tracing::warn!("some requests were not over in time, and were broken off");
        },
        () = late(&listener, &router, &http, limits) => {}
    }
}

/// Answers those who come while the server ends: one request each, and the router says that it takes nothing new.
async fn late(listener: &TcpListener, router: &Router, http: &http1::Builder, limits: Limits) {
    let places = Arc::new(Semaphore::new(LATE));
    let mut http = http.clone();
    http.keep_alive(false);
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                refused(&error).await;
                continue;
            }
        };
        let (router, http) = (router.clone(), http.clone());
        tokio::spawn(async move {
            let stream = Impatient { stream, patience: limits.write_time, waits: None };
            let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            let _ = timeout(limits.header_time, served).await;
            drop(place);
        });
    }
}

/// Waits until the server is to end.
async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

/// A connection could not be accepted. Some are gone already; where the system has no more files, it is asked less often.
async fn refused(error: &io::Error) {
    let gone =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    if !gone.contains(&error.kind()) {
        tracing::warn!(%error, "no connection can be accepted");
        sleep(NO_MORE).await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    http: &http1::Builder,
    limits: Limits,
    mut ending: watch::Receiver<bool>,
) {
    // Tokens are small, and each counts.
    let _ = stream.set_nodelay(true);
    let stream = Impatient { stream, patience: limits.write_time, waits: None };
    let service = TowerToHyperService::new(router);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ended(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// A connection that is closed when its other side takes nothing for too long.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    waits: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn waited<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let deadline = Instant::now() + self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.waited(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.waited(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
