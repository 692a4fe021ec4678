//! What can be typed.

mod bench;
mod decode;
mod explain;
mod form;
mod hub;
mod model;
mod program;
mod quantize;
mod serve;
mod show;
mod tasks;
mod tokens;
mod train;
mod write;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use glassformer::cpu::lowp::Dot;
use glassformer::formula::NAMES;
use glassformer::formula::named::Sizes;

use crate::texts::Texts;

pub use bench::{Bench, Workload};
pub use decode::Decode;
pub use explain::{Ablate, Explain, Gradients, Language, Level, With};
pub use form::Formed;
pub use hub::{List, Pull, Remove};
pub use model::{Named, Subject};
pub use program::{Completions, Config, Man};
pub use quantize::{Quantize, To};
pub use serve::{Log, Serve};
pub use show::{Show, Verify};
pub use tasks::{Answer, Classify, Embed, Fill, Merge, Tag};
pub use tokens::{Detokenize, Tokenize};
pub use train::{Evaluate, Train};
pub use write::{Chat, Score, Split, Summarize, Translate};

const EXAMPLES: &str = "\
Examples:
  glassformer translate \"The cat sat\"              English into Chinese
  glassformer translate --model FOLDER \"今天天气很好。\"
  glassformer chat org/name                        fetch a model, and talk
  glassformer embed --model FOLDER --file t.txt    vectors of texts
  glassformer show FOLDER                          what a model is and can do
  glassformer explain \"The cat sat\"                how that came about
  glassformer formula --name original              a Transformer as one formula
";

const FORMULA: &str = "\
Examples:
  glassformer formula --name bert --definitions
  glassformer formula --name llama --notation latex
  glassformer formula --name original --notation toml > mine.toml
  glassformer formula --name bert-classifier --width 64 --layers 2 --classes 3 --notation toml
  glassformer formula mine.toml
";

const FORWARD: &str = "\
Examples:
  glassformer forward FOLDER --ids \"101 7592 102\" --out F.safetensors
  glassformer forward FOLDER --ids \"5 17\" --target-ids \"2 14\" --ids \"9\" --target-ids \"2\" --out F.safetensors
  glassformer forward FOLDER --text \"The cat sat.\" --trace --out F.safetensors      needs a tokenizer
";

const GENERATE: &str = "\
Examples:
  glassformer generate --model FOLDER \"Once upon a time\"
  glassformer generate --model FOLDER --temperature 0.8 --seed 7 --returns 3 --json < prompts.txt
  glassformer generate --model FOLDER --regex \"(yes|no)\" \"Is the sky blue?\"
  glassformer generate --model FOLDER --ids \"5 17 9\" --max-new-tokens 40 --json     needs no tokenizer
";

/// A Transformer engine that runs, trains and shows every kind of Transformer from one description.
#[derive(Parser)]
#[command(name = "glassformer", version, before_help = EXAMPLES, subcommand_required = true)]
pub struct Args {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub verb: Verb,
}

/// The most threads that can be asked for.
pub const MOST_THREADS: usize = 1024;

/// What every verb understands. What is not given is as [`crate::settings`] say.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Globals {
    /// How many threads compute; all cores if not given
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS as i64))]
    pub threads: Option<u16>,
    /// What computes; auto: the fastest device that can
    #[arg(long, global = true, value_enum)]
    pub device: Option<Device>,
    /// The precision of weights and products; stored: as few bits as the file has; auto: stored for quantised models and for
    /// large GGUF files that write text, else f32
    #[arg(long, global = true, value_enum)]
    pub dtype: Option<Dtype>,
    /// The instructions to compute with; the best of this machine if not given
    #[arg(long, global = true, value_name = "SET", value_parser = instructions())]
    pub isa: Option<Dot>,
    /// Whether output is coloured: auto means on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_enum)]
    pub color: Option<Color>,
    /// Say nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Words for instructions, of which this machine has some.
fn instructions() -> impl TypedValueParser<Value = Dot> {
    PossibleValuesParser::new(Dot::ALL.map(Dot::word)).try_map(|word| {
        let known = Dot::available();
        let list = || known.iter().map(|dot| dot.word()).collect::<Vec<_>>().join(", ");
        known
            .iter()
            .copied()
            .find(|dot| dot.word() == word)
            .ok_or_else(|| format!("this machine does not have them; it has {}", list()))
    })
}

