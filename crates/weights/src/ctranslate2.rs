//! CTranslate2's `model.bin`, versions 4 to 6: variables, aliases and, beside it, the configuration and vocabularies.
//!
//! The format, all little-endian: the version (32 bits), the name of the specification, its revision (32 bits); the number
//! of variables (32 bits) and for each its name, the number of dimensions (8 bits), the dimensions (32 bits each), the type
//! (8 bits), the number of bytes (32 bits) and the bytes; the number of aliases (32 bits) and for each two names. A name is
//! its length (16 bits, with the zero at its end) and its bytes. Nothing is aligned.
//!
//! Integers of 8 and 16 bits called `…/weight` come with a variable `…/weight_scale`: each stands for itself divided by the
//! scale of its row, or by the only one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::contents::{Contents, DIMENSIONS};
use crate::error::clip;
use crate::json::LONGEST;
use crate::map::Map;
use crate::reader::Reader;
use crate::stored::{Scaling, Stored};
use crate::{Dtype, Error};

/// What a variable takes at least: an empty name, no dimensions, a type and a length.
const LEAST_VARIABLE: usize = 9;
/// What an alias takes at least: two empty names.
const LEAST_ALIAS: usize = 6;
/// The types, in the order of their numbers.
const TYPES: [Dtype; 6] = [Dtype::F32, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::F16, Dtype::Bf16];

/// What a CTranslate2 model says of itself.
#[derive(Debug)]
pub struct Ctranslate2 {
    folder: PathBuf,
    spec: String,
    revision: u32,
    aliases: BTreeMap<String, String>,
}

impl Ctranslate2 {
    /// The kind of model, such as `TransformerSpec`.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// The revision of that kind.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// Second names of variables, and the first. The weights have a tensor under both.
    pub fn aliases(&self) -> &BTreeMap<String, String> {
        &self.aliases
    }

    /// The `config.json` beside the model; `None` if there is none, as in old models.
    ///
    /// # Errors
    /// If it cannot be read, or is not JSON.
    pub fn config(&self) -> Result<Option<serde_json::Value>, Error> {
        self.beside("config.json", |text| serde_json::from_str(text).map_err(|error| error.to_string()))
    }

    /// The tokens of a vocabulary beside the model, in order: `shared_vocabulary`, or `source_vocabulary` and
    /// `target_vocabulary`, or `vocabulary`. It is a list in a `.json` file or, in old models, the lines of a `.txt`
    /// file; `None` if there is neither.
    ///
    /// # Errors
    /// If the file cannot be read, or is not such a list.
    pub fn vocabulary(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let json = |text: &str| serde_json::from_str(text).map_err(|error| error.to_string());
        let lines = |text: &str| Ok(text.lines().map(str::to_owned).collect());
        match self.beside(&format!("{name}.json"), json)? {
            Some(tokens) => Ok(Some(tokens)),
            None => self.beside(&format!("{name}.txt"), lines),
        }
    }

    fn beside<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Error> {
        let path = self.folder.join(name);
        if !path.try_exists().map_err(Error::io("look for", &path))? {
            return Ok(None);
        }
        let length = fs::metadata(&path).map_err(Error::io("open", &path))?.len();
        if length > LONGEST {
            return Err(Error::LongHeader { path, length, limit: LONGEST });
        }
        let map = Map::open(&path)?;
        let parsed = match str::from_utf8(map.bytes()) {
            Ok(text) => parse(text),
            Err(error) => Err(error.to_string()),
        };
        parsed.map(Some).map_err(|reason| Error::Syntax { path, reason: clip(&reason) })
    }
}

/// Whether a file begins with a small version and a name that ends in zero.
pub(crate) fn looks_like(file: &[u8]) -> bool {
    let [version, 0, 0, 0, low, high, rest @ ..] = file else { return false };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let name = rest.get(..length).and_then(|name| name.split_last());
    let named =
        |(end, name): (&u8, &[u8])| *end == 0 && !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    (1..=32).contains(version) && name.is_some_and(named)
}

