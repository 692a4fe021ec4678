//! Which files make which tokenizer.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::added::Added;
use crate::config::{Config, Token};
use crate::error::Error;
use crate::files::{self, Folder};
use crate::library::{self, ByteLevel, Library, WordPiece, Words};
use crate::pieced::{Around, Pair, Pieced, Side};
use crate::pieces::{self, Kind, Model};
use crate::tokenizer::{SpecialIds, Tokenizer};
use crate::vocabulary::Vocabulary;

const HINT: &str = "expected tokenizer.json, vocab.txt, vocab.json with merges.txt, source.spm with target.spm and \
                    vocab.json, or a SentencePiece model such as tokenizer.model or spiece.model";

/// Names of SentencePiece models, in the order in which they are looked for.
const MODELS: [&str; 4] = ["tokenizer.model", "spiece.model", "spm.model", "sentencepiece.model"];

/// Families that renumber or prepare their pieces in ways of their own.
const OTHERS: [&str; 12] = [
    "albert",
    "xlm",
    "camembert",
    "mbart",
    "xlnet",
    "barthez",
    "m2m",
    "nllb",
    "pegasus",
    "bigbird",
    "deberta",
    "rembert",
];

/// The most sentinels that a T5 configuration may ask for.
const MOST_SENTINELS: u64 = 10_000;

impl Tokenizer {
    /// The tokenizer of a model's folder, from the first of these that is there: `tokenizer.json`; Marian's `source.spm`,
    /// `target.spm` and `vocab.json`; BERT's `vocab.txt`; GPT-2's and RoBERTa's `vocab.json` and `merges.txt`;
    /// CTranslate2's `shared_vocabulary.json` (or `.txt`, or one for each language) with a SentencePiece model; a
    /// SentencePiece model alone.
    ///
    /// # Errors
    /// None of these is there, a file cannot be read or is broken, or asks for what is not supported.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = Folder(folder.as_ref());
        std::fs::read_dir(folder.0).map_err(Error::io("list", folder.0))?;
        let config = Config::open(folder)?;
        if let Some(path) = folder.has("tokenizer.json") {
            let library = Library::new(&files::read(&path)?, &path.display().to_string())?;
            return Self::from_library(library, &config);
        }
        if let (Some(source), Some(target), Some(vocabulary)) =
            (folder.has("source.spm"), folder.has("target.spm"), folder.has("vocab.json"))
        {
            return marian(folder, config, [&source, &target, &vocabulary]);
        }
        if let Some(path) = folder.has("vocab.txt") {
            return word_piece(&path, config);
        }
        if let (Some(vocabulary), Some(merges)) = (folder.has("vocab.json"), folder.has("merges.txt")) {
            return byte_level(&vocabulary, &merges, config);
        }
        if let Some(tokenizer) = ctranslate2(folder)? {
            return Ok(tokenizer.told(&config));
        }
        let model = MODELS.iter().find_map(|name| folder.has(name));
        let model = match model {
            Some(model) => Some(model),
            None => match folder.first(".model")? {
                Some(model) => Some(model),
                None => folder.first(".spm")?,
            },
        };
        match model {
            Some(path) => sentence_piece(&path, config),
            None => Err(Error::Nothing { what: "tokenizer", folder: folder.0.to_path_buf(), hint: HINT }),
        }
    }

    /// The tokenizer of a `tokenizer.json` and its `tokenizer_config.json` that are in memory.
    ///
    /// # Errors
    /// If one of them is broken, or asks for what is not supported.
    pub fn from_json(tokenizer: &str, config: &str) -> Result<Self, Error> {
        Self::from_library(Library::new(tokenizer.as_bytes(), "tokenizer.json")?, &Config::parse(config)?)
    }
}

fn read_pieces(path: &Path) -> Result<pieces::File, Error> {
    pieces::read(&files::read(path)?).map_err(|reason| Error::broken(path.display(), reason))
}

fn read_model(path: &Path) -> Result<Arc<Model>, Error> {
    Ok(Arc::new(read_pieces(path)?.model))
}

/// What RoBERTa's special tokens are called; the first five are MPNet's too.
const ROBERTA_NAMES: [(&str, &str); 7] = [
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("sep_token", "</s>"),
    ("cls_token", "<s>"),
    ("pad_token", "<pad>"),
    ("unk_token", "<unk>"),
    ("mask_token", "<mask>"),
];

