//! A configuration proposed from the data: what is learned is known, the data are looked at, and sizes follow that fit them and the
//! machine. Nothing is promised that was not measured: the proposal is trained for some steps.

mod probe;
mod sizes;
mod survey;
mod write;

use std::path::{Path, PathBuf};

use glassformer_graph::Backend;

use crate::config::{Column, Config, Format, Objective, Source};
use crate::{Error, Event};

pub use probe::Measured;
pub use survey::Survey;

use sizes::Plan;

/// The longest training that is proposed where a smaller model would be faster, in seconds.
const LONGEST: f64 = 3600.0;

/// What a configuration is proposed for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What is learned.
    pub objective: Objective,
    /// The files to learn from.
    pub files: Vec<PathBuf>,
    /// What they are, where their endings do not say it.
    pub format: Option<Format>,
    /// Which columns hold what; found out if it is empty.
    pub columns: Vec<Column>,
    /// How many lines at the beginning of each file are no data; found out if it is not given.
    pub skip: Option<usize>,
    /// Where the configuration will be: paths in it are relative to it.
    pub to: PathBuf,
    /// The bytes of memory that a training may take.
    pub memory: Option<u64>,
    /// The threads that the backend computes on: what was measured is said to be theirs.
    pub threads: usize,
}

/// A configuration, and what is expected of it.
#[derive(Debug)]
pub struct Proposal {
    /// The configuration as a file, with comments.
    pub text: String,
    /// The same, read.
    pub config: Config,
    /// What the data are.
    pub survey: Survey,
    /// What the first steps took here.
    pub measured: Measured,
    /// How often each example is seen.
    pub epochs: f64,
}

impl Proposal {
    /// The seconds that the training will take at the speed that was measured.
    pub fn seconds(&self) -> f64 {
        self.measured.step * self.config.schedule.steps as f64
    }
}

impl Wanted {
    /// Looks at the data, chooses sizes, and trains some steps to see what they take.
    ///
    /// # Errors
    /// If the data cannot be read or nothing can be learned from them: with the line where that is known.
    pub fn propose(&self, backend: &dyn Backend, tell: &mut dyn FnMut(Event)) -> Result<Proposal, Error> {
        let survey = Survey::of(self, tell)?;
        let folder = probe::Folder::new()?;
        let tokens = survey.tokens(folder.path())?;
        let mut plan = Plan::of(&survey, &tokens);
        loop {
            plan.shrink_to(self.memory);
            let text = write::text(self, &survey, &tokens, &plan);
            let config = Config::parse(&text, &self.to.display().to_string())?;
            let measured = probe::measure(&config, &survey, &folder, (backend, self.threads))?;
            let long = measured.step * config.schedule.steps as f64 > LONGEST;
            if long && plan.shrink() {
                continue;
            }
            let text = text.replace(write::HERE, &write::expected(&measured, &config));
            return Ok(Proposal { epochs: plan.epochs(&tokens), text, config, survey, measured });
        }
    }

    /// The files as a configuration names them.
    fn sources(&self, columns: &[Column], skip: usize) -> Vec<Source> {
        let source = |path: &PathBuf| Source {
            path: path.clone(),
            format: self.format,
            columns: columns.to_vec(),
            skip,
            weight: 1.0,
        };
        self.files.iter().map(source).collect()
    }

    /// `path` as it is written in the configuration: what is not below its folder is named from the root on.
    fn shown(&self, path: &Path) -> PathBuf {
        let below = self.to.parent().is_none_or(|folder| folder.as_os_str().is_empty());
        if below { path.to_owned() } else { std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) }
    }
}