/// What weights are held and multiplied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    Auto,
    F32,
    Bf16,
    Int8,
    Int4,
    Stored,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    Auto,
    Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
pub enum Verb {
    /// Translate texts
    #[command(before_help = write::TRANSLATE)]
    Translate(Translate),
    /// Continue a text, or write what an encoder-decoder makes of it
    #[command(before_help = GENERATE)]
    Generate(Box<Generate>),
    /// Talk with a model
    #[command(before_help = write::CHAT)]
    Chat(Chat),
    /// Summarise texts
    #[command(before_help = write::SUMMARIZE)]
    Summarize(Summarize),
    /// Find the answers to questions in a text
    #[command(before_help = tasks::ANSWER)]
    Answer(Answer),
    /// Find the class of texts, or of pairs of texts
    #[command(before_help = tasks::CLASSIFY)]
    Classify(Classify),
    /// Find names and other entities in texts
    #[command(before_help = tasks::TAG)]
    Tag(Tag),
    /// Find words for the blanks of texts
    #[command(before_help = tasks::FILL)]
    Fill(Fill),
    /// Turn texts into vectors
    #[command(before_help = tasks::EMBED)]
    Embed(Embed),
    /// Say how likely texts are: perplexity, and each token's probability
    #[command(before_help = write::SCORE)]
    Score(Score),
    /// Show the tokens of texts: ids, pieces, and where they lie
    #[command(before_help = tokens::TOKENIZE)]
    Tokenize(Tokenize),
    /// Turn token ids into text
    #[command(before_help = tokens::DETOKENIZE)]
    Detokenize(Detokenize),
    /// Train a model, from a formula or from another model
    #[command(before_help = train::TRAIN)]
    Train(Train),
    /// Say how good a model is on data with right answers: BLEU, chrF, accuracy, F1, exact match, perplexity
    #[command(before_help = train::EVALUATE)]
    Evaluate(Evaluate),
    /// Print a Transformer as a formula
    #[command(before_help = FORMULA)]
    Formula(Formula),
    /// Print a model's card: formula, parameters, tokenizer, memory, and which tasks it can do
    #[command(before_help = show::SHOW)]
    Show(Show),
    /// Run token ids through a model and write the resulting tensors to a file
    #[command(before_help = FORWARD)]
    Forward(Forward),
    /// Compute a trace again, step by step, or compare a run with saved tensors, and name the first that differs
    #[command(before_help = show::VERIFY)]
    Verify(Verify),
    /// Measure how fast a model runs here, and how near that is to what the machine can do
    #[command(before_help = bench::BENCH)]
    Bench(Bench),
    /// Write a model again in few bits, and say how far it is from what it was
    #[command(before_help = quantize::QUANTIZE)]
    Quantize(Quantize),
    /// Serve models over HTTP, to programs that people already have
    #[command(before_help = serve::SERVE)]
    Serve(Serve),
    /// Fetch a model from a hub, or bring it up to date, and say where it is
    #[command(before_help = hub::PULL)]
    Pull(Pull),
    /// List the models that were fetched
    #[command(before_help = hub::LIST)]
    List(List),
    /// Delete a model that was fetched
    #[command(before_help = hub::REMOVE)]
    Remove(Remove),
    /// Say how this program is set up: every setting, and whether a flag, the environment or a file said so
    #[command(before_help = program::CONFIG)]
    Config(Config),
    /// Write what lets a shell complete commands
    #[command(before_help = program::COMPLETIONS)]
    Completions(Completions),
    /// Write man pages
    #[command(hide = true)]
    Man(Man),
    /// Show how a model comes to its answer, down to every number; without a text, a worked example by hand is replayed
    #[command(before_help = explain::EXPLAIN)]
    Explain(Explain),
}

