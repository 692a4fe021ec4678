//! Examples as tokens on disk: written once, read where they are needed, never held in memory as a whole.
//!
//! `NAME.tokens` holds the numbers of all examples, `NAME.index` the lengths of their parts and which file they came from.

use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Error;

const WORD: usize = 4;

/// The examples of one set, on disk.
pub struct Store {
    file: Mutex<File>,
    path: String,
    parts: usize,
    /// For each example the lengths of its parts, then the number of its file.
    index: Vec<u32>,
    /// Where each example begins, in words; one more than there are examples.
    offsets: Vec<u64>,
}

impl Store {
    /// Opens the set `name` of `folder`, whose examples have `parts` parts.
    ///
    /// # Errors
    /// If a file cannot be read, or the two do not fit.
    pub fn open(folder: &Path, name: &str, parts: usize) -> Result<Self, Error> {
        let path = folder.join(format!("{name}.tokens"));
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        let size = file.metadata().map_err(Error::io("read", &path))?.len();
        let index_path = folder.join(format!("{name}.index"));
        let bytes = std::fs::read(&index_path).map_err(Error::io("read", &index_path))?;
        let index = words(&bytes);
        let mut offsets = vec![0];
        for lengths in index.chunks_exact(parts + 1) {
            let length: u64 = lengths[..parts].iter().map(|&length| u64::from(length)).sum();
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        if offsets.last().copied().unwrap_or(0) * WORD as u64 != size {
            return Err(Error::Data {
                place: path.display().to_string(),
                what: "it does not fit its index".into(),
                hint: "remove the folder data, and it is made anew".into(),
            });
        }
        let (file, path) = (Mutex::new(file), path.display().to_string());
        Ok(Self { file, path, parts, index, offsets })
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many numbers all examples have together.
    pub fn total(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// The lengths of the parts of example `at`.
    pub fn lengths(&self, at: usize) -> &[u32] {
        &self.index[at * (self.parts + 1)..][..self.parts]
    }

    /// Which file example `at` came from.
    pub fn origin(&self, at: usize) -> usize {
        self.index[at * (self.parts + 1) + self.parts] as usize
    }

    /// Which file the number at `place` came from.
    pub fn origin_of(&self, place: u64) -> usize {
        let after = self.offsets.partition_point(|&offset| offset <= place);
        self.origin(after.saturating_sub(1).min(self.len().saturating_sub(1)))
    }

    /// The parts of example `at`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, at: usize) -> Result<Vec<Vec<u32>>, Error> {
        let length = (self.offsets[at + 1] - self.offsets[at]) as usize;
        let all = self.window(self.offsets[at], length)?;
        let mut rest = &all[..];
        let part = |&length: &u32| {
            let (part, after) = rest.split_at(length as usize);
            rest = after;
            part.to_vec()
        };
        Ok(self.lengths(at).iter().map(part).collect())
    }

    /// `length` numbers from `start` on, whatever examples they belong to.
    ///
    /// # Errors
    /// If the file cannot be read so far.
    pub fn window(&self, start: u64, length: usize) -> Result<Vec<u32>, Error> {
        let mut bytes = vec![0; length * WORD];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start * WORD as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(Error::io("read", Path::new(&self.path)))?;
        Ok(words(&bytes))
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |word: &[u8]| word.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
    bytes.chunks_exact(WORD).map(word).collect()
}

/// Writes the examples of one set.
pub(super) struct Writer {
    tokens: BufWriter<File>,
    index: BufWriter<File>,
    path: String,
    /// How many examples were written.
    pub count: usize,
}

impl Writer {
    pub fn create(folder: &Path, name: &str) -> Result<Self, Error> {
        let create = |ending: &str| {
            let path = folder.join(format!("{name}.{ending}"));
            File::create(&path).map(BufWriter::new).map_err(Error::io("create", &path))
        };
        let path = folder.join(name).display().to_string();
        Ok(Self { tokens: create("tokens")?, index: create("index")?, path, count: 0 })
    }

    pub fn push(&mut self, parts: &[Vec<u32>], origin: usize) -> Result<(), Error> {
        self.count += 1;
        let mut write = || {
            for part in parts {
                self.index.write_all(&(part.len() as u32).to_le_bytes())?;
                part.iter().try_for_each(|number| self.tokens.write_all(&number.to_le_bytes()))?;
            }
            self.index.write_all(&(origin as u32).to_le_bytes())
        };
        write().map_err(Error::io("write", Path::new(&self.path)))
    }

    pub fn finish(self) -> Result<usize, Error> {
        let Self { tokens, index, path, count } = self;
        for file in [tokens, index] {
            let end =
                |file: BufWriter<File>| file.into_inner().map_err(IntoInnerError::into_error)?.sync_all();
            end(file).map_err(Error::io("write", Path::new(&path)))?;
        }
        Ok(count)
    }
}
