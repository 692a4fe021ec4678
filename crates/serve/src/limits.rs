//! How much may be asked for. Everything is checked against these before anything waits.

use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's headers.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a client may take for the headers of a request, and may be silent between two.
    pub header_time: Duration,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// How long a client may take for the body of a request.
    pub body_time: Duration,
    /// How long a client may take nothing of an answer before its connection is closed.
    pub write_time: Duration,
    /// How long a request may take from when it was read to the end of its answer.
    pub request_time: Duration,
    /// Texts of a request.
    pub texts: usize,
    /// Answers to a text (`n`), and beams.
    pub returns: usize,
    /// Stop texts, and bytes of each.
    pub stops: usize,
    /// See [`Limits::stops`].
    pub stop_bytes: usize,
    /// Tokens whose scores are changed (`logit_bias`).
    pub biases: usize,
    /// Likeliest tokens that are told at each place.
    pub logprobs: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Requests that wait for a model.
    pub queue: usize,
    /// Tokens of their prompts.
    pub queue_tokens: usize,
    /// How long requests may go on after the server was told to end.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            header_bytes: 64 << 10,
            headers: 100,
            header_time: Duration::from_secs(10),
            body_bytes: 4 << 20,
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            request_time: Duration::from_secs(600),
            texts: 1024,
            returns: 16,
            stops: 16,
            stop_bytes: 256,
            biases: 1024,
            logprobs: 20,
            messages: 1024,
            queue: 512,
            queue_tokens: 1 << 20,
            shutdown_time: Duration::from_secs(30),
        }
    }
}
