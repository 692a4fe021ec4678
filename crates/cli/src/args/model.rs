//! Which model a verb works with.

use std::path::{Path, PathBuf};

/// The model of a verb whose first argument it is.
#[derive(clap::Args)]
pub struct Subject {
    /// The model: a folder, a .gguf file, or a name of a hub such as org/name
    #[arg(value_name = "MODEL")]
    subject: Option<PathBuf>,
    /// The same, as with verbs whose arguments are texts
    #[arg(long, value_name = "MODEL", conflicts_with = "subject")]
    model: Option<PathBuf>,
}

impl Subject {
    /// The model that was given, if one was.
    pub fn given(&self) -> Option<&Path> {
        self.subject.as_deref().or(self.model.as_deref())
    }
}

/// The model of a verb whose arguments are texts.
#[derive(clap::Args)]
pub struct Named {
    /// The model: a folder, a .gguf file, or a name of a hub such as org/name
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
}

impl Named {
    /// The model that was given, if one was.
    pub fn given(&self) -> Option<&Path> {
        self.model.as_deref()
    }
}