fn word_piece(path: &Path, mut config: Config) -> Result<Tokenizer, Error> {
    let mpnet = config.is_for(&["mpnet"]);
    let names: &[(&str, &str)] = if mpnet {
        // The mask goes with the space before it.
        config.name_by_default("mask_token", Token { lstrip: true, ..Token::special("<mask>") });
        &ROBERTA_NAMES[..5]
    } else {
        &[("sep_token", "[SEP]"), ("pad_token", "[PAD]"), ("cls_token", "[CLS]"), ("mask_token", "[MASK]")]
    };
    for (name, text) in names.iter().chain(&[("unk_token", "[UNK]")]) {
        config.name_by_default(name, Token::special(*text));
    }
    let around = if mpnet { library::Around::Roberta } else { library::Around::Bert };
    let vocabulary = WordPiece::read(&files::text(path)?, around, &config);
    let unknown = config.named("unk_token").map(|token| token.content.as_str());
    if let Some(unknown) = unknown.filter(|&text| !vocabulary.vocabulary.contains_key(text)) {
        return Err(Error::broken(path.display(), format!("the unk_token {unknown:?} is not in it")));
    }
    let library = Library::from_value(&vocabulary.json(&config), &path.display().to_string())?;
    Tokenizer::from_library(library, &config)
}

fn byte_level(vocabulary: &Path, merges: &Path, mut config: Config) -> Result<Tokenizer, Error> {
    let place = vocabulary.display().to_string();
    let tokens: Map<String, Value> = files::json(vocabulary)?;
    check_ids(&tokens).map_err(|reason| Error::broken(&place, reason))?;
    let has = |token: &str| tokens.contains_key(token);
    if config.is_for(&["clip", "ctrl", "openai"]) {
        let what = format!("the {} without tokenizer.json", config.class.as_deref().unwrap_or("tokenizer"));
        let hint = "load it in transformers and save it again, which writes tokenizer.json";
        return Err(Error::Unsupported { place, what, hint });
    }
    let roberta = config.is_for(&["roberta", "bart", "longformer", "ledtokenizer"])
        || config.model_type.as_deref() == Some("led")
        || (config.class.is_none() && config.model_type.is_none() && has("<s>") && !has("<|endoftext|>"));
    let (around, names): (_, &[(&str, &str)]) = if roberta {
        (library::Around::Roberta, &ROBERTA_NAMES)
    } else {
        let (begin, end) = (config.flag("add_bos_token"), config.flag("add_eos_token"));
        let end_of_text = "<|endoftext|>";
        let around = library::Around::Marks { begin: begin.unwrap_or(false), end: end.unwrap_or(false) };
        (around, &[("bos_token", end_of_text), ("eos_token", end_of_text), ("unk_token", end_of_text)])
    };
    for (name, text) in names {
        config.name_by_default(name, Token::special(*text));
    }
    let words = if config.is_for(&["qwen2"]) { Words::QWEN2 } else { Words::GPT2 };
    let merges = ByteLevel::read_merges(&files::text(merges)?)
        .map_err(|reason| Error::broken(merges.display(), reason))?;
    let add_prefix_space = config.flag("add_prefix_space").unwrap_or(false);
    let json = ByteLevel { vocabulary: tokens, merges, words, add_prefix_space, around }.json(&config);
    Tokenizer::from_library(Library::from_value(&json, &place)?, &config)
}

/// Every id must be one: the library would take part of a larger number.
fn check_ids(tokens: &Map<String, Value>) -> Result<(), String> {
    match tokens.iter().find(|(_, id)| id.as_u64().is_none_or(|id| id > u64::from(u32::MAX))) {
        Some((token, id)) => Err(format!("token {token:?} has the id {id}")),
        None => Ok(()),
    }
}

fn vocabulary_of(tokens: impl IntoIterator<Item = (String, u32)>) -> Arc<Vocabulary> {
    let mut vocabulary = Vocabulary::default();
    for (token, id) in tokens {
        vocabulary.insert(token, id);
    }
    Arc::new(vocabulary)
}

