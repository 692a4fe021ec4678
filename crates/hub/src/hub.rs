//! From a name to files: of the cache, or fetched into it.

use std::path::PathBuf;

use crate::ask::{Ask, Method};
use crate::cache::{Repo, make_folder};
use crate::client::{Client, reason};
use crate::fetch::Fetch;
use crate::listing::{Entry, Listing};
use crate::near::near;
use crate::settings::Network;
use crate::wanted::wanted;
use crate::{Error, Event, Name, Settings, Watch, disk, inventory};

/// Files that name files that name files: no model goes deeper.
const ROUNDS: usize = 4;

/// A hub and the cache of what it has.
pub struct Hub {
    client: Client,
}

/// What [`Hub::pull`] did.
#[derive(Debug)]
pub struct Pulled {
    /// The folder or GGUF file.
    pub path: PathBuf,
    /// The commit that it is of.
    pub commit: String,
    /// How many files were fetched.
    pub files: usize,
    /// How many bytes they have.
    pub bytes: u64,
}

/// What the cache has of a model.
enum Cached {
    /// All that is needed.
    Whole(PathBuf),
    /// Enough to try, put there by another tool: the hub never said what belongs to it.
    Unchecked { path: PathBuf, commit: String },
    /// Not all: this file is missing.
    Part(String),
    /// Nothing.
    Nothing,
}

impl Hub {
    /// The hub of the environment; see [`Settings`].
    ///
    /// # Errors
    /// If a variable says something that cannot be.
    pub fn from_env() -> Result<Self, Error> {
        Settings::from_env().map(Self::new)
    }

    /// The hub of `settings`.
    pub fn new(settings: Settings) -> Self {
        Self { client: Client::new(settings) }
    }

    /// Where the cache is and which hub is asked.
    pub fn settings(&self) -> &Settings {
        self.client.settings()
    }

    /// The folder or GGUF file of a model: from the cache if it is there in whole, without a network, else fetched.
    ///
    /// # Errors
    /// If the model is not to be had; the message says what to do.
    pub fn open(&self, name: &Name, watch: &Watch<'_>) -> Result<PathBuf, Error> {
        let offline = self.settings().network == Network::Offline;
        match self.cached(name)? {
            Cached::Whole(path) => Ok(path),
            Cached::Unchecked { path, .. } if offline => Ok(path),
            Cached::Unchecked { path, commit } => match self.listing(&name.at(&commit), watch) {
                Ok(listing) => Ok(self.complete(name, &listing, watch)?.path),
                Err(error) => {
                    watch(Event::Unchecked { name: name.id(), why: &reason(&error) });
                    Ok(path)
                }
            },
            Cached::Part(missing) if offline => Err(Error::Incomplete {
                name: name.to_string(),
                cache: self.settings().cache.clone(),
                missing,
            }),
            Cached::Part(_) | Cached::Nothing => Ok(self.pull(name, watch)?.path),
        }
    }

    /// The folder or GGUF file of a model that is in the cache. The hub is never asked.
    ///
    /// # Errors
    /// If it is not there, or not in whole.
    pub fn find(&self, name: &Name) -> Result<PathBuf, Error> {
        match self.cached(name)? {
            Cached::Whole(path) | Cached::Unchecked { path, .. } => Ok(path),
            Cached::Part(_) | Cached::Nothing => Err(Error::NotCached {
                name: name.to_string(),
                cache: self.settings().cache.clone(),
                hint: self.hint(name, &format!("run `glassformer pull {name}`")),
            }),
        }
    }

    /// Asks the hub for the newest state of a model's revision, and fetches what the cache lacks of it.
    ///
    /// # Errors
    /// If the hub cannot be asked or has no such model, or a file cannot be fetched.
    pub fn pull(&self, name: &Name, watch: &Watch<'_>) -> Result<Pulled, Error> {
        if self.settings().network == Network::Offline {
            return Err(self.offline(name)?);
        }
        let listing = self.listing(name, watch).map_err(|error| self.with_near(name, error))?;
        let pulled = self.complete(name, &listing, watch)?;
        // Last, so that an update that is broken off leaves the old state in use.
        self.repo(name).set_commit(name.revision(), &pulled.commit)?;
        Ok(pulled)
    }

    /// Why nothing can be fetched without a network: what is there already cannot be brought up to date either.
    fn offline(&self, name: &Name) -> Result<Error, Error> {
        let (cache, id) = (self.settings().cache.clone(), name.to_string());
        Ok(match self.cached(name)? {
            Cached::Whole(_) | Cached::Unchecked { .. } => Error::NotAsked { name: id, cache },
            Cached::Part(missing) => Error::Incomplete { name: id, cache, missing },
            Cached::Nothing => {
                let hint = self.hint(name, &format!("unset it and run `glassformer pull {name}`"));
                Error::Offline { name: id, cache, hint }
            }
        })
    }

    fn repo(&self, name: &Name) -> Repo {
        Repo::new(&self.settings().cache, name)
    }

