//! `glassformer verify`: a trace computed again, or a run compared with saved tensors.

use std::path::{Path, PathBuf};

use glassformer::explain::record::{Check, JSON, Outcome, StepOutcome};
use glassformer::explain::{Checked, Expected, Recording, Verification};
use glassformer::tensor::Tolerance;
use glassformer::{Weights, tasks};
use serde_json::{Value, json};

use crate::Done;
use crate::args::Verify as Args;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::load;
use crate::verbs::explain;

pub fn run(args: &Args, console: &Console) -> Result<Done, Failure> {
    match &args.against {
        Some(file) => against(args, file, console),
        None => trace(args, console),
    }
}

/// A trace computed again.
fn trace(args: &Args, console: &Console) -> Result<Done, Failure> {
    let Some(subject) = &args.subject else {
        let hint = "give the folder that `explain --trace` wrote, or --against with tensors to compare with";
        return Err(Failure::new("there is nothing to verify", hint));
    };
    let folder = if subject.ends_with(JSON) { subject.parent().unwrap_or(Path::new("")) } else { subject };
    if !folder.join(JSON).is_file() {
        let what = format!("there is no {JSON} in {}", subject.display());
        let hint = "give the folder that `explain --trace` wrote; to compare a model with saved tensors, add --against";
        return Err(Failure::new(what, hint));
    }
    let recording = Recording::open(folder)?;
    let named = PathBuf::from(&recording.record.model.name);
    let opened = match &args.model {
        Some(model) => Some(explain::open(Some(model), console)?),
        None if load::is_carried(&named) || named.exists() => Some(explain::open(Some(&named), console)?),
        None => None,
    };
    if opened.is_none() {
        let name = named.display();
        console.note(&format!(
            "the model {name} is not here: steps over its weights are left out; --model brings it"
        ));
    }
    let checked = Checked::of(&recording, opened.as_ref().map(explain::Opened::model));
    let text = if args.json { format!("{}\n", trace_json(&checked)) } else { table(&checked) };
    result(&text)?;
    Ok(if checked.holds() { Done::Well } else { Done::Negative })
}

/// What came of a trace: its steps by kind, what must hold, and the first step that does not.
fn table(checked: &Checked) -> String {
    let mut lines = Vec::new();
    let off = |outcome: &Outcome| match outcome {
        Outcome::Holds(replayed) | Outcome::Differs(replayed) => replayed.max_error / replayed.scale,
        Outcome::Fails { .. } => f64::INFINITY,
        Outcome::Missing { .. } => 0.0,
    };
    // By what they compute: the layers are alike.
    let mut kinds: Vec<(&str, usize, usize, f64)> = Vec::new();
    for StepOutcome { id, outcome } in &checked.steps {
        let kind = id.rsplit('.').next().unwrap_or(id);
        let missing = usize::from(matches!(outcome, Outcome::Missing { .. }));
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, without, worst)) => {
                *count += 1;
                *without += missing;
                *worst = worst.max(off(outcome));
            }
            None => kinds.push((kind, 1, missing, off(outcome))),
        }
    }
    lines.push(format!("{:<16}{:>6}  {:>9}\n", "steps", "", "worst"));
    for (kind, count, missing, worst) in kinds {
        let left = if missing > 0 { format!("  {missing} left out") } else { String::new() };
        let worst = if missing == count { "–".to_owned() } else { format!("{worst:.1e}") };
        lines.push(format!("  {kind:<14}{count:>6}  {worst:>9}{left}\n"));
    }
    for Check { title, ok, worst, at, .. } in &checked.checks {
        let mark = if *ok { '✓' } else { '✗' };
        let place = at.as_ref().filter(|_| !ok).map(|at| format!(" in {at}")).unwrap_or_default();
        lines.push(format!("{mark} {}  {worst:.1e}{place}\n", title.en));
    }
    let missing = checked.missing();
    lines.push(match checked.first() {
        Some(StepOutcome { id, outcome }) => format!("different: {id}: {}\n", told(outcome)),
        None if !checked.holds() => "different: something does not hold that must\n".to_owned(),
        None if missing > 0 => {
            format!("equal: {} steps; {missing} could not be computed\n", checked.steps.len() - missing)
        }
        None => format!("equal: {} steps\n", checked.steps.len()),
    });
    lines.concat()
}

/// What is wrong with a step.
fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Holds(_) => "it holds".to_owned(),
        Outcome::Differs(replayed) => {
            let (error, scale) = (replayed.max_error, replayed.scale);
            format!(
                "element {:?} is {error:.2e} away from its formula, where the largest is {scale:.2e}",
                replayed.at
            )
        }
        Outcome::Fails { why } => why.clone(),
        Outcome::Missing { tensor } => format!("{tensor} is not there"),
    }
}

fn trace_json(checked: &Checked) -> Value {
    let first = checked.first().map(|step| json!({ "step": step.id, "how": told(&step.outcome) }));
    json!({
        "schema": 1,
        "equal": checked.holds(),
        "first": first,
        "missing": checked.missing(),
        "steps": checked.steps,
        "checks": checked.checks,
    })
}

/// A run compared with the tensors of `file`.
fn against(args: &Args, file_path: &Path, console: &Console) -> Result<Done, Failure> {
    let given = match (&args.subject, &args.model) {
        (Some(_), Some(_)) => {
            return Err(Failure::new(
                "the model is given twice",
                "leave out --model, or what stands before it",
            ));
        }
        (subject, model) => subject.as_deref().or(model.as_deref()),
    };
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        let what = format!("--tolerance is {}", args.tolerance);
        return Err(Failure::new(what, "give a number from 0 on, such as 1e-4"));
    }
    let checkpoint = load::checkpoint_for_ids(&load::path(given, console)?, console)?;
    let file = Weights::open(file_path)?;
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
            format!("{} holds nothing to compare with", file_path.display()),
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
