//! A model as the page shows it, and `explain --open`: the page of one model, served on this machine.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use glassformer::formula::Head;
use glassformer::tasks::{self, TextGenerator};
use glassformer::{TextEncoder, families};
use glassformer_serve::{Glass, Keys, Limits, Served, Server, Shown};

use crate::args::Explain;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::load;

/// How the model at `path` is shown, or the one that the program carries: by the numbers that its weights stand for.
pub fn of(path: Option<PathBuf>, console: &Console) -> Glass {
    let backend = console.exact_backend();
    let own = backend.clone();
    Glass::new(backend, console.exact_precision().to_string(), move || {
        let Some(path) = &path else {
            let generator = TextGenerator::from_files(&glassformer::translator::FILES, own.clone())?;
            return Ok(Shown::Writes(Box::new(generator)));
        };
        let checkpoint = tasks::open(path)?;
        let formula = checkpoint.model.formula();
        let words = matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. });
        if words && formula.target.is_some() {
            return Ok(Shown::Writes(Box::new(TextGenerator::new(checkpoint, path, own.clone())?)));
        }
        let encoder = match formula.head {
            // What such a model is for is a vector of the text: pooled as its files say.
            Head::Rows => {
                let tokenizer = tasks::tokenizer(families::embedding_folder(path)?)?;
                TextEncoder::new(families::open_for_embedding(path)?, tokenizer, own.clone())?
            }
            Head::Words { .. }
            | Head::Adaptive { .. }
            | Head::Classes { .. }
            | Head::Tags { .. }
            | Head::Spans => TextEncoder::new(checkpoint, tasks::tokenizer(path)?, own.clone())?,
        };
        Ok(Shown::Reads(Box::new(encoder)))
    })
}

/// Serves the page on this machine until Ctrl-C, and opens a browser at it.
pub fn open(args: &Explain, console: &Console) -> Result<(), Failure> {
    let path = load::own(args.model.as_deref(), console)?;
    if let Some(path) = &path {
        // What is wrong with a model is said here, and not in the browser.
        load::checkpoint(path, console)?;
    }
    let name = args.model.as_deref().unwrap_or(Path::new(glassformer::translator::NAME));
    let name = name
        .file_name()
        .map_or_else(|| name.display().to_string(), |name| name.to_string_lossy().into_owned());
    let served = Served::showing(name, of(path, console));
    let names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
    let server = Server::new(vec![served], Limits::default(), Keys::default()).with_hosts(names);
    let begun = |address: SocketAddr| {
        let url = format!("http://{address}/{}", asked(args));
        let _ = result(&format!("{url}\n"));
        console.note("Ctrl-C ends");
        browse(&url);
    };
    server.run_until_signal(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), begun).map_err(|error| {
        Failure::new(format!("cannot listen on this machine: {error}"), "use --html FILE in its place")
    })?;
    Ok(())
}

/// What the page is to run first, as its address says it.
fn asked(args: &Explain) -> String {
    let mut asked = String::new();
    for (name, text) in [("text", &args.text), ("second", &args.second)] {
        if let Some(text) = text {
            let between = if asked.is_empty() { '#' } else { '&' };
            let _ = write!(asked, "{between}{name}={}", encoded(text));
        }
    }
    asked
}

/// A text as addresses have it.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Opens a browser, where there is one: the address was printed anyway.
fn browse(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var("BROWSER").ok().filter(|program| !program.is_empty());
    let mut command = if cfg!(target_os = "windows") {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new(program.as_deref().unwrap_or(opener))
    };
    let quiet = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Where nobody opens it, the reader does.
    drop(quiet.spawn());
}
