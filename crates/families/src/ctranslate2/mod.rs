//! CTranslate2 models: translators, decoders and encoders that its converters write, from many kinds of files.
//!
//! There is no configuration to speak of: `model.bin` has scalars beside its tensors, such as `encoder/num_heads`, and what
//! is there and how large it is says the rest. So a reader goes from the tensors to the formula, and a scalar that it does
//! not know is refused. The specifications:
//! <https://github.com/OpenNMT/CTranslate2/blob/master/python/ctranslate2/specs/transformer_spec.py>

mod rules;
mod scalars;
mod sides;

use glassformer_formula::{Dense, Formula, Head, Input, Norm, Pool, Pooler, Side, Table};
use glassformer_weights::{Ctranslate2, Dtype, Weights};
use serde_json::{Map, Value, json};

use crate::known::unknown;
use crate::{Config, Error, Family};
use scalars::SKIPPED;

/// The specifications that are read here, with the newest revision of each.
const SPECS: [(&str, u32); 3] =
    [("TransformerDecoderSpec", 8), ("TransformerEncoderSpec", 1), ("TransformerSpec", 7)];

/// Keys of CTranslate2's `config.json` that are about tokens, not about the forward pass.
const HARMLESS: [&str; 7] = [
    "add_source_bos",
    "add_source_eos",
    "bos_token",
    "decoder_start_token",
    "eos_token",
    "multi_query_attention", // said again by the tensors
    "unk_token",
];

/// What the folder at `path` describes, and a configuration with the ids of its special tokens.
///
/// # Errors
/// If the specification is not known, or a scalar or key is missing, wrong or not understood.
pub(crate) fn read(path: &str, weights: &Weights, model: &Ctranslate2) -> Result<(Config, Family), Error> {
    let name = model.spec();
    let Some((_, newest)) = SPECS.iter().find(|(known, _)| *known == name) else {
        let known = SPECS.iter().map(|(known, _)| *known);
        return Err(unknown(known, name));
    };
    let config = match model.config()? {
        None => Config::of(Map::new()),
        Some(Value::Object(keys)) => Config::of(keys),
        Some(_) => return Err(Error::Key { key: "it".into(), why: "is not a JSON object".into() }),
    };
    let epsilon = config.get("layer_norm_epsilon").and_then(Value::as_f64).map(|epsilon| epsilon as f32);
    let _ = HARMLESS.map(|key| config.get(key)); // read, so that they are not refused
    config.only("quantization_type", &[json!(0)])?;
    config.finish()?;
    let spec = Spec { path, weights, model, epsilon };
    if model.revision() > *newest {
        return Err(
            spec.bad(format!("revision {} of {name}, where {newest} is the newest known", model.revision()))
        );
    }
    spec.check_scalars()?;
    spec.check_integers()?;
    let formula = spec.formula()?;
    let config = spec.tokens(config.into_keys(), &formula)?;
    let mut family = Family::new(formula, spec.rules());
    family.skipped = SKIPPED;
    Ok((config, family))
}

/// A model whose tensors are asked what it is.
struct Spec<'a> {
    path: &'a str,
    weights: &'a Weights,
    model: &'a Ctranslate2,
    epsilon: Option<f32>,
}

