//! What is in the cache, and taking it out again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{Repo, walk};
use crate::listing::is_commit;
use crate::{Error, Hub, Name};

/// A model in the cache.
#[derive(Clone, Debug)]
pub struct Model {
    /// `org/name`.
    pub name: String,
    /// Bytes on the disk, each file once, with what is not complete.
    pub size: u64,
    /// Of these, bytes of files that are not complete.
    pub incomplete: u64,
    /// What there is of it, by commit.
    pub revisions: Vec<Revision>,
}

/// A state of a model.
#[derive(Clone, Debug)]
pub struct Revision {
    /// The commit.
    pub commit: String,
    /// Branches and tags that were at it.
    pub refs: Vec<String>,
    /// Bytes of its files. Revisions share what did not change between them.
    pub size: u64,
    /// Its files.
    pub files: Vec<File>,
}

/// A file of a revision.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path in the model.
    pub path: String,
    /// Its bytes.
    pub size: u64,
}

/// What would be taken out of the cache.
#[derive(Debug)]
pub struct Removal {
    /// The model, or the model at a revision.
    pub name: String,
    /// Bytes that become free.
    pub bytes: u64,
    /// Files and folders.
    paths: Vec<PathBuf>,
}

impl Hub {
    /// The models in the cache, by name.
    pub fn list(&self) -> Vec<Model> {
        let cache = &self.settings().cache;
        names(cache).iter().filter_map(|id| Some(model(cache, &id.parse().ok()?))).collect()
    }

    /// What taking out a model would take: all of it, or one revision with what no other revision needs. Nothing is done yet.
    ///
    /// # Errors
    /// If it is not there, or a single file is named.
    pub fn removal(&self, name: &Name) -> Result<Removal, Error> {
        let cache = &self.settings().cache;
        let repo = Repo::new(cache, name);
        let not_there =
            |hint: String| Error::NotCached { name: name.to_string(), cache: cache.clone(), hint };
        if name.file().is_some() {
            return Err(Error::Name {
                text: name.to_string(),
                why: "a model is taken out in whole, or one revision of it".to_owned(),
            });
        }
        if !repo.folder.is_dir() {
            let near = self.near(name);
            let list = "see `glassformer list`".to_owned();
            return Err(not_there(if near.is_empty() {
                list
            } else {
                format!("did you mean {}?", near.join(" or "))
            }));
        }
        let found = model(cache, name);
        let all = Removal { name: name.id().to_owned(), bytes: found.size, paths: vec![repo.folder.clone()] };
        if !name.has_revision() {
            return Ok(all);
        }
        let commit = repo.commit(name.revision()).unwrap_or_default();
        let Some(revision) = found.revisions.iter().find(|one| one.commit == commit) else {
            let one = |revision: &Revision| match revision.refs.first() {
                Some(name) => name.clone(),
                None => revision.commit.clone(),
            };
            let known: Vec<String> = found.revisions.iter().map(one).collect();
            return Err(not_there(format!("there are {}", known.join(", "))));
        };
        if found.revisions.len() == 1 {
            return Ok(all);
        }
        let mut paths = vec![repo.snapshot(&commit), repo.listing_path(&commit)];
        paths.extend(revision.refs.iter().map(|name| repo.folder.join("refs").join(name)));
        let own = blobs(&repo, &commit);
        let others: BTreeSet<PathBuf> = found
            .revisions
            .iter()
            .filter(|one| one.commit != commit)
            .flat_map(|one| blobs(&repo, &one.commit))
            .collect();
        let alone: Vec<PathBuf> = own.into_iter().filter(|blob| !others.contains(blob)).collect();
        let bytes = alone.iter().map(|blob| size(blob)).sum();
        paths.extend(alone);
        Ok(Removal { name: format!("{}@{}", name.id(), name.revision()), bytes, paths })
    }
}

impl Removal {
    /// Does it.
    ///
    /// # Errors
    /// If something cannot be removed. What is named last is removed last, so that the same can be asked again.
    pub fn carry_out(&self) -> Result<(), Error> {
        self.paths.iter().rev().try_for_each(|path| {
            let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
            // Links are removed, never followed.
            let done = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            done.map_err(Error::io("remove", path))
        })
    }
}

/// The names of the models in the cache.
pub fn names(cache: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().to_str()?.strip_prefix("models--")?.replacen("--", "/", 1);
        (entry.path().join("snapshots").is_dir() && name.parse::<Name>().is_ok()).then_some(name)
    };
    entries.filter_map(name).collect()
}

fn model(cache: &Path, name: &Name) -> Model {
    let repo = Repo::new(cache, name);
    let mut refs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    walk(&repo.folder.join("refs"), "", 0, &mut |name, _| {
        if let Some(commit) = repo.commit(&name) {
            refs.entry(commit).or_default().push(name);
        }
    });
    let mut revisions = Vec::new();
    let mut bytes: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for entry in fs::read_dir(repo.folder.join("snapshots")).into_iter().flatten().flatten() {
        let Some(commit) = entry.file_name().to_str().filter(|name| is_commit(name)).map(str::to_owned)
        else {
            continue;
        };
        let mut files = Vec::new();
        walk(&entry.path(), "", 0, &mut |path, at| {
            let size = size(at);
            // A link stands for the bytes that it leads to, which others may lead to as well.
            bytes.insert(fs::canonicalize(at).unwrap_or_else(|_| at.to_path_buf()), size);
            files.push(File { path, size });
        });
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let size = files.iter().map(|file| file.size).sum();
        let refs = refs.remove(&commit).unwrap_or_default();
        revisions.push(Revision { commit, refs, size, files });
    }
    // The one of a branch first.
    revisions.sort_by_key(|revision| (revision.refs.is_empty(), revision.commit.clone()));
    let mut incomplete = 0;
    walk(&repo.folder.join("blobs"), "", DEEP, &mut |name, at| {
        if name.ends_with(".incomplete") {
            incomplete += size(at);
        }
    });
    let size = bytes.into_values().sum::<u64>() + incomplete;
    Model { name: name.id().to_owned(), size, incomplete, revisions }
}

/// Blobs lie in no folders of their own.
const DEEP: usize = usize::MAX;

/// The blobs that the files of a commit lead to: names within the folder of blobs, whatever a link says.
fn blobs(repo: &Repo, commit: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    walk(&repo.snapshot(commit), "", 0, &mut |_, at| {
        let target = fs::read_link(at).ok();
        let name = target.as_deref().filter(|target| target.parent().is_some_and(|up| up.ends_with("blobs")));
        if let Some(name) = name.and_then(Path::file_name) {
            found.insert(repo.folder.join("blobs").join(name));
        }
    });
    found
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}
