//! `glassformer serve`: models over HTTP.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use glassformer::TextEncoder;
use glassformer::formula::Head;
use glassformer::tasks::{QueueLimits, Reserve};
use glassformer_serve::{Ended, Keys, Limits, Served, Server};
use tracing_subscriber::filter::LevelFilter;

use crate::args::{self, Log};
use crate::console::Console;
use crate::failure::Failure;
use crate::verbs::glass;
use crate::{Done, load, models};

/// Where keys are, beside a file.
const KEYS: &str = "GLASSFORMER_KEYS";

pub fn run(args: &args::Serve, console: &Console) -> Result<Done, Failure> {
    let keys = keys(args)?;
    if !args.host.is_loopback() && keys.is_open() && !args.insecure {
        return Err(Failure::new(
            format!("{} is reached from other machines, and nobody would need a key", args.host),
            format!("give --keys FILE or {KEYS}, or say --insecure"),
        ));
    }
    log(args.log);
    let mut limits = Limits::default();
    limits.queue = args.queue as usize;
    limits.request_time = Duration::from_secs(u64::from(args.request_time));
    limits.shutdown_time = Duration::from_secs(u64::from(args.shutdown_time));
    let mut given: Vec<&str> = args.models.iter().chain(&args.more).map(String::as_str).collect();
    let usual = console.settings().model.value.as_deref().map(|path| path.display().to_string());
    if given.is_empty() {
        given.push(usual.as_deref().unwrap_or(glassformer::translator::NAME));
    }
    let mut served: Vec<Served> = Vec::new();
    for given in given {
        let model = serve(given, args, &limits, console)?;
        if served.iter().any(|other| other.name() == model.name()) {
            let name = model.name();
            return Err(Failure::new(
                format!("two models would be called {name}"),
                "call one of them otherwise: NAME=MODEL",
            ));
        }
        let abilities: Vec<&str> =
            model.abilities().into_iter().map(glassformer_serve::Ability::word).collect();
        console.note(&format!("{}: {}", model.name(), abilities.join(", ")));
        served.push(model);
    }
    let mut server = Server::new(served, limits, keys);
    if args.host.is_loopback() {
        let names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        server = server.with_hosts(names.into_iter().chain([args.host.to_string()]).collect());
    }
    let address = SocketAddr::new(args.host, args.port);
    let begun =
        |address: SocketAddr| console.note(&format!("serving on http://{address}, see /docs; Ctrl-C ends"));
    match server.run_until_signal(address, begun) {
        Ok(Ended::Terminated) => Ok(Done::Well),
        Ok(Ended::Interrupted) => Ok(Done::Interrupted),
        Err(error) => Err(refused(&error, address)),
    }
}

/// Why an address cannot be had.
fn refused(error: &io::Error, address: SocketAddr) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there: take another --port",
        io::ErrorKind::PermissionDenied => "ports below 1024 belong to the system: take another --port",
        io::ErrorKind::AddrNotAvailable => "this machine has no such address: take another --host",
        _ => "take another --host or --port",
    };
    Failure::new(format!("cannot listen on {address}: {error}"), hint)
}

/// The keys that were given.
fn keys(args: &args::Serve) -> Result<Keys, Failure> {
    let said = std::env::var(KEYS).unwrap_or_default();
    let keys = Keys::new(said.split(','));
    let Some(path) = &args.keys else { return Ok(keys) };
    let text = fs::read_to_string(path).map_err(|error| {
        let shown = path.display();
        Failure::new(format!("cannot read the keys in {shown}: {error}"), "write a key on each line")
    })?;
    let own = Keys::read(&text);
    if own.is_open() {
        let shown = path.display();
        return Err(Failure::new(format!("there are no keys in {shown}"), "write a key on each line"));
    }
    Ok(keys.and(own))
}

fn log(log: Log) {
    let to = || tracing_subscriber::fmt().with_writer(io::stderr);
    match log {
        Log::Off => to().with_max_level(LevelFilter::WARN).compact().init(),
        Log::Text => to().with_max_level(LevelFilter::INFO).compact().init(),
        Log::Json => to().with_max_level(LevelFilter::INFO).json().flatten_event(true).init(),
    }
}

/// Opens a model to be served.
fn serve(given: &str, args: &args::Serve, limits: &Limits, console: &Console) -> Result<Served, Failure> {
    // A path may have such a sign in it, and is meant where it is there.
    let (name, path) = match given.split_once('=') {
        Some((name, path)) if !Path::new(given).exists() => (Some(name), path),
        _ => (None, given),
    };
    let queue = QueueLimits { orders: limits.queue, tokens: limits.queue_tokens };
    let reserve = Reserve {
        sequences: usize::from(args.sequences),
        longest: args.context as usize,
        memory: (args.memory as usize) << 20,
        queue,
    };
    if load::is_carried(Path::new(path)) {
        let translator = load::translator(console)?;
        translator.generator().reserve(&reserve)?;
        let served = Served::translator(translator).shown(glass::of(None, console));
        return Ok(match name {
            Some(name) => served.called(name),
            None => served,
        });
    }
    let located = models::locate(Path::new(path), console)?;
    let name = name.map_or_else(|| called(path, &located), str::to_owned);
    let checkpoint = load::checkpoint(&located, console);
    let writes = checkpoint.as_ref().is_ok_and(|checkpoint| {
        let formula = checkpoint.model.formula();
        formula.target.is_some() && matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. })
    });
    if !writes {
        let backend = console.backend(&located);
        let served = Served::reading(name, TextEncoder::open(&located, backend)?);
        return Ok(served.shown(glass::of(Some(located), console)));
    }
    let generator = load::generator(&located, args.draft.model(), console)?.drafting(args.draft.draft());
    generator.reserve(&reserve)?;
    let (backend, open) = (console.backend(&located), located.clone());
    let served = Served::writing(name, generator, move || TextEncoder::open(&open, backend.clone()));
    Ok(served.shown(glass::of(Some(located), console)))
}

/// What a model is called that was given without a name: as on its hub, or as its folder or file.
fn called(given: &str, located: &Path) -> String {
    if !Path::new(given).exists() {
        return given.to_owned();
    }
    let path = located.canonicalize().unwrap_or_else(|_| located.to_owned());
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| given.to_owned(), |name| name.to_string_lossy().into_owned())
}
