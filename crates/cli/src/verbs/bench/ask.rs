//! `glassformer bench --ask`: measurements on demand, so that whoever compares programs can let them take turns.
//!
//! A first line says `{"ready":true}`. A line in: `{"workload":"decode","batch":8,"texts":8,"shortest":16,"longest":16,"new":128,"beams":1,"repeat":3}`.
//! A line out: `{"seconds":[…],"tokens":1024}`, or `{"error":"…"}`. What was prepared stays prepared.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead};

use glassformer::engine::{Bench, Kind, Workload};
use serde_json::{Value, json};

use super::Subject;
use crate::console::{peak_memory, result};
use crate::failure::Failure;

pub fn run(subject: &Subject) -> Result<(), Failure> {
    let mut prepared = HashMap::new();
    result("{\"ready\":true}\n")?;
    for line in io::stdin().lock().lines() {
        let line =
            line.map_err(|error| Failure::new(format!("cannot read standard input: {error}"), "check it"))?;
        let answer = answer(&line, subject, &mut prepared)
            .unwrap_or_else(|failure| json!({ "error": failure.message, "hint": failure.hint }));
        result(&format!("{answer}\n"))?;
    }
    Ok(())
}

fn answer(line: &str, subject: &Subject, prepared: &mut HashMap<Workload, Bench>) -> Result<Value, Failure> {
    let (workload, repeat) = parse(line)?;
    let bench = match prepared.entry(workload) {
        Entry::Occupied(ready) => ready.into_mut(),
        Entry::Vacant(place) => {
            let mut bench = subject.prepare(workload)?;
            bench.run()?;
            place.insert(bench)
        }
    };
    let mut seconds = Vec::new();
    for _ in 0..repeat {
        seconds.push(bench.run()?.as_secs_f64());
    }
    Ok(json!({ "seconds": seconds, "tokens": bench.tokens(), "peak_bytes": peak_memory() }))
}

fn parse(line: &str) -> Result<(Workload, usize), Failure> {
    let bad = |what: String| {
        Failure::new(
            what,
            "such a line works: {\"workload\":\"decode\",\"batch\":8,\"shortest\":16,\"new\":128}",
        )
    };
    let asked: Value = serde_json::from_str(line).map_err(|error| bad(format!("not JSON: {error}")))?;
    let kind = match asked["workload"].as_str() {
        Some("encode") => Kind::Encode,
        Some("prefill") => Kind::Prefill,
        Some("decode") => Kind::Decode,
        Some("translate") => Kind::Translate,
        other => return Err(bad(format!("the workload {other:?} is not known"))),
    };
    let number = |key: &str, usual: usize| match &asked[key] {
        Value::Null => Ok(usual),
        value => {
            let number = value.as_u64().filter(|number| (1..=1 << 20).contains(number));
            number.map(|number| number as usize).ok_or_else(|| bad(format!("{key} is {value}")))
        }
    };
    let batch = number("batch", 1)?;
    let shortest = number("shortest", 16)?;
    let workload = Workload {
        kind,
        batch,
        texts: number("texts", batch)?,
        shortest,
        longest: number("longest", shortest)?,
        new: number("new", 1)?,
        beams: number("beams", 1)?,
    };
    Ok((workload, number("repeat", 1)?))
}
