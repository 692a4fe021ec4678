//! Which files of a model are needed: what describes it, its tokenizer, and its weights in one format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::listing::{Entry, Listing, clip};
use crate::name::check_path;
use crate::{Error, Name};

/// What is read beside weights, in the model's folder and in those of its modules.
const DESCRIBES: [&str; 21] = [
    "config.json",
    "generation_config.json",
    "formula.toml",
    "labels.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "target_vocab.json",
    "shared_vocabulary.json",
    "shared_vocabulary.txt",
    "source_vocabulary.json",
    "source_vocabulary.txt",
    "target_vocabulary.json",
    "target_vocabulary.txt",
    "preprocessor_config.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// The same of models of sentences.
const SENTENCES: [&str; 3] =
    ["modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"];

/// Vocabularies of SentencePiece have names of their own.
const PIECES: [&str; 2] = ["model", "spm"];

/// Weights, the format to prefer first: as the engine looks for them in a folder.
const WEIGHTS: [Weights; 5] = [
    Weights::Whole("model.safetensors"),
    Weights::Shards("model.safetensors.index.json"),
    Weights::Whole("pytorch_model.bin"),
    Weights::Shards("pytorch_model.bin.index.json"),
    Weights::Whole("model.bin"),
];

enum Weights {
    /// One file.
    Whole(&'static str),
    /// An index that names files.
    Shards(&'static str),
}

/// What of a listing is needed.
pub struct Wanted<'a> {
    pub files: Vec<&'a Entry>,
    /// The GGUF file that is the model, where it is not the folder.
    pub gguf: Option<&'a str>,
    /// Whether `files` is all. Else some of them must be read to know the rest.
    pub is_all: bool,
}

/// Which files of `listing` the model `name` needs. `read` gives the text of those that are there already.
pub fn wanted<'a>(
    name: &Name,
    listing: &'a Listing,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<Wanted<'a>, Error> {
    if let Some(file) = name.file() {
        return gguf(name, listing, file);
    }
    let mut folders = BTreeSet::from([String::new()]);
    let mut is_all = true;
    if listing.get("modules.json").is_some() {
        match read("modules.json") {
            Some(text) => folders.extend(modules(&text).map_err(|why| refused(name, "modules.json", why))?),
            None => is_all = false,
        }
    }
    let mut files: Vec<&Entry> =
        listing.files.iter().filter(|entry| describes(&entry.path, &folders)).collect();
    let mut has_weights = false;
    for folder in &folders {
        for weights in &WEIGHTS {
            let (Weights::Whole(file) | Weights::Shards(file)) = weights;
            let Some(entry) = listing.get(&within(folder, file)) else { continue };
            files.push(entry);
            has_weights = true;
            if let Weights::Shards(_) = weights {
                match read(&entry.path) {
                    None => is_all = false,
                    Some(text) => {
                        for shard in shards(&text).map_err(|why| refused(name, &entry.path, why))? {
                            let path = within(folder, &shard);
                            files.push(listing.get(&path).ok_or_else(|| {
                                refused(name, &entry.path, format!("it names {path}, which is not there"))
                            })?);
                        }
                    }
                }
            }
            break;
        }
    }
    if !has_weights && is_all {
        // A model that is nothing but a GGUF file.
        return gguf(name, listing, "");
    }
    let mut seen = BTreeSet::new();
    files.retain(|entry| seen.insert(&entry.path));
    Ok(Wanted { files, gguf: None, is_all })
}

/// The one GGUF file whose path is `part`, or has it within; with all parts of it where it was split.
fn gguf<'a>(name: &Name, listing: &'a Listing, part: &str) -> Result<Wanted<'a>, Error> {
    let is_gguf = |path: &str| has_end(path, "gguf");
    // Of a split model, the first part stands for all.
    let first = |path: &str| {
        split(path).is_none_or(|(_, number, _)| {
            number.bytes().rev().skip(1).all(|c| c == b'0') && number.ends_with('1')
        })
    };
    let all: Vec<&Entry> =
        listing.files.iter().filter(|entry| is_gguf(&entry.path) && first(&entry.path)).collect();
    let lower = part.to_lowercase();
    let exact = listing.get(part).filter(|entry| is_gguf(&entry.path));
    let found: Vec<&Entry> = match exact {
        Some(entry) => vec![entry],
        None => all.iter().copied().filter(|entry| entry.path.to_lowercase().contains(&lower)).collect(),
    };
    match found[..] {
        [entry] => {
            let files = match split(&entry.path) {
                None => vec![entry],
                Some(parts) => listing.files.iter().filter(|other| is_part(&other.path, parts)).collect(),
            };
            Ok(Wanted { files, gguf: Some(&entry.path), is_all: true })
        }
        [] if part.is_empty() => Err(no_weights(name, listing)),
        [] => Err(Error::NoFile {
            name: name.id().to_owned(),
            file: part.to_owned(),
            hint: match all.len() {
                0 => "it holds no GGUF file: leave the file away".to_owned(),
                _ => format!("its GGUF files: {}", choices(name, &all)),
            },
        }),
        _ => Err(Error::Ambiguous {
            name: name.to_string(),
            count: found.len(),
            choices: choices(name, &found),
        }),
    }
}

