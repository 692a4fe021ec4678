//! `glassformer pull`, `list` and `remove`: models of a hub, in the cache of its tools.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use glassformer::hub::{Hub, Model, Name, Revision, bytes};
use serde_json::{Value, json};

use crate::Done;
use crate::args::{List, Pull, Remove};
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::models::Shown;

pub fn pull(args: &Pull, console: &Console) -> Result<(), Failure> {
    let name: Name = args.name.parse()?;
    let shown = Shown::new(&name, console);
    let pulled = Hub::from_env()?.pull(&name, &|event| shown.tell(event));
    shown.finish();
    let pulled = pulled?;
    if pulled.files == 0 {
        console.note(&format!("{name} is up to date"));
    }
    let path = pulled.path.display();
    if args.json {
        let (commit, files, bytes) = (pulled.commit, pulled.files, pulled.bytes);
        let value = json!({
            "schema": 1, "name": name.to_string(), "path": path.to_string(), "commit": commit,
            "fetched": { "files": files, "bytes": bytes },
        });
        return result(&format!("{value}\n"));
    }
    result(&format!("{path}\n"))
}

pub fn list(args: &List, console: &Console) -> Result<(), Failure> {
    let hub = Hub::from_env()?;
    let models = hub.list();
    let cache = hub.settings().cache.display();
    if args.json {
        let models: Vec<Value> = models.iter().map(json).collect();
        return result(&format!(
            "{}\n",
            json!({ "schema": 1, "cache": cache.to_string(), "models": models })
        ));
    }
    if models.is_empty() {
        console.note(&format!("there are no models in {cache}; `glassformer pull org/name` fetches one"));
    }
    let width = models.iter().map(|model| model.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for model in &models {
        for revision in &model.revisions {
            let (size, count) = (bytes(revision.size), revision.files.len());
            let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
            // A string takes everything.
            let _ = writeln!(text, "{:width$}  {:20}  {size:>10}  {files}", model.name, at(revision));
            for file in revision.files.iter().filter(|_| args.files) {
                let _ = writeln!(text, "  {:>10}  {}", bytes(file.size), file.path);
            }
        }
        if model.incomplete > 0 {
            let _ = writeln!(
                text,
                "{:width$}  {:20}  {:>10}",
                model.name,
                "not complete",
                bytes(model.incomplete)
            );
        }
    }
    result(&text)
}

/// The state of a model as people write it, with as much of the commit as tells it apart.
fn at(revision: &Revision) -> String {
    let commit = &revision.commit[..revision.commit.len().min(8)];
    if revision.refs.is_empty() {
        commit.to_owned()
    } else {
        format!("{} ({commit})", revision.refs.join(", "))
    }
}

fn json(model: &Model) -> Value {
    let revision = |revision: &Revision| {
        let files: Vec<Value> =
            revision.files.iter().map(|file| json!({ "path": file.path, "bytes": file.size })).collect();
        json!({ "commit": revision.commit, "refs": revision.refs, "bytes": revision.size, "files": files })
    };
    json!({
        "name": model.name, "bytes": model.size, "incomplete_bytes": model.incomplete,
        "revisions": model.revisions.iter().map(revision).collect::<Vec<_>>(),
    })
}

pub fn remove(args: &Remove, console: &Console) -> Result<Done, Failure> {
    let hub = Hub::from_env()?;
    let removal = hub.removal(&args.name.parse()?)?;
    let what = format!("{} ({}) in {}", removal.name, bytes(removal.bytes), hub.settings().cache.display());
    if !args.yes {
        if !io::stdin().is_terminal() {
            return Err(Failure::new(
                format!("nobody is there to be asked whether to delete {what}"),
                "give --yes",
            ));
        }
        let _ = write!(io::stderr(), "delete {what}? [y/N] ");
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        if read.is_err() || !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
            console.note("nothing was deleted");
            return Ok(Done::Negative);
        }
    }
    removal.carry_out()?;
    console.note(&format!("deleted {what}"));
    Ok(Done::Well)
}
