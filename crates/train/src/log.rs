//! The log: a JSON object on each line, for whoever wants to draw curves or to compare runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, disk};

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// A step.
    Step {
        /// Which one, from 1.
        step: usize,
        /// The mean loss of its rows.
        loss: f32,
        /// The learning rate.
        rate: f32,
        /// The length of the gradient before clipping.
        length: Option<f32>,
        /// How many rows had labels.
        rows: usize,
        /// How long it took, in seconds.
        seconds: f64,
    },
    /// A look at the data to check with.
    Check {
        /// After which step.
        step: usize,
        /// The mean loss.
        valid: f64,
        /// The share of rows whose highest score was right.
        accuracy: f64,
    },
}

impl Entry {
    /// The step that it is about.
    pub fn step(&self) -> usize {
        match self {
            Self::Step { step, .. } | Self::Check { step, .. } => *step,
        }
    }
}

/// A log that is being written.
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Opens the log at `path` to go on after `step`: what is there of later steps was never saved and is forgotten, and so
    /// is a line that was cut off.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn resume(path: &Path, step: usize) -> Result<Self, Error> {
        let kept: String = Self::read(path)
            .into_iter()
            .filter(|entry| entry.step() <= step)
            .filter_map(|entry| Some(serde_json::to_string(&entry).ok()? + "\n"))
            .collect();
        disk::write(path, kept.as_bytes())?;
        let file = OpenOptions::new().append(true).open(path).map_err(Error::io("open", path))?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// All lines of the log at `path` that are whole; none where there is no log.
    pub fn read(path: &Path) -> Vec<Entry> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Appends a line.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Error> {
        let line = serde_json::to_string(entry).unwrap_or_default() + "\n";
        self.file.write_all(line.as_bytes()).map_err(Error::io("write", &self.path))
    }
}