#[derive(clap::Args)]
pub struct Formula {
    /// A formula in TOML or JSON, a model's folder, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "name")]
    pub file: Option<PathBuf>,
    /// A well-known formula instead
    #[arg(long, conflicts_with = "file", value_parser = PossibleValuesParser::new(NAMES))]
    pub name: Option<String>,
    /// Numbers per row of the named formula, in place of its base size
    #[arg(long, value_name = "N", requires = "name")]
    pub width: Option<usize>,
    /// How many layers each of its stacks has
    #[arg(long, value_name = "N", requires = "name")]
    pub layers: Option<usize>,
    /// How many heads attention has; they divide the width
    #[arg(long, value_name = "N", requires = "name")]
    pub heads: Option<usize>,
    /// Numbers per row inside its feed-forward layers; in proportion to the width if not given
    #[arg(long, value_name = "N", requires = "name")]
    pub hidden: Option<usize>,
    /// How many tokens it knows
    #[arg(long, value_name = "N", requires = "name")]
    pub vocabulary: Option<usize>,
    /// The longest text, where it has an end
    #[arg(long, value_name = "N", requires = "name")]
    pub length: Option<usize>,
    /// How many classes or tags it tells apart, where it does
    #[arg(long, value_name = "N", requires = "name")]
    pub classes: Option<usize>,
    /// How it is written; toml and json can be changed and read back
    #[arg(long, value_enum, default_value_t = Notation::Unicode)]
    pub notation: Notation,
    /// Also say what each symbol stands for
    #[arg(long)]
    pub definitions: bool,
}

impl Formula {
    /// The sizes of a named formula that were given.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            width: self.width,
            heads: self.heads,
            hidden: self.hidden,
            layers: self.layers,
            vocabulary: self.vocabulary,
            length: self.length,
            classes: self.classes,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Notation {
    Unicode,
    Latex,
    Mathml,
    Toml,
    Json,
}

#[derive(clap::Args)]
pub struct Forward {
    #[command(flatten)]
    pub model: Subject,
    /// Token ids of a sequence (of its source, where there are two stacks), or - for standard input; once for each sequence
    #[arg(long, value_name = "IDS", required_unless_present = "text")]
    pub ids: Vec<String>,
    /// The text of a sequence, which the model's tokenizer turns into ids; once for each sequence
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "types", "global"])]
    pub text: Vec<String>,
    /// The second text of a pair: a context, a hypothesis; the i-th use belongs to the i-th --text
    #[arg(long, value_name = "TEXT", requires = "text")]
    pub second: Vec<String>,
    /// The text of a sequence's target; the i-th use belongs to the i-th --text. Without it, the target is the start token
    #[arg(long, value_name = "TEXT", requires = "text", conflicts_with = "target_ids")]
    pub target_text: Vec<String>,
    /// Token ids of its target; the i-th use belongs to the i-th sequence
    #[arg(long, value_name = "IDS")]
    pub target_ids: Vec<String>,
    /// Token types of its source, one for each id
    #[arg(long, value_name = "TYPES")]
    pub types: Vec<String>,
    /// Positions of its source that see and are seen by all
    #[arg(long, value_name = "POSITIONS")]
    pub global: Vec<String>,
    /// The file to write: i.hidden, i.source and i.logits of each sequence i
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Also write every value on the way, by its name in the graph; sequences then run one by one
    #[arg(long)]
    pub trace: bool,
}

#[derive(clap::Args)]
pub struct Generate {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// Token ids, or - for standard input: the source of an encoder-decoder, the prompt of a decoder
    #[arg(long, value_name = "IDS", conflicts_with_all = ["texts", "file"])]
    pub ids: Option<String>,
    /// The source's ids; --ids is then what the target begins with, after --start
    #[arg(long, value_name = "IDS", conflicts_with_all = ["texts", "file"])]
    pub source_ids: Option<String>,
    /// The id that the target begins with, where the model's files do not say it
    #[arg(long, value_name = "ID")]
    pub start: Option<u32>,
    /// The id that ends a text, where the model's files do not say it
    #[arg(long, value_name = "ID")]
    pub end: Option<u32>,
    /// What the text of an encoder-decoder begins with
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "source_ids"])]
    pub prefix: Option<String>,
    /// A text that ends the text; may be repeated
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "source_ids"])]
    pub stop: Vec<String>,
    /// A prompt of what is not wanted, from which --guidance leads away; with --ids, its token ids
    #[arg(long, value_name = "TEXT")]
    pub negative: Option<String>,
    /// Leave out the end of sources that are too long, and the beginning of prompts, instead of refusing them
    #[arg(long, conflicts_with_all = ["ids", "source_ids"])]
    pub truncate: bool,
    #[command(flatten)]
    pub decode: Decode,
    #[command(flatten)]
    pub form: Formed,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// With the logarithm of each token's probability
    #[arg(long, requires = "json")]
    pub logprobs: bool,
}
