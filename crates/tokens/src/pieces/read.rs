//! A SentencePiece model from its file: the fields of `ModelProto` that matter.

use super::charsmap::Charsmap;
use super::model::{Algorithm, Duplicates, Kind, Model, Parts, Piece};
use super::normalize::Normalizer;
use super::proto::{Fields, Value};

/// A model and the special pieces that its training was told of.
pub(crate) struct File {
    pub model: Model,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub pad: Option<u32>,
}

/// What of the file's training settings matters. The defaults are the format's.
struct Training {
    algorithm: u64,
    whitespace_is_suffix: bool,
    byte_fallback: bool,
    unknown_text: String,
    bos: i64,
    eos: i64,
    pad: i64,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            algorithm: 1,
            whitespace_is_suffix: false,
            byte_fallback: false,
            unknown_text: " \u{2047} ".to_owned(),
            bos: 1,
            eos: 2,
            pad: -1,
        }
    }
}

/// Reads a `.model` or `.spm` file.
pub(crate) fn read(bytes: &[u8]) -> Result<File, String> {
    let mut pieces = Vec::new();
    let mut training = Training::default();
    let mut normalizer = Normalizer {
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
        ..Normalizer::default()
    };
    for field in Fields::new(bytes) {
        match field? {
            (1, value) => pieces.push(piece(value, pieces.len())?),
            (2, value) => read_training(value, &mut training)?,
            (3, value) => read_normalizer(value, &mut normalizer)?,
            (5, value) => {
                let mut back = Normalizer::default();
                read_normalizer(value, &mut back)?;
                if back.charsmap.is_some() {
                    return Err(
                        "it changes characters back after decoding, which is not supported".to_owned()
                    );
                }
            }
            _ => {} // self tests and extensions
        }
    }
    if pieces.is_empty() {
        return Err("there are no pieces in it: it is not a SentencePiece model".to_owned());
    }
    normalizer.whitespace_is_suffix = training.whitespace_is_suffix;
    let algorithm = match training.algorithm {
        1 => Algorithm::Unigram,
        2 => Algorithm::Bpe,
        3 => return Err("it is a model of whole words, which is not supported".to_owned()),
        4 => return Err("it is a model of characters, which is not supported".to_owned()),
        other => return Err(format!("it is a model of the unknown kind {other}")),
    };
    let special = |id: i64, kinds: &[Kind]| {
        let id = u32::try_from(id).ok()?;
        pieces.get(id as usize).is_some_and(|piece: &Piece| kinds.contains(&piece.kind)).then_some(id)
    };
    let marks = [Kind::Control, Kind::User];
    let (bos, eos, pad) =
        (special(training.bos, &marks), special(training.eos, &marks), special(training.pad, &marks));
    let model = Model::new(Parts {
        pieces,
        algorithm,
        normalizer,
        byte_fallback: training.byte_fallback,
        unknown_text: training.unknown_text,
        duplicates: Duplicates::Refuse,
    })?;
    Ok(File { model, bos, eos, pad })
}

fn piece(value: Value<'_>, index: usize) -> Result<Piece, String> {
    let what = |field: &str| format!("the {field} of piece {index}");
    let mut piece = Piece { text: "".into(), score: 0.0, kind: Kind::Normal };
    for field in Fields::new(value.bytes(&what("message"))?) {
        match field? {
            (1, value) => piece.text = value.text(&what("text"))?.into(),
            // minus nought, as the best piece of BPE has it, equals nought
            (2, value) => piece.score = value.float(&what("score"))? + 0.0,
            (3, value) => {
                let number = value.number(&what("kind"))?;
                piece.kind = Kind::from_number(number)
                    .ok_or_else(|| format!("piece {index} is of the unknown kind {number}"))?;
            }
            _ => {}
        }
    }
    Ok(piece)
}

fn read_training(value: Value<'_>, training: &mut Training) -> Result<(), String> {
    for field in Fields::new(value.bytes("the training settings")?) {
        match field? {
            (3, value) => training.algorithm = value.number("the kind of model")?,
            (24, value) => training.whitespace_is_suffix = value.flag("treat_whitespace_as_suffix")?,
            (35, value) => training.byte_fallback = value.flag("byte_fallback")?,
            (41, value) => training.bos = value.number("bos_id")?.cast_signed(),
            (42, value) => training.eos = value.number("eos_id")?.cast_signed(),
            (43, value) => training.pad = value.number("pad_id")?.cast_signed(),
            (44, value) => value.text("unk_surface")?.clone_into(&mut training.unknown_text),
            _ => {}
        }
    }
    Ok(())
}

fn read_normalizer(value: Value<'_>, normalizer: &mut Normalizer) -> Result<(), String> {
    for field in Fields::new(value.bytes("the normaliser")?) {
        match field? {
            (2, value) => {
                let blob = value.bytes("precompiled_charsmap")?;
                normalizer.charsmap = if blob.is_empty() { None } else { Some(Charsmap::new(blob)?) };
            }
            (3, value) => normalizer.add_dummy_prefix = value.flag("add_dummy_prefix")?,
            (4, value) => normalizer.remove_extra_whitespaces = value.flag("remove_extra_whitespaces")?,
            (5, value) => normalizer.escape_whitespaces = value.flag("escape_whitespaces")?,
            _ => {}
        }
    }
    Ok(())
}
