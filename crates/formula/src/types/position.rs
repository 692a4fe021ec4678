//! How the order of the rows is told.

use serde::{Deserialize, Serialize};

use super::defaults::yes;

/// How the order of the rows is told. It enters in exactly three places: added to the input, by rotating queries and keys,
/// or added to the scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Position {
    /// Not at all.
    None,
    /// Sines and cosines added to the input (Vaswani et al. 2017).
    Sinusoidal {
        /// The slowest wavelength over 2π: 10 000 in the paper.
        #[serde(default = "ten_thousand")]
        base: f64,
        /// Where sines and cosines stand.
        #[serde(default)]
        layout: Pairing,
        /// How the wavelengths are spread.
        #[serde(default)]
        spread: Spread,
        /// The position of the first row (M2M100: 2).
        #[serde(default)]
        offset: usize,
        /// When they are added.
        #[serde(default)]
        when: When,
        /// Which tokens are counted; a row without a position gets zeros.
        #[serde(default, skip_serializing_if = "Counting::is_every")]
        counting: Counting,
    },
    /// A learned row for each position, added to the input.
    Learned {
        /// How many positions there are: the longest sequence.
        max: usize,
        /// The table's row of position 0 (BART: 2).
        #[serde(default)]
        offset: usize,
        /// Which tokens are counted; a row without a position gets the table's row before `offset`.
        #[serde(default, skip_serializing_if = "Counting::is_every")]
        counting: Counting,
    },
    /// Queries and keys are rotated by an angle that grows with their position (RoPE, Su et al. 2021).
    Rotary(Rotary),
    /// Scores lose a head-dependent slope times the distance (Press et al. 2021).
    Alibi,
    /// Scores gain a learned number that depends on the head and on the distance's bucket (T5).
    Buckets {
        /// How many buckets.
        count: usize,
        /// Distances from here on share the last bucket.
        max_distance: usize,
    },
    /// Relative sinusoids in the scores, with the biases u and v, and a memory of past segments (Dai et al. 2019).
    TransformerXl {
        /// How many rows of earlier segments are remembered.
        memory: usize,
        /// Whether u and v are each layer's own.
        #[serde(default)]
        biases: Biases,
        /// Distances from here on count as this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clamp: Option<usize>,
        /// What is remembered before the first segment.
        #[serde(default)]
        start: Start,
    },
    /// Several ways at once, each in its own place: MPNet adds learned rows and has buckets in its scores.
    Together(Vec<Position>),
}

impl Position {
    /// How many rows of zeros are remembered before the first segment.
    pub fn zeros(&self) -> usize {
        let zeros = |part: &Self| match part {
            Self::TransformerXl { memory, start: Start::Zeros, .. } => *memory,
            Self::TransformerXl { start: Start::Empty, .. }
            | Self::None
            | Self::Sinusoidal { .. }
            | Self::Learned { .. }
            | Self::Rotary(_)
            | Self::Alibi
            | Self::Buckets { .. }
            | Self::Together(_) => 0,
        };
        self.parts().iter().map(zeros).sum()
    }

    /// How many positions there are, where they are counted: a learned table has a row for each.
    pub fn count(&self) -> Option<usize> {
        let counted = |part: &Self| match part {
            Self::Learned { max, .. } => Some(*max),
            Self::None
            | Self::Sinusoidal { .. }
            | Self::Rotary(_)
            | Self::Alibi
            | Self::Buckets { .. }
            | Self::TransformerXl { .. }
            | Self::Together(_) => None,
        };
        self.parts().iter().filter_map(counted).min()
    }

    /// The ways that positions are told: itself, or those that it puts together.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Together(parts) => parts,
            Self::None
            | Self::Sinusoidal { .. }
            | Self::Learned { .. }
            | Self::Rotary(_)
            | Self::Alibi
            | Self::Buckets { .. }
            | Self::TransformerXl { .. } => std::slice::from_ref(self),
        }
    }
}

/// Which tokens of a sequence its positions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Every one: row i is at position i.
    #[default]
    Every,
    /// All but those with this id, padding, which have no position (RoBERTa, M2M100).
    But(u32),
}

impl Counting {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
    fn is_every(&self) -> bool {
        *self == Self::Every
    }
}

fn ten_thousand() -> f64 {
    10_000.0
}

/// Where the two numbers of a sine–cosine pair stand in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// Next to each other: 2i and 2i + 1.
    #[default]
    Interleaved,
    /// Half a row apart: i and i + width/2.
    Halves,
}

/// How the wavelengths of sinusoidal positions are spread between 2π and 2π · base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Pair i has base^(2i/width): the slowest one stops short of the base (Vaswani et al. 2017).
    #[default]
    Open,
    /// Pair i has base^(i/(pairs − 1)): the slowest one reaches the base (fairseq, M2M100).
    Closed,
}

/// When sinusoidal positions are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Once, to the input.
    #[default]
    Once,
    /// Before every application of the block, together with the sinusoid of the step (Universal Transformer).
    EveryStep,
}

/// Whether Transformer-XL's u and v belong to a layer or to the whole stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Biases {
    /// Every layer has its own (`untie_r`).
    #[default]
    Layer,
    /// All layers share one pair.
    Stack,
}

/// What Transformer-XL remembers before the first segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Nothing: the first rows see themselves alone (the paper's program).
    #[default]
    Empty,
    /// As many rows of zeros as are ever remembered, and they are looked at like any others (Hugging Face).
    Zeros,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// The slowest wavelength over 2π (`rope_theta`).
    #[serde(default = "ten_thousand")]
    pub base: f64,
    /// How many numbers of each head are rotated, if not all of them (partial rotary).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// Which numbers form a pair. Checkpoints in Hugging Face layout: halves.
    #[serde(default = "halves")]
    pub layout: Pairing,
    /// How the angles are changed for texts longer than those trained on.
    #[serde(default)]
    pub scaling: Scaling,
}

fn halves() -> Pairing {
    Pairing::Halves
}

/// How rotary angles are changed for long texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Scaling {
    /// Not at all.
    #[default]
    None,
    /// Every position divided by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// The base grows with the text beyond `original` (dynamic NTK).
    Dynamic {
        /// How strongly.
        factor: f64,
        /// The length trained on.
        original: usize,
    },
    /// Slow angles are interpolated, fast ones kept, and scores sharpened (Peng et al. 2023).
    Yarn {
        /// The divisor of slow angles.
        factor: f64,
        /// The length trained on.
        original: usize,
        /// Angles with more turns than this over `original` are kept.
        fast: f64,
        /// Angles with fewer turns than this are fully interpolated.
        slow: f64,
        /// What cosines and sines are multiplied by; without it, 0.1 ln(factor) + 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        magnitude: Option<f64>,
        /// Whether the pairs where the change begins and ends are whole numbers.
        #[serde(default = "yes")]
        whole: bool,
    },
    /// Slow angles are interpolated between two wavelengths (LLaMA 3).
    Llama3 {
        /// The divisor of slow angles.
        factor: f64,
        /// Wavelengths above `original / low` are divided.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// The length trained on.
        original: usize,
    },
    /// A divisor for each angle, one list for short and one for long texts (LongRoPE, Phi-3).
    Long {
        /// Divisors up to `original` positions.
        short: Vec<f64>,
        /// Divisors beyond.
        long: Vec<f64>,
        /// The length trained on.
        original: usize,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
}
