//! How tokens are chosen: what every verb that writes understands. A flag that is not given leaves what the model's files say.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use glassformer::engine::{Draft, EarlyStopping};
use glassformer::{Decoding, Sampling};

use crate::console::Console;
use crate::failure::Failure;
use crate::ids;

#[derive(clap::Args, Default)]
#[command(next_help_heading = "How tokens are chosen (what is not given is as the model's files say)")]
pub struct Decode {
    /// At most how many tokens are written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub max_new_tokens: Option<u32>,
    /// At least how many tokens are written
    #[arg(long, value_name = "N")]
    pub min_new_tokens: Option<u32>,
    /// Beams of a beam search; 1 is none
    #[arg(long, value_name = "N")]
    pub beams: Option<usize>,
    /// Above 0, longer beams are better; below, shorter ones
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub length_penalty: Option<f64>,
    /// When a beam search is over: when nothing better is likely (false), as soon as enough are finished (true), or when
    /// nothing better is possible (never)
    #[arg(long, value_name = "WHEN", value_enum)]
    pub early_stopping: Option<Early>,
    /// How many results: the best beams, or independent samples
    #[arg(long, value_name = "N")]
    pub returns: Option<usize>,
    /// Groups of beams that are pushed away from one another
    #[arg(long, value_name = "N")]
    pub groups: Option<usize>,
    /// How strongly
    #[arg(long, value_name = "X")]
    pub diversity_penalty: Option<f64>,
    /// Draw tokens (true), or take the most likely ones (false); any flag of drawing means true
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub sample: Option<bool>,
    /// Below 1, likely tokens become likelier; above, less so
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Draw from the N likeliest; 0 is all
    #[arg(long, value_name = "N")]
    pub top_k: Option<usize>,
    /// Draw from the likeliest that together have this probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Draw from those with at least this share of the likeliest one's probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f64>,
    /// Draw from the most typical that together have this probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub typical_p: Option<f64>,
    /// What is drawn: the same seed draws the same text. Without it, texts are drawn anew each time, and ids as with seed 0
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Above 1, the text keeps closer to its prompt: scores are led away from those without it (classifier-free guidance)
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub guidance: Option<f64>,
    /// Above 1, tokens that have occurred are less likely
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f64>,
    /// What a token loses once it was written
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,
    /// What a token loses for each time it was written
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,
    /// No run of so many tokens occurs twice; 0 is no such rule
    #[arg(long, value_name = "N")]
    pub no_repeat_ngram: Option<usize>,
    /// A run of token ids that never occurs; may be repeated
    #[arg(long, value_name = "IDS")]
    pub bad_words: Vec<String>,
    /// Token ids that are never written
    #[arg(long, value_name = "IDS")]
    pub suppress: Option<String>,
    /// The id that is written first
    #[arg(long, value_name = "ID")]
    pub forced_first: Option<u32>,
    /// The id that is written last where the text is as long as it may be
    #[arg(long, value_name = "ID")]
    pub forced_last: Option<u32>,
    /// Guess the next tokens and check several in one step, with the same results: from what stood before (lookup), by a smaller model of
    /// the same tokens, or not at all (none, if not given)
    #[arg(long, value_name = "lookup|none|MODEL", value_parser = drafts)]
    pub draft: Option<Drafts>,
}

/// Where guesses at the next tokens come from.
#[derive(Clone)]
pub enum Drafts {
    None,
    LookUp,
    Model(PathBuf),
}

#[expect(clippy::unnecessary_wraps, reason = "what clap calls")]
pub fn drafts(given: &str) -> Result<Drafts, Infallible> {
    Ok(match given {
        "none" => Drafts::None,
        "lookup" => Drafts::LookUp,
        model => Drafts::Model(model.into()),
    })
}

impl Drafts {
    /// What the engine is told.
    pub fn draft(&self) -> Draft {
        match self {
            Self::None => Draft::Never,
            Self::LookUp => Draft::LookUp,
            Self::Model(_) => Draft::Model,
        }
    }

    /// The model that drafts, where one does.
    pub fn model(&self) -> Option<&Path> {
        match self {
            Self::None | Self::LookUp => None,
            Self::Model(path) => Some(path),
        }
    }
}

