//! The cache on disk, as Hugging Face's own tools lay it out, so that they see ours as theirs and we theirs as ours.
//!
//! ```text
//! models--org--name/
//!   blobs/HASH                   the bytes; HASH.incomplete while they come
//!   refs/main                    the commit that a branch or tag was at
//!   snapshots/COMMIT/config.json a link to ../../blobs/HASH
//!   listings/COMMIT.json         what files the hub said there are: ours alone, others pass it by
//! .locks/models--org--name/HASH.lock
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Hash;
use crate::listing::{Entry, Listing, is_commit};
use crate::{Error, Name};

/// The longest ref and listing that are read.
const LONGEST_REF: u64 = 256;
const LONGEST_LISTING: u64 = 64 << 20;

/// How deep a snapshot's folders are looked into, and how many files are looked at.
const DEEPEST: usize = 16;
const MOST_FILES: usize = 100_000;

/// The folder of a model in the cache.
pub struct Repo {
    pub folder: PathBuf,
    locks: PathBuf,
}

impl Repo {
    /// The folder of `name` in `cache`. It need not exist.
    pub fn new(cache: &Path, name: &Name) -> Self {
        let own = format!("models--{}", name.id().replace('/', "--"));
        Self { folder: cache.join(&own), locks: cache.join(".locks").join(own) }
    }

    /// The commit that `revision` was at when it was last asked for.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let text = read(&self.folder.join("refs").join(revision), LONGEST_REF)?;
        let commit = text.trim();
        is_commit(commit).then(|| commit.to_owned())
    }

    /// Remembers the commit that `revision` is at.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<(), Error> {
        if is_commit(revision) || self.commit(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        write(&self.folder.join("refs").join(revision), commit)
    }

    /// The folder of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// What the hub said of a commit, if it was asked by us.
    pub fn listing(&self, commit: &str) -> Option<Listing> {
        let text = read(&self.listing_path(commit), LONGEST_LISTING)?;
        Listing::parse(text.as_bytes()).ok().filter(|listing| listing.commit == commit)
    }

    /// Remembers what the hub said of a commit.
    pub fn set_listing(&self, listing: &Listing) -> Result<(), Error> {
        write(&self.listing_path(&listing.commit), &listing.write())
    }

    /// Where a listing is kept.
    pub fn listing_path(&self, commit: &str) -> PathBuf {
        self.folder.join("listings").join(format!("{commit}.json"))
    }

    /// What there is of a commit, as a listing: other tools fetch without leaving one.
    pub fn present(&self, commit: &str) -> Listing {
        let mut files = Vec::new();
        walk(&self.snapshot(commit), "", 0, &mut |path, _| {
            files.push(Entry { path, size: None, hash: None });
        });
        Listing { commit: commit.to_owned(), files }
    }

    /// Whether the file is there in whole.
    pub fn has(&self, commit: &str, entry: &Entry) -> bool {
        let found = fs::metadata(self.snapshot(commit).join(&entry.path));
        found.is_ok_and(|found| found.is_file() && entry.size.is_none_or(|size| size == found.len()))
    }

    /// The bytes of a small file of a commit.
    pub fn read(&self, commit: &str, path: &str) -> Option<String> {
        read(&self.snapshot(commit).join(path), LONGEST_LISTING)
    }

    /// Where the bytes with a hash lie.
    pub fn blob(&self, hash: &Hash) -> PathBuf {
        self.folder.join("blobs").join(hash.text())
    }

    /// Where they lie while they come.
    pub fn incomplete(&self, hash: &Hash) -> PathBuf {
        self.folder.join("blobs").join(format!("{}.incomplete", hash.text()))
    }

    /// Keeps other processes from fetching the same bytes, until what is given back is dropped. `wait` is told once that
    /// another process has them.
    pub fn lock(&self, hash: &Hash, wait: &dyn Fn()) -> Result<File, Error> {
        let path = self.locks.join(format!("{}.lock", hash.text()));
        make_folder(&self.locks)?;
        let file = File::options().create(true).append(true).open(&path).map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                wait();
                file.lock().map_err(Error::io("lock", &path))?;
            }
            // Some file systems of networks know no locks. Two processes then may fetch the same bytes; the hash still holds.
            Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(fs::TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
        }
        Ok(file)
    }

    /// Makes `path` of a commit lead to the bytes with a hash.
    pub fn link(&self, commit: &str, path: &str, hash: &Hash) -> Result<(), Error> {
        let link = self.snapshot(commit).join(path);
        let up = "../".repeat(2 + path.matches('/').count());
        let target = PathBuf::from(format!("{up}blobs/{}", hash.text()));
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        make_folder(link.parent().unwrap_or(&self.folder))?;
        // Made beside and renamed, so that another process never finds nothing.
        let made = beside(&link);
        point(&target, &made, &self.blob(hash)).map_err(Error::io("link", &link))?;
        fs::rename(&made, &link).map_err(|error| {
            let _ = fs::remove_file(&made);
            Error::io("link", &link)(error)
        })
    }
}

/// Makes a link; where the system has none, the file itself under a second name, or a copy.
fn point(target: &Path, link: &Path, blob: &Path) -> io::Result<()> {
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(target, link);
    #[cfg(windows)]
    let made = std::os::windows::fs::symlink_file(target, link);
    #[cfg(not(any(unix, windows)))]
    let made = Err(io::Error::from(io::ErrorKind::Unsupported));
    let _ = target;
    made.or_else(|_: io::Error| fs::hard_link(blob, link)).or_else(|_| fs::copy(blob, link).map(drop))
}

/// A name in the same folder that nobody else takes: no other process, no other thread, no second call.
fn beside(path: &Path) -> PathBuf {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.{call}", std::process::id()))
}

/// Tells of every file below `folder`, by its path from there, and of its own path.
pub fn walk(folder: &Path, inner: &str, depth: usize, tell: &mut dyn FnMut(String, &Path)) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.take(MOST_FILES) {
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let named = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
        // A link to a folder is not followed: it may lead in circles.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < DEEPEST {
                walk(&path, &named, depth + 1, tell);
            }
        } else {
            tell(named, &path);
        }
    }
}

/// A short text file. Whatever is wrong with it, it then is not there.
fn read(path: &Path, longest: u64) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > longest {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    make_folder(path.parent().unwrap_or(path))?;
    let made = beside(path);
    fs::write(&made, text).map_err(Error::io("write", path))?;
    fs::rename(&made, path).map_err(Error::io("write", path))
}

/// Makes a folder, and those that it is in.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io("make the folder", path))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_of_one_process_write_the_same_file_at_once() {
        let folder = std::env::temp_dir().join(format!("glassformer-cache-{}", std::process::id()));
        let path = folder.join("refs/main");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| write(&path, "commit").unwrap()));
            }
        });
        assert_eq!(read(&path, LONGEST_REF).as_deref(), Some("commit"));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
