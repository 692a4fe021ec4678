//! The types. Every variant of the documents is a value of these; none is a piece of code.

use serde::{Deserialize, Serialize};

/// A whole Transformer: `source` alone is encoder-only, `target` alone decoder-only, both are encoder-decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formula {
    /// The encoder: reads the whole input at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Side>,
    /// The decoder: writes the output token by token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Side>,
    /// One row for each sequence, read off the last stack: what classifiers and embeddings use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<Pooler>,
    /// What is read off the last stack.
    pub head: Head,
}

/// One half of the Transformer: how rows come in, and what is done to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// How a token or a patch becomes a row.
    pub input: Input,
    /// What is done to the rows.
    pub stack: Stack,
}

impl Side {
    /// How wide the input's rows are before they enter the stack: narrower than the stack where a projection widens them.
    pub fn input_width(&self) -> usize {
        match &self.input {
            Input::Tokens(tokens) => tokens.width.unwrap_or(self.stack.width),
            Input::Patches(_) => self.stack.width,
        }
    }
}

/// How rows come in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// Token ids, looked up in a table.
    Tokens(Tokens),
    /// Squares of an image, projected.
    Patches(Patches),
}

/// Rows from token ids: `x = table[id] · scale (+ types[type])`, then positions, then `norm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// How many different ids there are.
    pub vocabulary: usize,
    /// Whose embedding table is used.
    #[serde(default)]
    pub table: Table,
    /// The input's width where it is narrower than the stack (factorised embedding, ALBERT): table, types, positions and
    /// norm have it, and a projection then widens the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Clusters of frequent and rare words, each with a table of its own (adaptive input, Transformer-XL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Clusters>,
    /// What the embedding is multiplied by.
    #[serde(default)]
    pub scale: InputScale,
    /// How many token types (segments, as in BERT) there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<usize>,
    /// A norm right after the sum of embeddings and positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// A vocabulary cut into clusters, frequent words first: ids below the first cut, below the second, and so on.
///
/// Cluster i has a table of width `width / divisorⁱ` and a projection up to the stack's width (Baevski and Auli 2018).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clusters {
    /// Where a cluster ends and the next begins, ascending; the vocabulary's end is not listed.
    pub cuts: Vec<usize>,
    /// How much narrower each cluster is than the one before.
    pub divisor: usize,
}

impl Clusters {
    /// The clusters of a vocabulary, with the widths of their tables under rows that are `width` wide.
    pub fn list(&self, vocabulary: usize, width: usize) -> Vec<Cluster> {
        let ends = self.cuts.iter().copied().chain([vocabulary]);
        let starts = [0].into_iter().chain(self.cuts.iter().copied());
        let widths = std::iter::successors(Some(width), |width| Some(width / self.divisor.max(1)));
        starts.zip(ends).zip(widths).map(|((from, to), width)| Cluster { from, to, width }).collect()
    }
}

/// One cluster of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its first id.
    pub from: usize,
    /// The first id after it.
    pub to: usize,
    /// The width of its table.
    pub width: usize,
}

/// Whose embedding table a side uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Its own.
    #[default]
    Own,
    /// The other side's: one vocabulary for both languages.
    Source,
}

/// What embeddings are multiplied by before positions are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputScale {
    /// Nothing.
    #[default]
    One,
    /// √width, as in the original Transformer.
    RootWidth,
}

/// Rows from an image cut into squares: each square of `size` × `size` × `channels` numbers is one linear projection away
/// from a row (`ViT`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patches {
    /// The side of a square, in pixels.
    pub size: usize,
    /// Numbers per pixel.
    pub channels: usize,
    /// What stands before the first square.
    #[serde(default)]
    pub lead: Lead,
    /// A norm right after the sum of projections and positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// What stands before the first patch of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// Nothing: the first row is the first square.
    #[default]
    None,
    /// A learned row that a classifier reads (`[CLS]`).
    Class,
}

/// ○: blocks of sublayers, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Numbers per row (`d_model`, hidden size).
    pub width: usize,
    /// How often the block is applied, and with whose weights.
    pub depth: Depth,
    /// How the order of the rows is told.
    pub position: Position,
    /// The sublayers of one block, in order.
    pub block: Vec<Sublayer>,
    /// Layers with another block: where windows alternate with full views, or the first layer lacks a norm (ModernBERT).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
    /// A norm after the last block (pre-norm stacks need it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<Norm>,
}