impl Spec<'_> {
    fn bad(&self, why: impl std::fmt::Display) -> Error {
        Error::File { path: self.path.to_owned(), why: why.to_string() }
    }

    fn has(&self, name: &str) -> bool {
        self.weights.shape(name).is_some()
    }

    /// Rows and columns of a matrix that must be there.
    fn matrix(&self, name: &str) -> Result<(usize, usize), Error> {
        match self.weights.shape(name) {
            Some(&[rows, columns]) => Ok((rows, columns)),
            Some(shape) => Err(self.bad(format!("{name} is {shape:?}, and should be a matrix"))),
            None => Err(self.bad(format!("{name} is missing"))),
        }
    }

    /// The norm whose tensors begin with `scope`, if there is one.
    fn norm(&self, scope: &str) -> Option<Norm> {
        let layer = Norm::Layer { epsilon: self.epsilon.unwrap_or(1e-5), bias: true };
        let rms = Norm::Rms { epsilon: self.epsilon.unwrap_or(1e-6) };
        let biased = self.has(&format!("{scope}/beta"));
        self.has(&format!("{scope}/gamma")).then_some(if biased { layer } else { rms })
    }

    /// Whether two names are those of one tensor.
    fn same(&self, one: &str, other: &str) -> bool {
        let first = |name| self.model.aliases().get(name).map_or(name, String::as_str).to_owned();
        self.has(one) && first(one) == first(other)
    }

    /// Refuses integers without scales: they would be taken for the numbers themselves.
    fn check_integers(&self) -> Result<(), Error> {
        let bare = |name: &&str| {
            let view = self.weights.get(name);
            view.is_some_and(|view| {
                matches!(view.dtype(), Dtype::I8 | Dtype::I16)
                    && !view.shape().is_empty()
                    && view.row_scales().is_none()
            })
        };
        match self.weights.names().find(bare) {
            None => Ok(()),
            Some(name) => Err(self.bad(format!("{name} holds integers, and has no scales"))),
        }
    }

    /// Whether the decoder's first row is made of noughts instead of a token (Marian).
    fn starts_from_zero(&self) -> Result<bool, Error> {
        self.flag("decoder/start_from_zero_embedding", false)
    }

    fn formula(&self) -> Result<Formula, Error> {
        let (encoder, decoder) = match self.model.spec() {
            "TransformerEncoderSpec" => (true, false),
            "TransformerDecoderSpec" => (false, true),
            _ => (true, true),
        };
        let mut source = if encoder { Some(self.side("encoder")?) } else { None };
        let mut target = if decoder { Some(self.side("decoder")?) } else { None };
        if let (Some(one), Some(other)) = (&mut source, &mut target)
            && let (Input::Tokens(one), Input::Tokens(other)) = (&mut one.input, &mut other.input)
            && self.same(&self.table("encoder"), &self.table("decoder"))
        {
            one.vocabulary = other.vocabulary; // with the decoder's row of noughts, where it has one
            other.table = Table::Source;
        }
        let head = if decoder { self.head()? } else { Head::Rows };
        Ok(Formula { source, target, pooler: self.pooler()?, head })
    }

    fn head(&self) -> Result<Head, Error> {
        // The row of noughts that a decoder starts from needs a bias that keeps it from being a word.
        let bias = self.has("decoder/projection/bias") || self.starts_from_zero()?;
        let tied = self.same("decoder/projection/weight", &self.table("decoder"));
        let scale =
            self.number("decoder/scale_outputs")?.map(|scale| scale as f32).filter(|&scale| scale != 1.0);
        Ok(Head::Words { tied, bias, dense: None, scale })
    }

    fn pooler(&self) -> Result<Option<Pooler>, Error> {
        if !self.has("pooler_dense/weight") {
            return Ok(None);
        }
        let act = Some(self.activation("pooler_activation")?);
        let bias = self.has("pooler_dense/bias");
        Ok(Some(Pooler { pool: Pool::First, dense: Some(Dense { act, bias, norm: None }), then: Vec::new() }))
    }

    /// The model's own configuration with the ids of special tokens, under the names that `config.json` has for them on a
    /// model hub.
    fn tokens(&self, mut keys: Map<String, Value>, formula: &Formula) -> Result<Config, Error> {
        let mut vocabulary = None;
        for name in ["target_vocabulary", "shared_vocabulary", "vocabulary"] {
            if vocabulary.is_none() {
                vocabulary = self.model.vocabulary(name)?;
            }
        }
        let list = vocabulary.unwrap_or_default();
        let id = |keys: &Map<String, Value>, key: &str, usual: &str| {
            let token = keys.get(key).and_then(Value::as_str).unwrap_or(usual);
            list.iter().position(|known| known == token)
        };
        let (begin, end) = (id(&keys, "bos_token", "<s>"), id(&keys, "eos_token", "</s>"));
        let begin_text = keys.get("bos_token").and_then(Value::as_str).unwrap_or("<s>").to_owned();
        let mut start = id(&keys, "decoder_start_token", &begin_text);
        if let (true, Some(Side { input: Input::Tokens(tokens), .. })) =
            (self.starts_from_zero()?, &formula.target)
        {
            start = Some(tokens.vocabulary - 1);
            keys.insert("pad_token_id".into(), json!(tokens.vocabulary - 1));
        }
        let ids = [("bos_token_id", begin), ("eos_token_id", end), ("decoder_start_token_id", start)];
        keys.extend(ids.into_iter().filter_map(|(key, id)| Some((key.to_owned(), json!(id?)))));
        keys.insert("is_encoder_decoder".into(), json!(formula.source.is_some() && formula.target.is_some()));
        keys.insert("model_type".into(), json!(self.model.spec()));
        Ok(Config::of(keys))
    }
}
