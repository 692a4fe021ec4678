//! From a path on the command line to a model.

use std::path::Path;
use std::time::Instant;

use glassformer::{Model, families};

use crate::console::Console;
use crate::failure::Failure;

const LAYOUT: &str =
    "--model takes a folder with formula.toml and model.safetensors, or one in Hugging Face layout";

/// Opens the model in `folder`.
pub fn model(folder: &Path, console: &Console) -> Result<Model, Failure> {
    let shown = folder.display();
    if !folder.exists() {
        return Err(Failure::new(format!("there is no folder {shown}"), LAYOUT));
    }
    if !folder.is_dir() {
        return Err(Failure::new(format!("{shown} is a file"), LAYOUT));
    }
    let start = Instant::now();
    let model = if folder.join("formula.toml").exists() {
        Model::open(folder)?
    } else if folder.join("config.json").exists() {
        families::open(folder)?.model
    } else {
        return Err(Failure::new(
            format!("there is neither formula.toml nor config.json in {shown}"),
            LAYOUT,
        ));
    };
    console.detail(|| {
        let count = model.names().len();
        format!("opened {count} weights of {shown} in {:.0?}", start.elapsed())
    });
    Ok(model)
}