impl Stack {
    /// All blocks: the stack's, then those that other layers have.
    pub fn blocks(&self) -> impl Iterator<Item = &[Sublayer]> {
        [&self.block[..]].into_iter().chain(self.others.iter().map(|other| &other.block[..]))
    }
}

/// Layers that have a block of their own instead of the stack's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    /// Which layers, counted from 0.
    pub layers: Vec<usize>,
    /// Their block.
    pub block: Vec<Sublayer>,
}

/// How often the block is applied, and with whose weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Depth {
    /// That many blocks, each with its own weights.
    Layers(usize),
    /// One block, applied `times` times (ALBERT, Universal Transformer without halting).
    Shared {
        /// How often.
        times: usize,
    },
    /// That many layers in groups of neighbours with the same weights (ALBERT with several groups).
    Groups {
        /// Layers in all.
        layers: usize,
        /// Different sets of weights.
        groups: usize,
    },
    /// One block, applied until each row has had enough (Universal Transformer with adaptive computation time, Graves 2016).
    Adaptive {
        /// At most how often.
        max: usize,
        /// A row stops once its summed halting probability exceeds this.
        threshold: f32,
    },
}

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
    },
    /// A learned row for each position, added to the input.
    Learned {
        /// How many positions there are: the longest sequence.
        max: usize,
        /// The table's row of position 0 (BART: 2).
        #[serde(default)]
        offset: usize,
    },
    /// Queries and keys are rotated by an angle that grows with their position (`RoPE`, Su et al. 2021).
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
    },
    /// Several ways at once, each in its own place: MPNet adds learned rows and has buckets in its scores.
    Together(Vec<Position>),
}

impl Position {
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
    },
    /// Slow angles are interpolated between two wavelengths (`LLaMA` 3).
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
    /// A divisor for each angle, one list for short and one for long texts (`LongRoPE`, Phi-3).
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

/// I + f with its norms: `output(x + branch(mix(input(x))))`.
///
/// Post-norm has `output`, pre-norm `input`, a sandwich `input` and `branch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sublayer {
    /// f: what is added to the rows.
    pub mix: Mix,
    /// What f looks at.
    #[serde(default)]
    pub reads: Reads,
    /// Where norms stand.
    pub norm: NormSites,
}

/// What the mix of a sublayer looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// The rows as the sublayer before left them.
    #[default]
    Rows,
    /// The rows as they entered the block: attention and feed-forward side by side (parallel residual, GPT-NeoX).
    Block,
}

/// Where the norms of a sublayer stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormSites {
    /// Before the mix (pre-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Norm>,
    /// After the mix, before the sum (sandwich).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Norm>,
    /// After the sum (post-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Norm>,
}

/// LN: rows brought to one scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Norm {
    /// `γ ⊙ (x − μ)/√(σ² + ε) + β` (Ba et al. 2016).
    Layer {
        /// ε.
        epsilon: f32,
        /// Whether there is a β.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// `γ ⊙ x/√(mean(x²) + ε)` (Zhang and Sennrich 2019).
    Rms {
        /// ε.
        epsilon: f32,
    },
}

fn yes() -> bool {
    true
}

/// f of a sublayer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mix {
    /// Rows look at other rows.
    Attend(Attention),
    /// Each row by itself.
    Feed(FeedForward),
}

/// `MultiHead`: `concat(headᵢ) W_O`, `headᵢ = softmax(scale · Q Kᵀ + position) V`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Where keys and values come from.
    #[serde(default)]
    pub source: Source,
    /// Which way a row may look.
    pub reach: Reach,
    /// Which rows of those it really looks at.
    #[serde(default)]
    pub pattern: Pattern,
    /// How many heads, and how wide.
    pub heads: Heads,
    /// What q · k is multiplied by.
    #[serde(default)]
    pub scale: Scale,
    /// Which projections have a bias.
    #[serde(default)]
    pub bias: ProjectionBias,
    /// A norm of each query and key, head by head (QK norm, Qwen3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Other angles than the stack's rotary position has (ModernBERT's windows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<Rotary>,
}

/// Where keys and values come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The same rows as the queries: self-attention.
    #[default]
    Own,
    /// The encoder's output: cross-attention.
    Memory,
}

/// Which way a row may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// At every row.
    Both,
    /// At itself and at rows before it: the mask of document 1, ▷.
    Past,
}

/// Which rows within reach are really looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// All of them.
    #[default]
    Dense,
    /// Those at most `window` rows away (Longformer, Mistral), and global ones.
    Sliding {
        /// How far, to each side.
        window: usize,
        /// Whether some rows see and are seen by all.
        #[serde(default)]
        global: Global,
    },
    /// All of them, squeezed into `rank` rows by a learned projection (Linformer).
    LowRank {
        /// How many rows remain.
        rank: usize,
        /// The longest sequence that the projection covers.
        length: usize,
        /// Who shares a projection.
        #[serde(default)]
        sharing: Sharing,
    },
}