fn read_vocabulary(path: &Path) -> Result<Arc<Vocabulary>, Error> {
    let tokens: Map<String, Value> = files::json(path)?;
    check_ids(&tokens).map_err(|reason| Error::broken(path.display(), reason))?;
    Ok(vocabulary_of(tokens.into_iter().map(|(token, id)| (token, id.as_u64().unwrap_or(0) as u32))))
}

fn marian(
    folder: Folder<'_>,
    mut config: Config,
    [source, target, own]: [&Path; 3],
) -> Result<Tokenizer, Error> {
    for (name, text) in [("unk_token", "<unk>"), ("eos_token", "</s>"), ("pad_token", "<pad>")] {
        config.name_by_default(name, Token::special(text));
    }
    let vocabulary = read_vocabulary(own)?;
    let other = match folder.has("target_vocab.json") {
        Some(path) if config.flag("separate_vocabs") == Some(true) => read_vocabulary(&path)?,
        _ => vocabulary.clone(),
    };
    let models = [read_model(source)?, read_model(target)?];
    let marks = Marks { begin: false, end: true };
    numbered(models, [vocabulary, other], &config, marks)
        .map_err(|reason| Error::broken(own.display(), reason))
}

/// Which special tokens are put around a text.
#[derive(Clone, Copy)]
struct Marks {
    begin: bool,
    end: bool,
}

/// A tokenizer whose vocabulary numbers the pieces anew.
fn numbered(
    [source, target]: [Arc<Model>; 2],
    [vocabulary, other]: [Arc<Vocabulary>; 2],
    config: &Config,
    marks: Marks,
) -> Result<Tokenizer, String> {
    let need = |vocabulary: &Vocabulary, name: &str| {
        let id = config.named(name).and_then(|token| vocabulary.id(&token.content));
        id.ok_or_else(|| format!("the vocabulary has no {name}"))
    };
    let mark = |wanted: bool, name| wanted.then(|| need(&vocabulary, name)).transpose();
    let before = mark(marks.begin, "bos_token")?.into_iter().collect();
    let after = mark(marks.end, "eos_token")?.into_iter().collect();
    let unknown = [need(&vocabulary, "unk_token")?, need(&other, "unk_token")?];
    let known = |token: &Token| vocabulary.id(&token.content).map(|id| (token.clone(), id));
    let added: Vec<(Token, u32)> = config.tokens().filter_map(known).collect();
    let special = SpecialIds::named(config, &vocabulary);
    let pieces = Pieced {
        special: config
            .tokens()
            .filter(|token| token.special)
            .filter_map(|token| other.id(&token.content))
            .collect(),
        source: Side::numbered(source, vocabulary, unknown[0]),
        target: Side::numbered(target, other, unknown[1]),
        added: Added::new(added),
        around: Around { before, after, pair: Pair::Both },
    };
    Ok(Tokenizer::from_pieces(pieces, special, config))
}

/// CTranslate2's list of pieces, and a SentencePiece model beside it.
fn ctranslate2(folder: Folder<'_>) -> Result<Option<Tokenizer>, Error> {
    let list = |name: &str| -> Result<Option<Arc<Vocabulary>>, Error> {
        let tokens: Vec<String> =
            match (folder.json(&format!("{name}.json"))?, folder.has(&format!("{name}.txt"))) {
                (Some(tokens), _) => tokens,
                (None, Some(path)) => files::text(&path)?.lines().map(str::to_owned).collect(),
                (None, None) => return Ok(None),
            };
        Ok(Some(vocabulary_of(tokens.into_iter().zip(0..))))
    };
    let shared = list("shared_vocabulary")?;
    let (source, target) = match shared {
        Some(shared) => (shared.clone(), shared),
        None => match (list("source_vocabulary")?, list("target_vocabulary")?) {
            (Some(source), Some(target)) => (source, target),
            _ => return Ok(None),
        },
    };
    let model = |names: [&str; 3]| names.iter().find_map(|name| folder.has(name));
    let (Some(from), Some(to)) = (
        model(["source.spm", "sentencepiece.model", "spm.model"]),
        model(["target.spm", "sentencepiece.model", "spm.model"]),
    ) else {
        let hint = "put the SentencePiece model beside the vocabulary, as sentencepiece.model";
        return Err(Error::Nothing { what: "SentencePiece model", folder: folder.0.to_path_buf(), hint });
    };
    let own: Map<String, Value> = folder.json("config.json")?.unwrap_or_default();
    let mut config = Config::default();
    for (name, usual) in [("unk_token", "<unk>"), ("eos_token", "</s>"), ("bos_token", "<s>")] {
        let text = own.get(name).and_then(Value::as_str).unwrap_or(usual);
        config.name_by_default(name, Token::special(text));
    }
    let flag = |key: &str| own.get(key).and_then(Value::as_bool).unwrap_or(false);
    let marks = Marks { begin: flag("add_source_bos"), end: flag("add_source_eos") };
    let tokenizer = numbered([read_model(&from)?, read_model(&to)?], [source, target], &config, marks);
    tokenizer.map(Some).map_err(|reason| Error::broken(folder.0.display(), reason))
}