/// Stem, number and count of a path such as `x-00001-of-00003.gguf`.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let (rest, count) = path.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|c| c.is_ascii_digit());
    (is_number(count) && is_number(number)).then_some((stem, number, count))
}

fn is_part(path: &str, (stem, _, count): (&str, &str, &str)) -> bool {
    split(path).is_some_and(|(other, _, of)| other == stem && of == count)
}

/// How each of several files is named, or the first of them.
fn choices(name: &Name, files: &[&Entry]) -> String {
    const LISTED: usize = 8;
    let whole = |entry: &&Entry| {
        let revision = if name.has_revision() { format!("@{}", name.revision()) } else { String::new() };
        format!("{}{revision}:{}", name.id(), entry.path)
    };
    let mut listed: Vec<String> = files.iter().take(LISTED).map(whole).collect();
    if files.len() > LISTED {
        listed.push(format!("and {} more", files.len() - LISTED));
    }
    listed.join(", ")
}

fn no_weights(name: &Name, listing: &Listing) -> Error {
    const LISTED: usize = 6;
    let mut paths: Vec<&str> = listing.files.iter().map(|entry| entry.path.as_str()).collect();
    paths.sort_unstable();
    let more = if paths.len() > LISTED { ", …" } else { "" };
    let holds = match paths.len() {
        0 => "it is empty".to_owned(),
        _ => format!("it has {}{more}", paths[..paths.len().min(LISTED)].join(", ")),
    };
    let hint = "look for the same model in safetensors, PyTorch's, CTranslate2's or GGUF format";
    Error::NoWeights { name: name.to_string(), holds: clip(&holds), hint }
}

/// Whether `path` describes a model in one of `folders`, or is how it talks.
fn describes(path: &str, folders: &BTreeSet<String>) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if folder == "additional_chat_templates" {
        return has_end(file, "jinja");
    }
    let listed = DESCRIBES.contains(&file) || SENTENCES.contains(&file);
    folders.contains(folder) && (listed || PIECES.iter().any(|end| has_end(file, end)))
}

fn has_end(path: &str, end: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case(end))
}

fn within(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

/// The folders of a model's modules, but for its own.
fn modules(text: &str) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Module {
        #[serde(default)]
        path: String,
    }
    let modules: Vec<Module> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let folders = modules.into_iter().map(|module| module.path.trim_end_matches('/').to_owned());
    let folders: Vec<String> = folders.filter(|path| !path.is_empty() && path != ".").collect();
    folders.iter().try_for_each(|path| check_path(path).map_err(|why| format!("a folder {why}")))?;
    Ok(folders)
}

/// The files that an index names.
fn shards(text: &str) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    shards.iter().try_for_each(|path| check_path(path).map_err(|why| format!("a shard {why}")))?;
    Ok(shards)
}

