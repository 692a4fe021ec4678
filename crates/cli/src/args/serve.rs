//! What can be typed after `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::ValueEnum;

use super::decode::{Drafts, drafts};

pub const SERVE: &str = "\
Examples:
  glassformer serve                                       the translator of this program, on http://127.0.0.1:8080
  glassformer serve HuggingFaceTB/SmolLM2-135M-Instruct   a model that chats, for any client of OpenAI's interface
  glassformer serve chat=model.gguf vectors=MiniLM en-zh  several, by names of your own
  glassformer serve --host 0.0.0.0 --keys keys.txt MODEL  for other machines, with keys
";

#[derive(clap::Args)]
pub struct Serve {
    /// Models to serve: folders, .gguf files, names on a hub, or en-zh for the translator of this program, which is served if none is
    /// given; NAME= before one calls it so
    #[arg(value_name = "[NAME=]MODEL")]
    pub models: Vec<String>,
    /// The same, as a flag that can be repeated
    #[arg(long = "model", value_name = "[NAME=]MODEL")]
    pub more: Vec<String>,
    /// The address to listen on; other machines are served only with keys, or --insecure
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// The port to listen on; 0 takes any that is free
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// A file of keys, one on each line; `GLASSFORMER_KEYS` has keys with commas between
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Serve other machines without keys
    #[arg(long)]
    pub insecure: bool,
    /// Texts that are written at once by each model
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub sequences: u16,
    /// The longest text in tokens, prompt and answer together, where the model does not end before
    #[arg(long, value_name = "TOKENS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(16..))]
    pub context: u32,
    /// Memory for keys and values of each model in megabytes; requests wait where there is no more
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub memory: u32,
    /// Guess the next tokens and check several in one step, with the same results: from what stood before (lookup), by a smaller model of
    /// the same tokens, or not at all (none)
    #[arg(long, value_name = "lookup|none|MODEL", default_value = "none", value_parser = drafts)]
    pub draft: Drafts,
    /// Requests that may wait for a model; more are told to come again
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub queue: u32,
    /// Seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    pub request_time: u32,
    /// Seconds that requests may go on after the server was told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub shutdown_time: u32,
    /// How each request is logged on standard error; what it asked is not
    #[arg(long, value_enum, default_value_t = Log::Off)]
    pub log: Log,
}

/// How requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    /// Not at all; what goes wrong is told
    Off,
    /// As lines for people
    Text,
    /// As a line of JSON for each
    Json,
}