/// What a SentencePiece model alone belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// The model as it is.
    Plain,
    /// A begin token, and pieces that tell bytes.
    Llama,
    /// An end token, and sentinels after the last piece.
    T5,
}

fn sentence_piece(path: &Path, mut config: Config) -> Result<Tokenizer, Error> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let nameless = config.class.is_none() && config.model_type.is_none();
    if name == "sentencepiece.bpe.model" || config.is_for(&OTHERS) {
        let what = format!("the {} without tokenizer.json", config.class.as_deref().unwrap_or("tokenizer"));
        let hint = "load it in transformers and save it again, which writes tokenizer.json";
        return Err(Error::Unsupported { place: path.display().to_string(), what, hint });
    }
    let family = if config.is_for(&["t5"]) || (nameless && name == "spiece.model") {
        Family::T5
    } else if config.is_for(&["llama", "gemma", "mistral", "mixtral"])
        || (nameless && name == "tokenizer.model")
    {
        Family::Llama
    } else {
        Family::Plain
    };
    let file = read_pieces(path)?;
    let names: &[(&str, &str)] = match family {
        Family::Plain => &[],
        Family::Llama => &[("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")],
        Family::T5 => &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")],
    };
    for (name, text) in names {
        config.name_by_default(name, Token::special(*text));
    }
    if family == Family::T5 {
        let count = config.number("extra_ids").unwrap_or(100).min(MOST_SENTINELS);
        config.extend((0..count).rev().map(|number| Token::special(format!("<extra_id_{number}>"))));
    }
    Ok(around_pieces(file, family, &config))
}

fn around_pieces(file: pieces::File, family: Family, config: &Config) -> Tokenizer {
    let pieces::File { model, bos, eos, pad } = file;
    let mut vocabulary = Vocabulary::default();
    for (id, piece) in (0..).zip(&model.pieces) {
        vocabulary.insert(piece.text.clone(), id);
    }
    let mut next = model.pieces.len() as u32;
    let mut added = Vec::new();
    for token in config.tokens() {
        let known = vocabulary.id(&token.content).or_else(|| config.added_id(&token.content));
        let id = known.unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        vocabulary.insert(token.content.as_str(), id);
        added.push((token.clone(), id));
    }
    let mut special: HashSet<u32> =
        added.iter().filter(|(token, _)| token.special).map(|&(_, id)| id).collect();
    special
        .extend((0..).zip(&model.pieces).filter(|(_, piece)| piece.kind == Kind::Control).map(|(id, _)| id));
    let mut ids = SpecialIds::named(config, &vocabulary);
    if family == Family::Plain {
        ids.bos = ids.bos.or(bos);
        ids.eos = ids.eos.or(eos);
        ids.pad = ids.pad.or(pad);
        ids.unk = ids.unk.or(Some(model.unknown));
    }
    let flag = |key: &str, family_does: bool| config.flag(key).unwrap_or(family_does);
    let begin = ids.bos.filter(|_| flag("add_bos_token", family == Family::Llama));
    let end = ids.eos.filter(|_| flag("add_eos_token", family == Family::T5));
    let side = Side::own(Arc::new(model), Arc::new(vocabulary));
    let pieces = Pieced {
        source: side.clone(),
        target: side,
        added: Added::new(added),
        special,
        around: Around {
            before: begin.into_iter().collect(),
            after: end.into_iter().collect(),
            pair: Pair::Each,
        },
    };
    Tokenizer::from_pieces(pieces, ids, config)
}
