//! One file of a model: its bytes into the cache, resumed where they broke off, and checked.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use crate::ask::{Ask, Method};
use crate::cache::{Repo, make_folder};
use crate::client::{Answer, Client, reason};
use crate::digest::{Digest, Hash};
use crate::listing::Entry;
use crate::{Error, Event, Name, Watch, url};

/// Bytes that are read at once.
const PIECE: usize = 1 << 18;

/// Who sends less than this before a connection breaks does not count as one who sends.
const PROGRESS: u64 = 1 << 20;

/// What files of a commit are fetched with.
pub struct Fetch<'a> {
    pub client: &'a Client,
    pub repo: &'a Repo,
    pub name: &'a Name,
    pub commit: &'a str,
    pub watch: &'a Watch<'a>,
}

/// What is fetched: a file, and what it must come to.
struct Goal<'a> {
    path: &'a str,
    hash: Hash,
    size: u64,
}

/// Bytes on the disk, and their hash so far.
struct Part {
    file: File,
    have: u64,
    digest: Digest,
}

impl Fetch<'_> {
    /// Brings the file into the snapshot.
    pub fn file(&self, entry: &Entry) -> Result<(), Error> {
        let goal = self.goal(entry)?;
        let blob = self.repo.blob(&goal.hash);
        if is_whole(&blob, &goal) {
            (self.watch)(Event::Bytes(goal.size));
        } else {
            let waiting = || (self.watch)(Event::Waiting { path: goal.path });
            let _lock = self.repo.lock(&goal.hash, &waiting)?;
            if is_whole(&blob, &goal) {
                (self.watch)(Event::Bytes(goal.size)); // another process was faster
            } else {
                self.bytes(&goal)?;
            }
        }
        self.repo.link(self.commit, goal.path, &goal.hash)
    }

    /// What the file must come to. Where the listing did not say, the hub is asked.
    fn goal<'e>(&self, entry: &'e Entry) -> Result<Goal<'e>, Error> {
        let path = &entry.path;
        if let (Some(hash), Some(size)) = (&entry.hash, entry.size) {
            return Ok(Goal { path, hash: hash.clone(), size });
        }
        let answer = self.client.ask(&self.ask(Method::Head, path, 0), self.watch)?;
        let size = answer.facts.size.or_else(|| answer.length());
        let hash = answer.facts.etag.as_deref().and_then(Hash::parse);
        match (hash, size) {
            (Some(hash), Some(size)) => Ok(Goal { path, hash, size }),
            _ => Err(Error::Listing {
                place: self.client.settings().endpoint.clone(),
                name: self.name.id().to_owned(),
                why: format!("it tells neither a hash nor a size of {path}"),
            }),
        }
    }

    fn ask<'e>(&'e self, method: Method, path: &'e str, from: u64) -> Ask<'e> {
        let (endpoint, id) = (&self.client.settings().endpoint, self.name.id());
        let url = format!("{endpoint}/{id}/resolve/{}/{}", self.commit, url::escape(path));
        Ask { method, url, from, name: self.name, file: Some(path) }
    }

    /// Fetches the bytes, with the lock held.
    fn bytes(&self, goal: &Goal<'_>) -> Result<(), Error> {
        let path = self.repo.incomplete(&goal.hash);
        make_folder(path.parent().unwrap_or(&path))?;
        let mut part = Part::open(&path, goal)?;
        let mut left_by_others = part.have > 0;
        (self.watch)(Event::File { path: goal.path, size: goal.size, have: part.have });
        (self.watch)(Event::Bytes(part.have));
        loop {
            self.fill(goal, &path, &mut part)?;
            let found = std::mem::replace(&mut part.digest, goal.hash.digest(goal.size)).finish();
            if found == goal.hash {
                break;
            }
            part.restart(&path, goal)?;
            (self.watch)(Event::Lost(goal.size));
            if !left_by_others {
                let _ = fs::remove_file(&path);
                return Err(self.corrupt(goal, format!("the hash {}", found.text()), goal.hash.text()));
            }
            left_by_others = false;
            (self.watch)(Event::Restart { path: goal.path });
        }
        part.file.sync_all().map_err(Error::io("write", &path))?;
        drop(part);
        let blob = self.repo.blob(&goal.hash);
        fs::rename(&path, &blob).map_err(Error::io("write", &blob))
    }

    /// Fetches until there are as many bytes as there must be.
    fn fill(&self, goal: &Goal<'_>, path: &Path, part: &mut Part) -> Result<(), Error> {
        let mut tries = 0;
        while part.have < goal.size {
            let before = part.have;
            let why = match self.client.ask(&self.ask(Method::Get, goal.path, part.have), self.watch) {
                Ok(answer) => match self.take(goal, path, part, answer)? {
                    None => break,
                    Some(why) => why,
                },
                // What worked a moment ago may work again.
                Err(error @ Error::Unreachable { .. }) if tries > 0 => reason(&error),
                Err(error) => return Err(error),
            };
            tries = if part.have >= before.saturating_add(PROGRESS) { 1 } else { tries + 1 };
            if tries >= self.client.settings().patience.attempts {
                return Err(Error::Broken {
                    name: self.name.id().to_owned(),
                    file: goal.path.to_owned(),
                    have: part.have,
                    size: goal.size,
                    why,
                });
            }
            self.client.pause(tries, None, &why, self.watch);
        }
        Ok(())
    }

    /// Takes what an answer brings. Gives back why it broke off, if it did.
    fn take(
        &self,
        goal: &Goal<'_>,
        path: &Path,
        part: &mut Part,
        answer: Answer,
    ) -> Result<Option<String>, Error> {
        let whole = match answer.status {
            206 => match answer.range() {
                Some((start, whole)) if start == part.have => whole,
                _ => return Ok(Some("it sends another part than was asked for".to_owned())),
            },
            // The server knows no ranges, or says that this one is none: from the start, then.
            status => {
                (self.watch)(Event::Lost(part.have));
                part.restart(path, goal)?;
                if status != 200 {
                    return Ok(Some("it has no such part".to_owned()));
                }
                answer.length()
            }
        };
        if let Some(whole) = whole.filter(|whole| *whole != goal.size) {
            (self.watch)(Event::Lost(part.have));
            part.restart(path, goal)?;
            let _ = fs::remove_file(path);
            return Err(self.corrupt(goal, format!("{whole} bytes"), &goal.size.to_string()));
        }
        let mut reader = answer.reader();
        let mut piece = vec![0; PIECE];
        while part.have < goal.size {
            let room = usize::try_from(goal.size - part.have).unwrap_or(PIECE).min(PIECE);
            match reader.read(&mut piece[..room]) {
                Ok(0) => {
                    return Ok(Some(format!(
                        "the connection ends after {} of {} bytes",
                        part.have, goal.size
                    )));
                }
                Ok(count) => {
                    part.file.write_all(&piece[..count]).map_err(Error::io("write", path))?;
                    part.digest.update(&piece[..count]);
                    part.have += count as u64;
                    (self.watch)(Event::Bytes(count as u64));
                }
                Err(error) => return Ok(Some(format!("the connection breaks: {error}"))),
            }
        }
        Ok(None)
    }

    fn corrupt(&self, goal: &Goal<'_>, found: String, wanted: &str) -> Error {
        Error::Corrupt {
            name: self.name.id().to_owned(),
            file: goal.path.to_owned(),
            found,
            wanted: wanted.to_owned(),
        }
    }
}