/// Whether some rows of a sliding pattern see and are seen by all. Which ones is said with each input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Global {
    /// None does.
    #[default]
    None,
    /// Some do, with the projections of the others.
    Shared,
    /// Some do, and look through projections of their own (Longformer).
    Separate,
}

/// Who shares Linformer's projection. It is always common to the heads of one attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Keys and values have one each.
    #[default]
    Heads,
    /// Keys and values share one.
    KeyValue,
    /// All layers of the stack share one, for keys and values.
    Layers,
}

/// How many heads, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; fewer than query heads is grouped-query attention.
    pub key: usize,
    /// Numbers per head (`d_k`). Text may leave it out: reading then fills in width / query.
    #[serde(default = "unstated")]
    pub size: usize,
}

fn unstated() -> usize {
    Heads::UNSTATED
}

/// What q · k is multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// 1/√size.
    #[default]
    RootSize,
    /// 1 (T5).
    One,
    /// This number.
    By(f32),
}

/// Which projections of an attention have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "four projections, each with a bias or without")]
pub struct ProjectionBias {
    /// `W_Q`.
    pub query: bool,
    /// `W_K`.
    pub key: bool,
    /// `W_V`.
    pub value: bool,
    /// `W_O`.
    pub output: bool,
}

impl ProjectionBias {
    /// A bias everywhere.
    pub const ALL: Self = Self { query: true, key: true, value: true, output: true };
    /// None anywhere.
    pub const NONE: Self = Self { query: false, key: false, value: false, output: false };
}

/// FFN: each row by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FeedForward {
    /// `act(x W₁ + b₁) W₂ + b₂`.
    Plain {
        /// Numbers per row in between.
        hidden: usize,
        /// The bend.
        act: Activation,
        /// Whether there are b₁ and b₂.
        #[serde(default)]
        bias: bool,
    },
    /// `(act(x W_gate) ⊙ x W_up) W_down` (GLU variants, Shazeer 2020).
    Gated {
        /// Numbers per row in between.
        hidden: usize,
        /// The gate's bend.
        act: Activation,
        /// Whether the three projections have biases.
        #[serde(default)]
        bias: bool,
    },
}

/// The bend between two projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// x Φ(x), exact.
    Gelu,
    /// x Φ(x) by tanh (`gelu_new`, GPT-2).
    GeluTanh,
    /// x σ(x), also swish.
    Silu,
    /// tanh x.
    Tanh,
    /// σ(x).
    Sigmoid,
}

/// One row for each sequence: `norm(act(pool(x) W + b))`, or just the pooled row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// Which rows are read.
    pub pool: Pool,
    /// What is done to the pooled row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<Dense>,
}

/// One projection with its bend: `norm(act(x W + b))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// The bend, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Activation>,
    /// Whether there is a b.
    #[serde(default = "yes")]
    pub bias: bool,
    /// A norm after the bend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// What is read off the last stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Head {
    /// The rows themselves, and the pooled ones.
    Rows,
    /// A score for every word of the vocabulary: `W_o` of document 1.
    Words {
        /// Whether `W_o` is the embedding table of the last stack's input.
        #[serde(default)]
        tied: bool,
        /// Whether there is a bias.
        #[serde(default)]
        bias: bool,
        /// What is done to a row first (BERT's masked words); it ends with the table's width.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dense: Option<Dense>,
        /// What rows are multiplied by first (T5 with a tied table: 1/√width).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<f32>,
    },
    /// Logarithms of probabilities of all words: those of frequent words and of clusters of rare ones first, then of the words
    /// within each cluster (adaptive softmax, Grave et al. 2016).
    Adaptive {
        /// The clusters.
        clusters: Clusters,
        /// Whether clusters use the input's tables.
        #[serde(default)]
        tied: bool,
    },
    /// A score for every class, one row a sequence, read off the pooler.
    Classes {
        /// How many classes.
        count: usize,
        /// Whether there is a bias.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A score for every tag, one row a token.
    Tags {
        /// How many tags.
        count: usize,
        /// What is done to a row first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dense: Option<Dense>,
    },
    /// A score for being the first and one for being the last token of an answer.
    Spans,
}

/// Which rows of a sequence a pooler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// Their mean.
    Mean,
}