/// A seed that nobody knows before: the standard library's maps have one of the system's. Short enough to be typed.
fn new_seed() -> u64 {
    u64::from(RandomState::new().build_hasher().finish() as u32)
}

/// The reference's three ways.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Early {
    False,
    True,
    Never,
}

impl Decode {
    /// Puts what was typed over `decoding`.
    pub fn apply(&self, decoding: &mut Decoding) -> Result<(), Failure> {
        let put = |to: &mut f64, given: Option<f64>| *to = given.unwrap_or(*to);
        let set = |to: &mut usize, given: Option<usize>| *to = given.unwrap_or(*to);
        if let Some(most) = self.max_new_tokens {
            decoding.max_new_tokens = Some(most as usize);
        }
        if let Some(least) = self.min_new_tokens {
            decoding.min_new_tokens = Some(least as usize);
        }
        set(&mut decoding.beams, self.beams);
        set(&mut decoding.returns, self.returns);
        set(&mut decoding.groups, self.groups);
        set(&mut decoding.no_repeat_ngram, self.no_repeat_ngram);
        put(&mut decoding.length_penalty, self.length_penalty);
        put(&mut decoding.diversity_penalty, self.diversity_penalty);
        put(&mut decoding.guidance, self.guidance);
        put(&mut decoding.repetition_penalty, self.repetition_penalty);
        put(&mut decoding.presence_penalty, self.presence_penalty);
        put(&mut decoding.frequency_penalty, self.frequency_penalty);
        decoding.early_stopping = match self.early_stopping {
            None => decoding.early_stopping,
            Some(Early::False) => EarlyStopping::Likely,
            Some(Early::True) => EarlyStopping::Full,
            Some(Early::Never) => EarlyStopping::Never,
        };
        decoding.sampling = self.sampling(decoding.sampling);
        if let Some(text) = &self.suppress {
            decoding.suppress = ids::parse("--suppress", text)?;
        }
        for run in &self.bad_words {
            decoding.bad_words.push(ids::parse("--bad-words", run)?);
        }
        if let Some(last) = self.forced_last {
            decoding.forced_last = vec![last];
        }
        decoding.forced_first = self.forced_first.or(decoding.forced_first);
        decoding.draft = self.draft.as_ref().map_or(decoding.draft, Drafts::draft);
        Ok(())
    }

    /// The model that drafts, where one does.
    pub fn draft_model(&self) -> Option<&Path> {
        self.draft.as_ref().and_then(Drafts::model)
    }

    /// The same, with a new seed where tokens are drawn and no seed was given, which is told to who asks for details.
    pub fn apply_anew(&self, decoding: &mut Decoding, console: &Console) -> Result<(), Failure> {
        self.apply(decoding)?;
        if let Some(sampling) = &mut decoding.sampling {
            sampling.seed = self.seed.unwrap_or_else(new_seed);
            console.detail(|| format!("drawing; --seed {} draws the same again", sampling.seed));
        }
        Ok(())
    }

    /// The same for a verb that gives one result for each text.
    pub fn apply_for_one(&self, decoding: &mut Decoding, console: &Console) -> Result<(), Failure> {
        match self.returns {
            None | Some(1) => self.apply_anew(decoding, console),
            Some(count) => Err(Failure::new(
                format!("--returns {count}: this verb gives one result for each text"),
                "`glassformer generate` gives several; leave --returns out",
            )),
        }
    }

    fn sampling(&self, before: Option<Sampling>) -> Option<Sampling> {
        let numbers = [self.temperature, self.top_p, self.min_p, self.typical_p];
        let asked = numbers.iter().any(Option::is_some) || self.top_k.is_some() || self.seed.is_some();
        if !self.sample.unwrap_or(asked || before.is_some()) {
            return None;
        }
        let before = before.unwrap_or_default();
        Some(Sampling {
            temperature: self.temperature.unwrap_or(before.temperature),
            top_k: self.top_k.unwrap_or(before.top_k),
            top_p: self.top_p.unwrap_or(before.top_p),
            min_p: self.min_p.unwrap_or(before.min_p),
            typical_p: self.typical_p.unwrap_or(before.typical_p),
            seed: self.seed.unwrap_or(before.seed),
            ..before
        })
    }
}
