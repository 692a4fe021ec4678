//! Checkpoints: a model in a layout that others read, with all that is needed to go on beside it.
//!
//! A checkpoint is a folder that appears whole or not at all: it is written under a hidden name, every file is synchronised
//! and listed with its SHA-256 (`sha256sum -c SHA256SUMS` checks it), then the folder is renamed. What a kill leaves behind is
//! a hidden folder that the next run removes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use glassformer_families::Layout;
use glassformer_formula::Formula;
use glassformer_model::{Model, Parameter};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;
use serde::{Deserialize, Serialize};

use crate::data::Place;
use crate::{Error, Trainer, disk};

const SUMS: &str = "SHA256SUMS";
const STATE: &str = "training/state.json";
const NUMBERS: &str = "training/state.safetensors";

/// Where a training is, besides its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// How many steps were made, those that were skipped included.
    pub step: usize,
    /// How many of them moved something.
    pub moved: i32,
    /// What of the data comes next.
    pub place: Place,
    /// Steps in a row that moved nothing.
    pub skipped: usize,
    /// The step with the lowest loss on the data to check with, and that loss.
    pub best: Option<(usize, f64)>,
    /// The loss after this step, where it was checked.
    pub valid: Option<f64>,
}

/// How a model is written: in a family's layout, or with its formula.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// With the model that it was made from, for tensors that training does not use.
    Layout(Box<Layout>, Option<Model>),
    /// The names of labels stand beside it, in a file of their own.
    Formula(Formula),
}

/// The checkpoints of one training.
pub(crate) struct Shelf {
    folder: PathBuf,
    keep: usize,
}

/// A checkpoint that is there: its folder, and how far it is.
type Found = (PathBuf, Progress);

impl Shelf {
    /// Those below `out`. What an interruption has left half written is removed.
    pub fn open(out: &Path, keep: usize) -> Result<Self, Error> {
        let folder = out.join("checkpoints");
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let shelf = Self { folder, keep };
        for name in shelf.names()? {
            if name.starts_with(".step-") || name.starts_with(".old-") {
                let path = shelf.folder.join(name);
                fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
            }
        }
        Ok(shelf)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = fs::read_dir(&self.folder).map_err(Error::io("list", &self.folder))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step:08}"))
    }

    /// The steps of all checkpoints, ascending.
    pub fn steps(&self) -> Result<Vec<usize>, Error> {
        Ok(self.names()?.iter().filter_map(|name| name.strip_prefix("step-")?.parse().ok()).collect())
    }

    /// The last checkpoint that is what it was when it was written, and the steps of later ones that are not.
    pub fn last(&self) -> Result<(Option<Found>, Vec<usize>), Error> {
        let mut broken = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            let path = self.path(step);
            let state = fs::read_to_string(path.join(STATE)).ok();
            let state = state.and_then(|text| serde_json::from_str(&text).ok());
            match state.filter(|_| is_whole(&path)) {
                Some(state) => return Ok((Some((path, state)), broken)),
                None => broken.push(step),
            }
        }
        Ok((None, broken))
    }

    /// Gives checkpoints of steps that `progress` has not come to another name: they are damaged, and would be in the way.
    pub fn set_aside(&self, progress: &Progress) -> Result<(), Error> {
        for step in self.steps()?.into_iter().filter(|&step| step > progress.step) {
            let (path, aside) = (self.path(step), self.folder.join(format!("damaged-{step:08}")));
            let _ = fs::remove_dir_all(&aside);
            fs::rename(&path, &aside).map_err(Error::io("rename", &path))?;
        }
        Ok(())
    }

    /// Writes a checkpoint, and gives its folder.
    pub fn save(
        &self,
        trainer: &Trainer,
        progress: &Progress,
        written: &Written,
        beside: &[(String, Vec<u8>)],
    ) -> Result<PathBuf, Error> {
        let path = self.path(progress.step);
        let hidden = self.folder.join(format!(".step-{:08}", progress.step));
        if hidden.exists() {
            fs::remove_dir_all(&hidden).map_err(Error::io("remove", &hidden))?;
        }
        let training = hidden.join("training");
        fs::create_dir_all(&training).map_err(Error::io("create", &training))?;
        fill(&hidden, trainer, progress, written, beside).map_err(|error| {
            let _ = fs::remove_dir_all(&hidden);
            error.of_path(&hidden, &path)
        })?;
        if path.exists() {
            fs::remove_dir_all(&path).map_err(Error::io("replace", &path))?;
        }
        fs::rename(&hidden, &path).map_err(Error::io("rename", &hidden))?;
        disk::synchronise(&self.folder)?;
        Ok(path)
    }

    /// Removes checkpoints that are neither among the last nor the best.
    pub fn tidy(&self, progress: &Progress) -> Result<(), Error> {
        let steps = self.steps()?;
        let best = progress.best.map(|(step, _)| step);
        let old = steps.len().saturating_sub(self.keep);
        for &step in steps[..old].iter().filter(|step| Some(**step) != best) {
            self.remove(step)?;
        }
        disk::synchronise(&self.folder)
    }

    /// Removes a checkpoint; hidden first: a kill in the middle must not leave half of it under its name.
    fn remove(&self, step: usize) -> Result<(), Error> {
        let (path, hidden) = (self.path(step), self.folder.join(format!(".old-{step:08}")));
        fs::rename(&path, &hidden).map_err(Error::io("remove", &path))?;
        fs::remove_dir_all(&hidden).map_err(Error::io("remove", &hidden))
    }

    /// Makes `out/model` lead to the checkpoint of `step`.
    pub fn point(&self, step: usize) -> Result<(), Error> {
        let Some(out) = self.folder.parent() else { return Ok(()) };
        let (link, temporary) = (out.join("model"), out.join(".model"));
        let target = Path::new("checkpoints").join(format!("step-{step:08}"));
        let _ = fs::remove_file(&temporary);
        let put = || {
            symlink(&target, &temporary)?;
            fs::rename(&temporary, &link)
        };
        put().map_err(Error::io("write", &link))
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Where there are no links for everybody, a file says where the model is.
#[cfg(not(unix))]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    fs::write(link, target.display().to_string())
}

