//! GGUF files as models: what their entries say is put into the words of `config.json`, and the same families read it.
//!
//! Names of tensors are the same for all architectures there, so one list of rules serves them all. The format's keys:
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>

use glassformer_formula::{Formula, Head, Pairing, Pool, Pooler, Position, Rotary, Scaling};
use glassformer_weights::{Gguf, Weights};
use serde_json::{Map, Value, json};

use crate::known::{Read, unknown};
use crate::rules::{how, rule};
use crate::{Config, Error, Family, How, Rule};

/// An architecture that files name.
struct Architecture {
    name: &'static str,
    /// The `model_type` that is the same.
    kind: &'static str,
    /// Who reads its configuration.
    read: Read,
    /// Which of our sides it is.
    side: &'static str,
    /// Which numbers of a query or key turn together, where they turn. `llama` has the rows as they were published; all
    /// others as Hugging Face has them.
    pairing: Option<Pairing>,
    /// Keys that its configuration calls otherwise than most.
    keys: &'static [(&'static str, &'static str)],
}

const fn decoder(name: &'static str, read: Read) -> Architecture {
    Architecture { name, kind: name, read, side: "target", pairing: Some(Pairing::Halves), keys: &[] }
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture { side: "source", pairing: None, ..decoder("bert", crate::bert::bert) },
    decoder("gemma", crate::llama::gemma),
    Architecture { keys: GPT2_KEYS, pairing: None, ..decoder("gpt2", crate::gpt2::gpt2) },
    Architecture { kind: "gpt_neox", keys: GPT_NEOX_KEYS, ..decoder("gptneox", crate::gpt_neox::gpt_neox) },
    Architecture { pairing: Some(Pairing::Interleaved), ..decoder("llama", crate::llama::llama) },
    decoder("qwen2", crate::llama::qwen2),
    decoder("qwen3", crate::llama::qwen3),
];

/// What follows the architecture in a key, and the key of `config.json` that means the same.
const KEYS: &[(&str, &str)] = &[
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.sliding_window", "sliding_window"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("rope.freq_base", "rope_theta"),
    ("use_parallel_residual", "use_parallel_residual"),
    ("vocab_size", "vocab_size"),
];

const GPT2_KEYS: &[(&str, &str)] = &[
    ("attention.head_count", "n_head"),
    ("attention.layer_norm_epsilon", "layer_norm_epsilon"),
    ("block_count", "n_layer"),
    ("context_length", "n_positions"),
    ("embedding_length", "n_embd"),
    ("feed_forward_length", "n_inner"),
];

const GPT_NEOX_KEYS: &[(&str, &str)] = &[("rope.freq_base", "rotary_emb_base")];

/// Keys after the architecture's name that cannot change a forward pass.
const HARMLESS: &[&str] = &["rope.scaling.finetuned", "tensor_data_layout"];

/// Beginnings of keys, besides the architecture's, that may change one.
const FOREIGN: [&str; 4] = ["adapter.", "clip.", "diffusion.", "xielu."];

/// What the file at `path` describes, and the configuration that says so.
///
/// # Errors
/// If the architecture is not known, or an entry is missing, wrong or not understood.
pub(crate) fn read(path: &str, weights: &Weights, gguf: &Gguf) -> Result<(Config, Family), Error> {
    let name = gguf.string("general.architecture").unwrap_or_default();
    let Some(architecture) = ARCHITECTURES.iter().find(|known| known.name == name) else {
        return Err(unknown(ARCHITECTURES.iter().map(|known| known.name), name));
    };
    let entries = Entries { path, gguf, architecture };
    let mut keys = entries.translated()?;
    entries.sizes(weights, &mut keys);
    let turns = entries.turns(weights, &mut keys)?;
    entries.unread()?;
    entries.demand()?;
    let windowed = name == "llama" && gguf.contains("llama.attention.sliding_window");
    let (kind, read) = if windowed {
        ("mistral", crate::llama::mistral as Read)
    } else {
        (architecture.kind, architecture.read)
    };
    let config = Config::of_kind(kind, keys);
    let read = read(&config).and_then(|family| config.finish().map(|()| family));
    let mut family = read.map_err(|error| entries.named(error))?;
    family.rules = rules(architecture.side);
    family.prefixes = &[];
    family.skipped = &["rope_freqs.weight", ".attn_rot_embd.weight"];
    if let Some(pairing) = architecture.pairing {
        turn(&mut family.formula, pairing, &turns);
    }
    if architecture.side == "source" {
        family.formula.head = Head::Rows;
        family.formula.pooler = entries.pooler()?;
    }
    Ok((config, family))
}