/// Reads the list of variables and aliases.
pub(crate) fn read(path: &Path, map: &Arc<Map>) -> Result<(Ctranslate2, Contents), Error> {
    let mut reader = Reader::new(path, "CTranslate2", map.bytes());
    let version = reader.u32("the version")?;
    if !(4..=6).contains(&version) {
        let reason = format!("a CTranslate2 model of version {version}, where 4 to 6 are known");
        return Err(reader.unsupported(reason, "convert the original model again"));
    }
    let spec = name(&mut reader, "the name of the specification")?;
    let revision = reader.u32("the revision")?;
    let mut variables = variables(&mut reader, map)?;
    scale(&reader, &mut variables)?;
    let aliases = aliases(&mut reader, &mut variables)?;
    if reader.left() != 0 {
        return Err(reader.damaged(format!("{} bytes follow the last alias", reader.left())));
    }
    let metadata =
        [("spec", spec.clone()), ("revision", revision.to_string())].map(|(key, text)| (key.into(), text));
    let folder = path.parent().unwrap_or(Path::new("")).into();
    let model = Ctranslate2 { folder, spec, revision, aliases };
    Ok((model, Contents { tensors: variables.into_iter().collect(), metadata: metadata.into() }))
}

fn name(reader: &mut Reader, what: &str) -> Result<String, Error> {
    let length = reader.u16("the length of a name")?;
    let text = reader.text(length.into(), what)?;
    match text.strip_suffix('\0') {
        Some(name) => Ok(name.into()),
        None => Err(reader.damaged(format!("{what}, {:?}, does not end in zero", clip(text)))),
    }
}

fn variables(reader: &mut Reader, map: &Arc<Map>) -> Result<BTreeMap<String, Stored>, Error> {
    let count = reader.u32("the number of variables")?;
    let count = reader.count(count.into(), LEAST_VARIABLE, "variables")?;
    let mut variables = BTreeMap::new();
    for _ in 0..count {
        let name = name(reader, "the name of a variable")?;
        let stored = variable(reader, map, &clip(&name))?;
        let clipped = clip(&name);
        if variables.insert(name, stored).is_some() {
            return Err(reader.damaged(format!("variable {clipped:?} appears twice")));
        }
    }
    Ok(variables)
}

fn variable(reader: &mut Reader, map: &Arc<Map>, name: &str) -> Result<Stored, Error> {
    let dimensions = usize::from(reader.u8("the number of dimensions")?);
    if dimensions > DIMENSIONS {
        return Err(reader.damaged(format!("variable {name:?} has {dimensions} dimensions")));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(reader.u32("a dimension")? as usize);
    }
    let kind = reader.u8("a type")?;
    let Some(&dtype) = TYPES.get(usize::from(kind)) else {
        return Err(reader.damaged(format!("variable {name:?} has the unknown type {kind}")));
    };
    let given = reader.u32("a length")? as usize;
    let range = reader.range(given as u64, "a variable")?;
    let path = reader.path().to_path_buf();
    match dtype.bytes_of(&shape) {
        None => Err(Error::Shape { path, name: name.into(), shape }),
        Some(needed) if needed != given => Err(Error::Length { path, name: name.into(), needed, given }),
        Some(_) => Ok(Stored::file(map, range, dtype, &shape)),
    }
}

/// Joins integers with their scales.
fn scale(reader: &Reader, variables: &mut BTreeMap<String, Stored>) -> Result<(), Error> {
    let quantised = |(name, stored): (&String, &Stored)| {
        let integers = matches!(stored.dtype, Dtype::I8 | Dtype::I16);
        let scales = variables.get(&format!("{name}_scale")).filter(|scales| scales.dtype == Dtype::F32);
        Some((name.clone(), stored.scaled(scales.filter(|_| integers)?, Scaling::Divide)))
    };
    let scaled: Vec<_> = variables.iter().filter_map(quantised).collect();
    for (name, stored) in scaled {
        let Some(stored) = stored else {
            return Err(reader.damaged(format!("variable {:?} has not one scale a row", clip(&name))));
        };
        variables.insert(name, stored);
    }
    Ok(())
}

fn aliases(
    reader: &mut Reader,
    variables: &mut BTreeMap<String, Stored>,
) -> Result<BTreeMap<String, String>, Error> {
    let count = reader.u32("the number of aliases")?;
    let count = reader.count(count.into(), LEAST_ALIAS, "aliases")?;
    let mut aliases = BTreeMap::new();
    for _ in 0..count {
        let (alias, variable) = (name(reader, "an alias")?, name(reader, "the variable of an alias")?);
        let Some(stored) = variables.get(&variable) else {
            let (alias, variable) = (clip(&alias), clip(&variable));
            return Err(
                reader.damaged(format!("alias {alias:?} stands for {variable:?}, which is not there"))
            );
        };
        if variables.insert(alias.clone(), stored.clone()).is_some() {
            return Err(reader.damaged(format!("alias {:?} is the name of something else", clip(&alias))));
        }
        aliases.insert(alias, variable);
    }
    Ok(aliases)
}