    /// What the cache has.
    fn cached(&self, name: &Name) -> Result<Cached, Error> {
        let repo = self.repo(name);
        let Some(commit) = repo.commit(name.revision()).filter(|commit| repo.snapshot(commit).is_dir())
        else {
            return Ok(Cached::Nothing);
        };
        let read = |path: &str| repo.read(&commit, path);
        let path = |gguf: Option<&str>| {
            let folder = repo.snapshot(&commit);
            gguf.map_or_else(|| folder.clone(), |file| folder.join(file))
        };
        if let Some(listing) = repo.listing(&commit) {
            let wanted = wanted(name, &listing, &read)?;
            return Ok(match missing(&repo, &commit, &wanted.files).first() {
                Some(entry) => Cached::Part(entry.path.clone()),
                None if wanted.is_all => Cached::Whole(path(wanted.gguf)),
                None => Cached::Nothing,
            });
        }
        // What another tool left may be a tokenizer alone, or hold a file that an index names and that is not there.
        let present = repo.present(&commit);
        let Ok(wanted) = wanted(name, &present, &read) else {
            return Ok(Cached::Nothing);
        };
        if !wanted.is_all || !missing(&repo, &commit, &wanted.files).is_empty() {
            return Ok(Cached::Nothing);
        }
        Ok(match wanted.gguf {
            Some(file) if name.file().is_some() => Cached::Whole(path(Some(file))),
            gguf => Cached::Unchecked { path: path(gguf), commit },
        })
    }

    /// What the hub says a model has.
    fn listing(&self, name: &Name, watch: &Watch<'_>) -> Result<Listing, Error> {
        let endpoint = &self.settings().endpoint;
        let revision = name.revision().replace('/', "%2F");
        let url = format!("{endpoint}/api/models/{}/revision/{revision}?blobs=true", name.id());
        let ask = Ask { method: Method::Get, url, from: 0, name, file: None };
        let refused =
            |why: String| Error::Listing { place: endpoint.clone(), name: name.id().to_owned(), why };
        let bytes = self.client.ask(&ask, watch)?.bytes().map_err(|error| refused(error.to_string()))?;
        Listing::parse(&bytes).map_err(refused)
    }

    /// Fetches what the cache lacks of a listing.
    fn complete(&self, name: &Name, listing: &Listing, watch: &Watch<'_>) -> Result<Pulled, Error> {
        let repo = self.repo(name);
        let commit = &listing.commit;
        let mut pulled = Pulled { path: repo.snapshot(commit), commit: commit.clone(), files: 0, bytes: 0 };
        for _ in 0..ROUNDS {
            let wanted = wanted(name, listing, &|path| repo.read(commit, path))?;
            let mut missing = missing(&repo, commit, &wanted.files);
            if missing.is_empty() && wanted.is_all {
                if let Some(file) = wanted.gguf {
                    pulled.path.push(file);
                }
                // A cache that may only be read serves too; then the hub is asked again the next time.
                let _ = repo.set_listing(listing);
                return Ok(pulled);
            }
            if missing.is_empty() {
                break;
            }
            // Small ones first: they decide whether the large ones are of use.
            missing.sort_by_key(|entry| entry.size.unwrap_or_default());
            self.check_room(name, &repo, &missing)?;
            let bytes =
                missing.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.size.unwrap_or_default()));
            watch(Event::Plan { files: missing.len(), bytes });
            let fetch = Fetch { client: &self.client, repo: &repo, name, commit, watch };
            missing.iter().try_for_each(|entry| fetch.file(entry))?;
            pulled.files += missing.len();
            pulled.bytes = pulled.bytes.saturating_add(bytes);
        }
        Err(Error::Listing {
            place: self.settings().endpoint.clone(),
            name: name.id().to_owned(),
            why: "its index or list of modules cannot be read".to_owned(),
        })
    }

    /// Refuses to begin what the disk has no room for.
    fn check_room(&self, name: &Name, repo: &Repo, missing: &[&Entry]) -> Result<(), Error> {
        make_folder(&repo.folder)?;
        let left = |entry: &&Entry| {
            let have = entry.hash.as_ref().and_then(|hash| repo.incomplete(hash).metadata().ok());
            entry.size.unwrap_or_default().saturating_sub(have.map_or(0, |have| have.len()))
        };
        let needs = missing.iter().map(left).fold(0, u64::saturating_add);
        match disk::room(&repo.folder) {
            Some(free) if free < needs => Err(Error::Room {
                name: name.id().to_owned(),
                needs: disk::bytes(needs),
                free: disk::bytes(free),
                cache: self.settings().cache.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Names of models in the cache that could have been meant by `name`, nearest first.
    pub fn near(&self, name: &Name) -> Vec<String> {
        let known = inventory::names(&self.settings().cache);
        let others = known.iter().map(String::as_str).filter(|known| *known != name.id());
        near(name.id(), others).into_iter().map(str::to_owned).collect()
    }

    /// What could have been meant by `name`, or else `otherwise`.
    fn hint(&self, name: &Name, otherwise: &str) -> String {
        let near = self.near(name);
        if near.is_empty() { otherwise.to_owned() } else { format!("did you mean {}?", near.join(" or ")) }
    }

    /// A model that is not there may be misspelt.
    fn with_near(&self, name: &Name, error: Error) -> Error {
        match error {
            Error::NoModel { name: id, endpoint, hint } => {
                let hint = self.hint(name, &hint);
                Error::NoModel { name: id, endpoint, hint }
            }
            error => error,
        }
    }
}

/// Those files that the cache does not have.
fn missing<'a>(repo: &Repo, commit: &str, files: &[&'a Entry]) -> Vec<&'a Entry> {
    files.iter().copied().filter(|entry| !repo.has(commit, entry)).collect()
}
