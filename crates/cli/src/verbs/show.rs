//! `glassformer show`: a model's card.

use glassformer::formula::print;
use glassformer::tasks::{Card, PartSize, Stored, TaskNeeds, WeightMemory};
use serde_json::{Value, json};

use crate::args::Show as Args;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::load;

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let path = load::path(args.model.given(), console)?;
    load::checkpoint(&path, console)?; // for its errors: a path that is nothing, a file that is no model
    let card = Card::of(&path)?;
    let text = if args.json { format!("{}\n", json(&card)) } else { text(&card, args.tensors) };
    result(&text)
}

fn text(card: &Card, tensors: bool) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push(format!("{name:<12}{text}\n"));
    if !card.kind.is_empty() {
        line("kind", card.kind.clone());
    }
    line("formula", print::unicode(&card.formula));
    let parts = card.parts.iter().map(|part| format!("{} {}", part.name, short(part.parameters)));
    line("parameters", format!("{}: {}", short(card.parameters()), parts.collect::<Vec<_>>().join(" · ")));
    line("tensors", format!("{} in {}: {}", card.tensors.len(), card.format, dtypes(card)));
    line(
        "reads",
        card.longest.map_or("texts of any length".to_owned(), |longest| format!("{longest} tokens at most")),
    );
    line("tokenizer", tokenizer(card));
    if !card.labels.is_empty() {
        line("labels", labels(&card.labels));
    }
    let memory = card.memory.iter().map(|memory| format!("{} {}", memory.dtype, megabytes(memory.bytes)));
    line("memory", memory.collect::<Vec<_>>().join(" · "));
    if let Some(bytes) = card.page_bytes {
        line("", format!("and {:.1} kB of keys and values for each token", bytes as f64 / 1e3));
    }
    for (index, TaskNeeds { task, lacks }) in card.tasks.iter().enumerate() {
        let name = if index == 0 { "tasks" } else { "" };
        line(name, lacks.map_or_else(|| format!("✓ {task}"), |lacks| format!("– {task} needs {lacks}")));
    }
    if tensors {
        lines.push("\n".to_owned());
        lines.extend(card.tensors.iter().map(|t| format!("{}  {}  {:?}\n", t.name, t.dtype, t.shape)));
    }
    lines.concat()
}

/// How many tensors there are of each dtype.
fn dtypes(card: &Card) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for tensor in &card.tensors {
        match counts.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype) {
            Some((_, count)) => *count += 1,
            None => counts.push((tensor.dtype, 1)),
        }
    }
    counts.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect::<Vec<_>>().join(", ")
}

fn tokenizer(card: &Card) -> String {
    let tokenizer = match &card.tokenizer {
        Ok(tokenizer) => tokenizer,
        Err(why) => return format!("none: {why}"),
    };
    let special = tokenizer.special();
    let ids = [special.bos, special.eos, special.cls, special.sep, special.pad, special.unk, special.mask];
    let mut shown: Vec<u32> = Vec::new();
    for id in ids.into_iter().flatten() {
        if !shown.contains(&id) {
            shown.push(id);
        }
    }
    let named = shown.iter().filter_map(|&id| Some(format!("{} {id}", tokenizer.token(id)?)));
    format!("{} tokens: {}", tokenizer.vocabulary().len(), named.collect::<Vec<_>>().join(", "))
}

fn labels(labels: &[String]) -> String {
    const SHOWN: usize = 12;
    let text = labels.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if labels.len() > SHOWN { format!("{text} and {} more", labels.len() - SHOWN) } else { text }
}

/// A count in the unit that a reader would use.
fn short(count: usize) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}K", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.2}B", count as f64 / 1e9),
    }
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn json(card: &Card) -> Value {
    let part = |part: &PartSize| (part.name.to_owned(), Value::from(part.parameters));
    let memory = |memory: &WeightMemory| (memory.dtype.to_owned(), Value::from(memory.bytes));
    let tensor = |t: &Stored| json!({ "name": t.name, "dtype": t.dtype, "shape": t.shape });
    let task = |TaskNeeds { task, lacks }: &TaskNeeds| json!({ "task": task, "possible": lacks.is_none(), "needs": lacks });
    let tokenizer = match &card.tokenizer {
        Ok(tokenizer) => json!({ "tokens": tokenizer.vocabulary().len() }),
        Err(why) => json!({ "missing": why }),
    };
    json!({
        "schema": 1,
        "kind": card.kind,
        "formula": print::unicode(&card.formula),
        "parameters": card.parameters(),
        "parts": card.parts.iter().map(part).collect::<Value>(),
        "format": card.format,
        "tensors": card.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "longest": card.longest,
        "tokenizer": tokenizer,
        "labels": card.labels,
        "memory": card.memory.iter().map(memory).collect::<Value>(),
        "page_bytes": card.page_bytes,
        "tasks": card.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}
