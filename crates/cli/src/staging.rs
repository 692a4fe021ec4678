//! What is written appears whole or not at all: a folder is filled under a hidden name inside itself, and its files move into place when
//! all of them are there. Nobody's files are written over unasked.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{self, Failure};

/// How many files that are in the way are named.
const NAMED: usize = 3;

/// What happens to files that are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// They are kept: nothing is written.
    Refuse,
    /// Those of the same names are replaced; others stay.
    Replace,
}

impl Existing {
    /// As `--force` says.
    pub fn of(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// A folder that is being filled. Where it is dropped before [`Staging::finish`], nothing of it stays.
pub struct Staging {
    out: PathBuf,
    hidden: PathBuf,
    /// Folders that were not there before, the innermost first.
    made: Vec<PathBuf>,
}

impl Staging {
    /// Begins to fill `out`.
    pub fn begin(out: &Path, existing: Existing) -> Result<Self, Failure> {
        if existing == Existing::Refuse {
            refuse_full(out)?;
        }
        let made = out.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let made: Vec<PathBuf> = made.map(Path::to_owned).collect();
        let hidden = out.join(format!(".glassformer-{}", std::process::id()));
        let staging = Self { out: out.to_owned(), hidden, made };
        fs::create_dir_all(&staging.hidden).map_err(|error| failure::of_file("create", out, &error))?;
        Ok(staging)
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.hidden
    }

    /// Removes what was written so far; for who is interrupted.
    pub fn undo(&self) -> impl Fn() + Send + 'static {
        let (hidden, made) = (self.hidden.clone(), self.made.clone());
        move || undo(&hidden, &made)
    }

    /// A failure to write, which names the files as they would have been called.
    pub fn told(&self, failure: &Failure) -> Failure {
        let [hidden, out] = [&self.hidden, &self.out].map(|path| path.display().to_string());
        Failure::new(failure.message.replace(&hidden, &out), failure.hint.replace(&hidden, &out))
    }

    /// Moves everything to where it belongs.
    pub fn finish(self) -> Result<(), Failure> {
        move_into(&self.hidden, &self.out)
            .and_then(|()| fs::remove_dir_all(&self.hidden))
            .map_err(|error| failure::of_file("write", &self.out, &error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        undo(&self.hidden, &self.made);
    }
}

/// The first error is the one to tell; what cannot be removed either is a lesser evil. A folder with something in it stays.
fn undo(hidden: &Path, made: &[PathBuf]) {
    let _ = fs::remove_dir_all(hidden);
    for folder in made {
        let _ = fs::remove_dir(folder);
    }
}

fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            move_into(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Refuses a folder with something in it.
fn refuse_full(out: &Path) -> Result<(), Failure> {
    let mut names: Vec<OsString> = match fs::read_dir(out) {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name()).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failure::of_file("write to", out, &error)),
    };
    if names.is_empty() {
        return Ok(());
    }
    names.sort();
    let named: Vec<_> = names.iter().take(NAMED).map(|name| name.to_string_lossy()).collect();
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    Err(Failure::new(
        format!("the folder {} is not empty: it has {}{more}", out.display(), named.join(", ")),
        "give a new or an empty folder, or add --force to write over files of the same names",
    ))
}

/// Refuses to write where a file is already.
pub fn refuse_existing(path: &Path, existing: Existing) -> Result<(), Failure> {
    if existing == Existing::Replace || !path.exists() {
        return Ok(());
    }
    Err(Failure::new(
        format!("there is a file {} already", path.display()),
        "give another name, or add --force to write over it",
    ))
}

/// Writes `text` to the file at `path`, whole or not at all.
pub fn write(path: &Path, text: &str, existing: Existing) -> Result<(), Failure> {
    refuse_existing(path, existing)?;
    let failed = |error: io::Error| failure::of_file("write", path, &error);
    // A device or a pipe: what is there is written to, not replaced.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text).map_err(failed);
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}
