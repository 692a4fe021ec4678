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
        /// The mean loss of its rows, where it is a number.
        loss: Option<f32>,
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
        /// The mean loss, where it is a number.
        valid: Option<f64>,
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
    pub fn resume(path: impl AsRef<Path>, step: usize) -> Result<Self, Error> {
        let path = path.as_ref();
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
    pub fn read(path: impl AsRef<Path>) -> Vec<Entry> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_loss_and_one_that_was_cut_off_lose_no_others() {
        let path = std::env::temp_dir().join(format!("glassformer-log-{}", std::process::id()));
        let step = |step, loss| Entry::Step { step, loss, rate: 0.1, length: None, rows: 1, seconds: 0.5 };
        let all = [
            step(1, Some(2.0)),
            step(2, None),
            Entry::Check { step: 2, valid: None, accuracy: 0.0 },
            step(3, Some(1.0)),
        ];
        let mut log = Log::resume(&path, 0).unwrap();
        for entry in &all {
            log.push(entry).unwrap();
        }
        log.file.write_all(b"{\"step\":4,\"lo").unwrap();
        assert_eq!(Log::read(&path), all);
        Log::resume(&path, 2).unwrap();
        assert_eq!(Log::read(&path), all[..3]);
        fs::remove_file(&path).unwrap();
    }
}