impl Part {
    /// What an earlier run left at `path`, or nothing yet.
    fn open(path: &Path, goal: &Goal<'_>) -> Result<Self, Error> {
        let file = File::options().create(true).append(true).open(path).map_err(Error::io("write", path))?;
        let mut part = Self { file, have: 0, digest: goal.hash.digest(goal.size) };
        let length = part.file.metadata().map_err(Error::io("read", path))?.len();
        if length > goal.size {
            part.restart(path, goal)?;
            return Ok(part);
        }
        let mut old = File::open(path).map_err(Error::io("read", path))?;
        let mut piece = vec![0; PIECE];
        loop {
            match old.read(&mut piece).map_err(Error::io("read", path))? {
                0 => return Ok(part),
                count => {
                    part.digest.update(&piece[..count]);
                    part.have += count as u64;
                }
            }
        }
    }

    /// Throws away what there is.
    fn restart(&mut self, path: &Path, goal: &Goal<'_>) -> Result<(), Error> {
        self.file.set_len(0).map_err(Error::io("write", path))?;
        self.have = 0;
        self.digest = goal.hash.digest(goal.size);
        Ok(())
    }
}

/// Whether the bytes are there. Those that were fetched were checked; what has another length was damaged later.
fn is_whole(blob: &Path, goal: &Goal<'_>) -> bool {
    fs::metadata(blob).is_ok_and(|found| found.is_file() && found.len() == goal.size)
}
