//! `glassformer formula`: a Transformer as a formula.

use std::io::Read;
use std::path::Path;

use glassformer::Formula;
use glassformer::formula::named::{Sizes, sized};
use glassformer::formula::{TextError, print};

use crate::args::{Formula as Args, Notation};
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::{load, models};

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let formula = match (&args.name, &args.file) {
        (Some(name), _) => shape(name, &args.sizes())?,
        (None, Some(file)) if is_model(file) => {
            load::model(&load::path(Some(file), console)?, console)?.formula().clone()
        }
        (None, Some(file)) => read(file)?,
        (None, None) => return Err(unknown("")),
    };
    let printed = match args.notation {
        Notation::Unicode => print::Notation::Unicode,
        Notation::Latex => print::Notation::Latex,
        Notation::Mathml => print::Notation::Mathml,
        Notation::Toml | Notation::Json if args.definitions => {
            return Err(Failure::new(
                "--definitions explains symbols, and TOML and JSON have none",
                "use --notation unicode, latex or mathml",
            ));
        }
        Notation::Toml => return result(&formula.to_toml().map_err(|error| bad("", &error))?),
        Notation::Json => {
            return result(&format!("{}\n", formula.to_json().map_err(|error| bad("", &error))?));
        }
    };
    let mut text = print::formula(&formula, printed) + "\n";
    if args.definitions {
        text.push('\n');
        for line in print::definitions_in(&formula, printed) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    result(&text)
}

/// A named shape in the sizes that were given.
fn shape(name: &str, sizes: &Sizes) -> Result<Formula, Failure> {
    let formula = sized(name, sizes).ok_or_else(|| unknown(name))?;
    let check = formula.check();
    check.map_err(|problems| {
        Failure::formula("the formula", &problems, "give other sizes, or leave them out")
    })?;
    Ok(formula)
}

fn unknown(name: &str) -> Failure {
    Failure::new(format!("no formula is named {name:?}"), "`glassformer formula --help` lists the names")
}

/// Whether `path` is a model rather than a formula alone: a folder without one, or a file in GGUF.
fn is_model(path: &Path) -> bool {
    let folder = path.is_dir() && !path.join("formula.toml").exists();
    folder || models::is_name(path) || path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
}

/// Reads a formula from a file, a model's folder, or standard input.
fn read(path: &Path) -> Result<Formula, Failure> {
    let path = if path.is_dir() { path.join("formula.toml") } else { path.to_owned() };
    let input = path == Path::new("-");
    let place = if input { "standard input".to_owned() } else { path.display().to_string() };
    let cannot = |error: std::io::Error| {
        Failure::new(
            format!("cannot read {place}: {error}"),
            "give a file in TOML or JSON, a model's folder, or --name for a well-known formula",
        )
    };
    let mut text = String::new();
    if input {
        std::io::stdin().read_to_string(&mut text).map_err(cannot)?;
    } else {
        text = std::fs::read_to_string(&path).map_err(cannot)?;
    }
    // No TOML document begins with a brace, and every formula in JSON does.
    let json = text.trim_start().starts_with('{');
    let formula = if json { Formula::from_json(&text) } else { Formula::from_toml(&text) };
    formula.map_err(|error| bad(&format!("{place}: "), &error))
}

fn bad(place: &str, error: &TextError) -> Failure {
    Failure::new(
        format!("{place}{}", error.to_string().trim_end()),
        "`glassformer formula --name original --notation toml` prints a formula that works",
    )
}