/// The entries of one file.
struct Entries<'a> {
    path: &'a str,
    gguf: &'a Gguf,
    architecture: &'a Architecture,
}

/// Tokens that generation needs, and their keys in `config.json`.
const MARKS: [(&str, &str); 3] = [
    ("tokenizer.ggml.bos_token_id", "bos_token_id"),
    ("tokenizer.ggml.eos_token_id", "eos_token_id"),
    ("tokenizer.ggml.padding_token_id", "pad_token_id"),
];

/// What a file says of its angles that `config.json` has no words for.
#[derive(Default)]
struct Turns {
    /// How many numbers of a head turn.
    size: Option<usize>,
    /// What each pair's angle is divided by (LLaMA 3, computed when the file was made).
    divisors: Option<Scaling>,
}

impl Entries<'_> {
    fn key(&self, end: &str) -> String {
        format!("{}.{end}", self.architecture.name)
    }

    fn bad(&self, why: impl std::fmt::Display) -> Error {
        Error::File { path: self.path.to_owned(), why: why.to_string() }
    }

    /// The value of the architecture's key `end`.
    fn value(&self, end: &str) -> Result<Option<Value>, Error> {
        let (gguf, key) = (self.gguf, self.key(end));
        let whole = || gguf.u64(&key).map(Value::from).or_else(|| gguf.i64(&key).map(Value::from));
        let float = || gguf.f32(&key).map(|number| json!(f64::from(number)));
        let other = || gguf.bool(&key).map(Value::from).or_else(|| gguf.string(&key).map(Value::from));
        let value = whole().or_else(float).or_else(other);
        if value.is_none() && gguf.contains(&key) {
            return Err(self.bad(format!("{key} is a list or no text, where one number is supported")));
        }
        Ok(value)
    }

    /// Refuses a file without the sizes that every file has: the reference's own would be those of another model.
    fn demand(&self) -> Result<(), Error> {
        for end in ["attention.head_count", "block_count", "embedding_length", "feed_forward_length"] {
            if !self.gguf.contains(&self.key(end)) {
                return Err(self.bad(format!("{} is missing", self.key(end))));
            }
        }
        Ok(())
    }

    fn size(&self, end: &str) -> Option<usize> {
        self.gguf.u64(&self.key(end)).and_then(|size| usize::try_from(size).ok())
    }

    /// Numbers of a head, if the file says enough.
    fn head_size(&self) -> Option<usize> {
        let even = || self.size("embedding_length")?.checked_div(self.size("attention.head_count")?);
        self.size("attention.key_length").or_else(even)
    }

    /// The key of `config.json` that means the same as `end`.
    fn meaning(&self, end: &str) -> Option<&'static str> {
        let found =
            |keys: &[(&str, &'static str)]| keys.iter().find(|(from, _)| *from == end).map(|(_, to)| *to);
        found(self.architecture.keys).or_else(|| found(KEYS))
    }

    /// The keys of `config.json` that mean the same, but for what only says the usual once more.
    fn translated(&self) -> Result<Map<String, Value>, Error> {
        let mark = |(from, to): (&str, &str)| Some((to.to_owned(), json!(self.gguf.u32(from)?)));
        let mut keys: Map<String, Value> = MARKS.into_iter().filter_map(mark).collect();
        keys.insert("model_type".to_owned(), json!(self.architecture.name));
        for (end, _) in KEYS {
            let value = self.value(end)?;
            let usual = match *end {
                "attention.head_count_kv" => self.size("attention.head_count"),
                "attention.key_length" => self
                    .size("embedding_length")
                    .zip(self.size("attention.head_count"))
                    .map(|(width, heads)| width / heads.max(1)),
                _ => None,
            };
            let Some(to) = self.meaning(end) else { continue };
            match value.filter(|value| Some(value) != usual.map(Value::from).as_ref()) {
                Some(value) => _ = keys.insert(to.to_owned(), value),
                // Null: as the others say, and not what a family takes where the key is missing.
                None if usual.is_some() => _ = keys.insert(to.to_owned(), Value::Null),
                None => {}
            }
        }
        Ok(keys)
    }

    /// What files leave to the shapes of their tensors.
    fn sizes(&self, weights: &Weights, keys: &mut Map<String, Value>) {
        let rows = |name: &str| weights.shape(name).and_then(|shape| shape.first()).map(|&rows| json!(rows));
        if let (None, Some(rows)) = (keys.get("vocab_size"), rows("token_embd.weight")) {
            keys.insert("vocab_size".into(), rows);
        }
        if self.architecture.side == "source" {
            keys.extend(rows("token_types.weight").map(|rows| ("type_vocab_size".to_owned(), rows)));
        } else {
            keys.insert("tie_word_embeddings".into(), json!(weights.shape("output.weight").is_none()));
        }
    }

    /// How angles are scaled, in the words of `rope_scaling`; empty where they are not.
    fn scaling(&self) -> Result<Map<String, Value>, Error> {
        let key = |end: &str| self.key(&format!("rope.scaling.{end}"));
        let number = |key: &str| self.gguf.f32(key).map(f64::from);
        let factor = number(&key("factor")).or_else(|| number(&self.key("rope.scale_linear")));
        let factor = factor.filter(|&factor| factor != 0.0);
        let kind = self.gguf.string(&key("type")).unwrap_or("linear");
        let factor = match (kind, factor) {
            ("none", _) | ("linear", None) => return Ok(Map::new()),
            ("linear" | "yarn", Some(factor)) => factor,
            ("yarn", None) => return Err(self.bad(format!("{} is missing", key("factor")))),
            (other, _) => {
                let key = key("type");
                return Err(self.bad(format!("{key} is {other:?}, and should be none, linear or yarn")));
            }
        };
        let mut scaling =
            Map::from_iter([("rope_type".to_owned(), json!(kind)), ("factor".to_owned(), json!(factor))]);
        if kind == "yarn" {
            let original = self.size("rope.scaling.original_context_length");
            scaling.extend(original.map(|rows| ("original_max_position_embeddings".into(), json!(rows))));
            for (from, to) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
                scaling.extend(number(&key(from)).map(|turns| (to.into(), json!(turns))));
            }
            // There it is a factor beside the usual one, not instead of it.
            let sharper = number(&key("attn_factor")).map(|times| times * (0.1 * factor.ln() + 1.0));
            scaling.extend(sharper.map(|times| ("attention_factor".into(), json!(times))));
        }
        Ok(scaling)
    }

    /// Angles: what `config.json` has words for goes into `keys`.
    fn turns(&self, weights: &Weights, keys: &mut Map<String, Value>) -> Result<Turns, Error> {
        let scaling = self.scaling()?;
        let divisors = match weights.get("rope_freqs.weight") {
            None => None,
            Some(_) if !scaling.is_empty() => {
                let why = "it has rope_freqs.weight and another scaling of its angles: only one is supported";
                return Err(self.bad(why));
            }
            Some(view) => {
                let list: Vec<f64> = view.values().iter().map(|&by| f64::from(by)).collect();
                let original = self.size("context_length").unwrap_or(1).max(1);
                Some(Scaling::Long { short: list.clone(), long: list, original, magnitude: 1.0 })
            }
        };
        if !scaling.is_empty() {
            keys.insert("rope_scaling".into(), Value::Object(scaling));
        }
        Ok(Turns { size: self.size("rope.dimension_count").or_else(|| self.head_size()), divisors })
    }

    /// The rows that an encoder's vector is made of.
    fn pooler(&self) -> Result<Option<Pooler>, Error> {
        let pool = match self.size("pooling_type") {
            None | Some(0) => return Ok(None),
            Some(1) => Pool::Mean,
            Some(2) => Pool::First,
            Some(3) => Pool::Last,
            Some(other) => {
                let key = self.key("pooling_type");
                return Err(
                    self.bad(format!("{key} is {other}, and should be 0 to 3: none, mean, first or last"))
                );
            }
        };
        Ok(Some(Pooler::of(pool)))
    }

    /// Refuses entries that nobody reads and that may change results, and values that would need other code.
    fn unread(&self) -> Result<(), Error> {
        let gguf = self.gguf;
        if let Some(kind) = gguf.string("general.type").filter(|kind| *kind != "model") {
            return Err(self.bad(format!("general.type is {kind:?}: it is no model")));
        }
        let decoder = self.architecture.side == "target";
        let head = self.head_size().map(Value::from);
        let expected = |end: &str| match end {
            "attention.causal" => Some(json!(decoder)),
            "attention.value_length" => head.clone(),
            "expert_count" | "expert_used_count" => Some(json!(0)),
            _ => None,
        };
        let turns = self.architecture.pairing.is_some();
        let read = |end: &str| {
            self.meaning(end).is_some()
                || HARMLESS.contains(&end)
                || end == "pooling_type" && !decoder
                || turns && TURNS.contains(&end)
        };
        let beginning = self.key("");
        let mut unread = Vec::new();
        for key in gguf.keys() {
            let Some(end) = key.strip_prefix(&beginning) else {
                unread.extend(FOREIGN.iter().any(|begin| key.starts_with(begin)).then(|| key.to_owned()));
                continue;
            };
            match expected(end) {
                Some(only) if self.value(end)?.as_ref() != Some(&only) => {
                    return Err(self.bad(format!("{key} should be {only}: nothing else is supported")));
                }
                Some(_) => {}
                None => unread.extend((!read(end)).then(|| key.to_owned())),
            }
        }
        if unread.is_empty() { Ok(()) } else { Err(self.ignored(&unread)) }
    }

    fn ignored(&self, keys: &[String]) -> Error {
        let keys = keys.join(", ");
        self.bad(format!(
            "{keys} not understood, and may change the results; update Glassformer or report it"
        ))
    }

    /// An error about `config.json` in the words of the file.
    fn named(&self, error: Error) -> Error {
        let own = |key: &str| {
            let all = self.architecture.keys.iter().chain(KEYS);
            let end = all.clone().find(|(_, to)| *to == key).map(|(from, _)| *from);
            end.map_or_else(|| key.to_owned(), |end| self.key(end))
        };
        match error {
            Error::Key { key, why } => self.bad(format!("{} {why}", own(&key))),
            Error::Unread(keys) => self.ignored(&keys.iter().map(|key| own(key)).collect::<Vec<_>>()),
            other => other,
        }
    }
}

