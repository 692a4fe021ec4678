//! A translation that an introduction to the Transformer (called the document below) works out by hand, replayed: "The cat sat", from its
//! tokens to 猫 坐着 `<eos>`, with the document's own numbers.
//!
//! The data lies beside this file. `formula.toml` is the Transformer, `weights.toml` what the document gives of its weights,
//! `claims.toml` every number that it prints, `steps.toml` the sentences. What the document leaves out is this program's own
//! and drawn from [`SEED`].

mod model;
mod own;
mod story;

pub use model::{Origin, SEED, model, origins};

use glassformer_engine::{Decoding, Generator, Request, Room, Sequence};
use glassformer_graph::Backend;
use glassformer_model::Model;
use serde::Deserialize;

use crate::{Claim, Error, Trace, Walkthrough};

/// The source's words; a word's place is its id.
pub const SOURCE: [&str; 3] = ["The", "cat", "sat"];
/// The target's vocabulary: exactly the words of the document. A word's place is its id.
pub const TARGET: [&str; 4] = ["<sos>", "<eos>", "猫", "坐着"];
/// The id of `<sos>`.
pub const START: u32 = 0;
/// The id of `<eos>`.
pub const END: u32 = 1;
/// More words are not generated.
const LONGEST: usize = 6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    claims: Vec<Claim>,
}

/// Every number that the document prints.
///
/// # Errors
/// If the data beside this file is broken.
pub fn claims() -> Result<Vec<Claim>, Error> {
    let file = "claims.toml";
    let read: Claims = read(file, include_str!("worked_example/claims.toml"))?;
    Ok(read.claims)
}

/// The whole walkthrough, run by `backend`.
///
/// # Errors
/// If the model cannot run, or the data beside this file is broken.
pub fn walkthrough(backend: &dyn Backend) -> Result<Walkthrough, Error> {
    let model = model(SEED)?;
    let answer = answer(&model, backend)?;
    let written = |words: usize| [&[START], &answer[..words]].concat();
    let run = |words: usize| {
        let source = (0..SOURCE.len() as u32).collect();
        Trace::run(&model, backend, &Sequence { source, target: written(words), ..Sequence::default() })
    };
    let traces = (0..answer.len()).map(run).collect::<Result<Vec<_>, _>>()?;
    let claims = claims()?;
    let own = own::run(backend, &claims)?;
    let first = traces.first().ok_or(Error::Data { file: "formula.toml", why: "no word came".to_owned() })?;
    let judged = claims
        .iter()
        .map(|claim| claim.judge(first, |name| own.get(name).cloned()))
        .collect::<Result<Vec<_>, _>>()?;
    story::tell(&model, &traces, &answer, judged)
}

/// What the engine answers to "The cat sat": the most likely word at each step, until `<eos>`.
fn answer(model: &Model, backend: &dyn Backend) -> Result<Vec<u32>, Error> {
    let decoding = Decoding { start: Some(START), ..Decoding::greedy(Some(END), LONGEST) };
    let request = Request::source((0..SOURCE.len() as u32).collect(), &[], decoding)?;
    let room = Room::new(1, SOURCE.len(), LONGEST + 1);
    let generated = Generator::new(model, backend, room)?.best(vec![request])?;
    Ok(generated.into_iter().flat_map(|generated| generated.ids).collect())
}

/// Reads a file of data.
fn read<T: for<'de> Deserialize<'de>>(file: &'static str, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| Error::Data { file, why: error.to_string() })
}

/// The word of `id` among `words`.
fn word<'w>(words: &[&'w str], id: u32) -> &'w str {
    words.get(id as usize).copied().unwrap_or("?")
}
