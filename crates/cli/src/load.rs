//! From a path on the command line to a model.

use std::path::Path;
use std::time::Instant;

use glassformer::Model;

use crate::console::Console;
use crate::failure::Failure;

const LAYOUT: &str = "--model takes a folder with formula.toml and model.safetensors";

/// Opens the model in `folder`.
pub fn model(folder: &Path, console: &Console) -> Result<Model, Failure> {
    let shown = folder.display();
    if !folder.exists() {
        return Err(Failure::new(format!("there is no folder {shown}"), LAYOUT));
    }
    if !folder.is_dir() {
        return Err(Failure::new(format!("{shown} is a file"), LAYOUT));
    }
    if !folder.join("formula.toml").exists() {
        return Err(if folder.join("config.json").exists() {
            Failure::new(
                format!("{shown} is in Hugging Face layout, which this version does not read yet"),
                format!("{LAYOUT}; reading config.json comes in a later version"),
            )
        } else {
            Failure::new(format!("there is no formula.toml in {shown}"), LAYOUT)
        });
    }
    let start = Instant::now();
    let model = Model::open(folder)?;
    console.detail(|| {
        let count = model.weights().len();
        format!("opened {count} weights of {shown} in {:.0?}", start.elapsed())
    });
    Ok(model)
}