/// Gives `trainer` the numbers of the checkpoint at `path`.
pub(crate) fn restore(path: &Path, progress: &Progress, trainer: &mut Trainer) -> Result<(), Error> {
    let place = path.join(NUMBERS);
    let weights = Weights::open(&place)?;
    let wrong = |name: &str| Error::Data {
        place: place.display().to_string(),
        what: format!("it does not fit the model: {name}"),
        hint: "the configuration has changed; train into another folder".into(),
    };
    match trainer.restore(&weights, progress.moved)? {
        None => Ok(()),
        Some(name) => Err(wrong(&name)),
    }
}

/// The files below `folder`, relative to it, in order.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() { open.push(path) } else { all.push(path) }
        }
    }
    all.sort();
    Ok(all)
}

/// Writes the list of all files with their hashes, after all of them and their folders were synchronised.
fn list(folder: &Path) -> Result<(), Error> {
    let names = files(folder).map_err(Error::io("list", folder))?;
    let mut text = String::new();
    for name in names {
        let path = folder.join(&name);
        File::open(&path).and_then(|file| file.sync_all()).map_err(Error::io("synchronise", &path))?;
        if let Some(parent) = path.parent() {
            disk::synchronise(parent)?;
        }
        text.extend([&disk::sha256(&path)?, "  ", &name.display().to_string(), "\n"]);
    }
    disk::write(&folder.join(SUMS), text.as_bytes())
}

/// Whether all files of a checkpoint are what its list says.
fn is_whole(folder: &Path) -> bool {
    let Ok(text) = fs::read_to_string(folder.join(SUMS)) else { return false };
    let right = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        (disk::sha256(&folder.join(name)).ok()? == sum).then_some(())
    };
    text.lines().count() > 0 && text.lines().all(|line| right(line).is_some())
}

/// Writes everything of a checkpoint into its hidden folder.
fn fill(
    hidden: &Path,
    trainer: &Trainer,
    progress: &Progress,
    written: &Written,
    beside: &[(String, Vec<u8>)],
) -> Result<(), Error> {
    let weights: BTreeMap<&str, Tensor> = trainer
        .parameters()
        .iter()
        .zip(trainer.weights()?)
        .filter_map(|(Parameter { name, shape }, data)| {
            Some((name.as_str(), Tensor::new(shape, data.to_vec())?))
        })
        .collect();
    match written {
        Written::Layout(layout, rest) => {
            layout.save(hidden, |name| weights.get(name).cloned().or_else(|| rest.as_ref()?.tensor(name)))?;
        }
        Written::Formula(formula) => {
            let text =
                formula.to_toml().map_err(|error| Error::config(error.to_string(), "check the formula"))?;
            disk::write(&hidden.join("formula.toml"), text.as_bytes())?;
            let named = weights.iter().map(|(name, tensor)| (*name, tensor));
            glassformer_weights::save(hidden.join("model.safetensors"), named, &BTreeMap::new())?;
        }
    }
    for (name, bytes) in beside {
        let path = hidden.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        disk::write(&path, bytes)?;
    }
    let numbers = trainer.numbers()?;
    let named = numbers.iter().map(|(name, tensor)| (name.as_str(), tensor));
    glassformer_weights::save(hidden.join(NUMBERS), named, &BTreeMap::new())?;
    let text = serde_json::to_string_pretty(progress).unwrap_or_default();
    disk::write(&hidden.join(STATE), text.as_bytes())?;
    list(hidden)
}