/// Keys of angles that [`Entries::turns`] reads.
const TURNS: &[&str] = &[
    "rope.dimension_count",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
];

/// Sets what the file says of the angles of `formula`, where it has any.
fn turn(formula: &mut Formula, pairing: Pairing, turns: &Turns) {
    let sides = [&mut formula.source, &mut formula.target];
    for side in sides.into_iter().flatten() {
        if let Position::Rotary(rotary) = &mut side.stack.position {
            let scaling = turns.divisors.clone().unwrap_or_else(|| rotary.scaling.clone());
            *rotary = Rotary { layout: pairing, size: turns.size, scaling, base: rotary.base };
        }
    }
}

/// Where the tensors are, for the stack called `side`.
fn rules(side: &str) -> Vec<Rule> {
    let third = |part| How::Part { part, of: 3 };
    let layer = |ours: &str| format!("{side}.{{n}}.{ours}");
    let same = |(ours, theirs): (&str, &str)| rule(&layer(ours), &format!("blk.{{n}}.{theirs}"));
    let fused = |(part, ours): (usize, &str)| how(&layer(ours), "blk.{n}.attn_qkv.{wb}", third(part));
    let mut rules: Vec<Rule> = [
        ("attend.norm_in.{norm}", "attn_norm.{norm}"),
        ("attend.query.{wb}", "attn_q.{wb}"),
        ("attend.key.{wb}", "attn_k.{wb}"),
        ("attend.value.{wb}", "attn_v.{wb}"),
        ("attend.query_norm.{norm}", "attn_q_norm.{norm}"),
        ("attend.key_norm.{norm}", "attn_k_norm.{norm}"),
        ("attend.output.{wb}", "attn_output.{wb}"),
        ("attend.norm_out.{norm}", "attn_output_norm.{norm}"),
        ("feed.norm_in.{norm}", "ffn_norm.{norm}"),
        ("feed.gate.{wb}", "ffn_gate.{wb}"),
        ("feed.up.{wb}", "ffn_up.{wb}"),
        ("feed.down.{wb}", "ffn_down.{wb}"),
        ("feed.norm_out.{norm}", "layer_output_norm.{norm}"),
    ]
    .map(same)
    .into();
    rules.extend([(0, "attend.query.{wb}"), (1, "attend.key.{wb}"), (2, "attend.value.{wb}")].map(fused));
    rules.extend([
        rule(&format!("{side}.embed.tokens"), "token_embd.weight"),
        rule(&format!("{side}.embed.positions"), "position_embd.weight"),
        rule(&format!("{side}.embed.types"), "token_types.weight"),
        rule(&format!("{side}.embed.norm.{{norm}}"), "token_embd_norm.{norm}"),
        rule(&format!("{side}.norm.{{norm}}"), "output_norm.{norm}"),
        rule("head.weight", "output.weight"),
    ]);
    rules
}