fn refused(name: &Name, place: &str, why: String) -> Error {
    Error::Listing { place: place.to_owned(), name: name.id().to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> Listing {
        let entry = |path: &&str| Entry { path: (*path).to_owned(), size: None, hash: None };
        Listing { commit: "a".repeat(40), files: paths.iter().map(entry).collect() }
    }

    fn pick(name: &str, paths: &[&str], texts: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let listing = listing(paths);
        let read =
            |path: &str| texts.iter().find(|(known, _)| *known == path).map(|(_, text)| (*text).to_owned());
        let wanted = wanted(&name.parse().unwrap(), &listing, &read).map_err(|error| error.to_string())?;
        let mut files: Vec<String> = wanted.files.iter().map(|entry| entry.path.clone()).collect();
        files.sort();
        if !wanted.is_all {
            files.push("…".to_owned());
        }
        Ok(files)
    }

    #[test]
    fn the_same_weights_are_wanted_in_one_format_only() {
        let all = [
            ".gitattributes",
            "README.md",
            "config.json",
            "flax_model.msgpack",
            "model.safetensors",
            "onnx/model.onnx",
            "pytorch_model.bin",
            "rust_model.ot",
            "tf_model.h5",
            "tokenizer.json",
            "vocab.txt",
            "training_args.bin",
            "openvino/openvino_model.bin",
            "runs/x/config.json",
            "model.gguf",
        ];
        let want = ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"];
        assert_eq!(pick("a/b", &all, &[]).unwrap(), want);
        let marian =
            ["config.json", "pytorch_model.bin", "source.spm", "target.spm", "vocab.json", "tf_model.h5"];
        assert_eq!(pick("a/b", &marian, &[]).unwrap().len(), 5);
    }

    #[test]
    fn shards_are_those_that_the_index_names() {
        let paths = [
            "config.json",
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "consolidated.safetensors",
            "pytorch_model.bin",
        ];
        let index = "model.safetensors.index.json";
        assert_eq!(pick("a/b", &paths, &[]).unwrap(), ["config.json", index, "…"]);
        let text = r#"{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;
        let all = pick("a/b", &paths, &[(index, text)]).unwrap();
        assert_eq!(all, ["config.json", paths[2], paths[3], index]);
        for (shard, why) in
            [("../x", "leads out"), ("/etc/passwd", "leads out"), ("none.safetensors", "not there")]
        {
            let text = format!(r#"{{"weight_map":{{"a":"{shard}"}}}}"#);
            let error = pick("a/b", &paths, &[(index, &text)]).unwrap_err();
            assert!(error.contains(why), "{shard}: {error}");
        }
    }

    #[test]
    fn a_model_of_sentences_brings_the_folders_of_its_modules() {
        let paths = [
            "modules.json",
            "config.json",
            "config_sentence_transformers.json",
            "model.safetensors",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "onnx/config.json",
        ];
        assert_eq!(pick("a/b", &paths, &[]).unwrap().last().unwrap(), "…");
        let text = r#"[{"path":""},{"path":"1_Pooling"},{"path":"2_Dense"}]"#;
        let files = pick("a/b", &paths, &[("modules.json", text)]).unwrap();
        assert_eq!(files.len(), 7);
        assert!(files.contains(&paths[6].to_owned()) && !files.contains(&paths[7].to_owned()));
        let error = pick("a/b", &paths, &[("modules.json", r#"[{"path":"../.."}]"#)]).unwrap_err();
        assert!(error.contains("leads out"), "{error}");
    }

    #[test]
    fn a_gguf_file_is_wanted_by_its_name_or_a_part_of_it() {
        let paths = [
            "README.md",
            "m-Q4_K_M.gguf",
            "m-Q8_0.gguf",
            "m-f16-00001-of-00002.gguf",
            "m-f16-00002-of-00002.gguf",
        ];
        assert_eq!(pick("a/b:m-Q8_0.gguf", &paths, &[]).unwrap(), ["m-Q8_0.gguf"]);
        assert_eq!(pick("a/b:q4_k_m", &paths, &[]).unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(pick("a/b:f16", &paths, &[]).unwrap(), paths[3..]);
        assert_eq!(pick("a/b", &paths[..2], &[]).unwrap(), ["m-Q4_K_M.gguf"]);
        let error = pick("a/b", &paths, &[]).unwrap_err();
        assert!(
            error.contains("holds 3 GGUF files; name one: a/b:m-Q4_K_M.gguf, a/b:m-Q8_0.gguf"),
            "{error}"
        );
        let error = pick("a/b:q5", &paths, &[]).unwrap_err();
        assert!(error.contains("no file q5") && error.contains("a/b:m-Q8_0.gguf"), "{error}");
        let error = pick("a/b:q5", &["config.json"], &[]).unwrap_err();
        assert!(error.contains("holds no GGUF file"), "{error}");
    }

    #[test]
    fn what_holds_no_weights_says_what_it_holds() {
        let error = pick("a/b", &["README.md", "onnx/model.onnx"], &[]).unwrap_err();
        assert!(error.contains("it has README.md, onnx/model.onnx; look for"), "{error}");
    }
}
