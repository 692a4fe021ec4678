//! `glassformer verify`: a run compared with saved tensors.

use glassformer::explain::{Expected, Verification};
use glassformer::tensor::Tolerance;
use glassformer::{Weights, tasks};
use serde_json::{Value, json};

use crate::Done;
use crate::args::Verify as Args;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::load;

pub fn run(args: &Args, console: &Console) -> Result<Done, Failure> {
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        let what = format!("--tolerance is {}", args.tolerance);
        return Err(Failure::new(what, "give a number from 0 on, such as 1e-4"));
    }
    let checkpoint = load::checkpoint_for_ids(&load::path(args.model.given(), console)?, console)?;
    let file = Weights::open(&args.against)?;
    let mut cases = Expected::read(&file, checkpoint.model.formula()).map_err(|error| bad_file(&error))?;
    let backend = console.exact_backend();
    let mut found = Vec::new();
    for case in &mut cases {
        tasks::complete(&mut case.sequence, &checkpoint).map_err(|error| error.counted_from(case.index))?;
        let tolerance = Tolerance::both(args.tolerance);
        let verification = case.verify(&checkpoint.model, &*backend, tolerance)?;
        if !verification.unknown.is_empty() {
            let names = verification.unknown.join(", ");
            console.note(&format!("sequence {}: not in this model and not compared: {names}", case.index));
        }
        found.push((case.index, verification));
    }
    let compared: usize = found.iter().map(|(_, verification)| verification.compared.len()).sum();
    if compared == 0 {
        return Err(Failure::new(
            format!("{} holds nothing to compare with", args.against.display()),
            "`glassformer forward --out F.safetensors` writes such a file",
        ));
    }
    let first = found.iter().find_map(|(index, verification)| Some((*index, verification.first.as_ref()?)));
    let text = if args.json {
        format!("{}\n", json(&found))
    } else {
        match first {
            None => format!("equal: {compared} tensors within {}\n", args.tolerance),
            Some((index, (name, how))) => format!("different: sequence {index}, {name}: {how}\n"),
        }
    };
    result(&text)?;
    Ok(if first.is_some() { Done::Negative } else { Done::Well })
}

fn bad_file(error: &glassformer::explain::Error) -> Failure {
    Failure::new(error.to_string(), "write the file with `glassformer forward --out`, or add the ids to it")
}

fn json(found: &[(usize, Verification)]) -> Value {
    let output = |(index, verification): &(usize, Verification)| {
        let first =
            verification.first.as_ref().map(|(name, how)| json!({ "name": name, "how": how.to_string() }));
        json!({
            "sequence": index,
            "equal": first.is_none(),
            "compared": verification.compared,
            "unknown": verification.unknown,
            "first": first,
        })
    };
    json!({ "schema": 1, "outputs": found.iter().map(output).collect::<Vec<_>>() })
}
