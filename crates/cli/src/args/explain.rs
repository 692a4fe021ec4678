//! What `explain` understands.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;

use super::decode::Decode;

pub const EXPLAIN: &str = "\
Examples:
  glassformer explain \"The cat sat\"                       one screen
  glassformer explain --layer 1 --head 2 \"The cat sat\"    all numbers of a head
  glassformer explain --step 1 \"The cat sat\"              how a word is written
  glassformer explain --model FOLDER --max-new-tokens 3 \"Once upon a time\"
  glassformer explain --model FOLDER \"The cat [MASK] on the mat.\"
  glassformer explain --model FOLDER \"Where did it sit?\" \"It sat on the mat.\"
  glassformer explain --trace out \"The cat sat\"            a run as files, for Python and for pages
  glassformer explain --lang zh          a translation worked out by hand
  glassformer explain --errata --json    what is wrong in it
";

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Explain {
    /// What the model reads; without it, a worked example of “The cat sat” is replayed, and every number that it printed is checked
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// The second text of a pair: the context of a question, a hypothesis
    #[arg(value_name = "SECOND")]
    pub second: Option<String>,
    /// The model: a folder, a .gguf file, or a name of a hub such as org/name; if not given, en-zh, the translator that is part of
    /// this program
    #[arg(long, value_name = "MODEL", requires = "text")]
    pub model: Option<PathBuf>,
    /// Every number of this layer, counted from 1
    #[arg(long, value_name = "N", requires = "text")]
    pub layer: Option<NonZeroUsize>,
    /// Every number of this head, in the layers that are shown
    #[arg(long, value_name = "N", requires = "text")]
    pub head: Option<NonZeroUsize>,
    /// How this word was written: its row in the layers that are shown, and what it was chosen from
    #[arg(long, value_name = "N", requires = "text")]
    pub step: Option<NonZeroUsize>,
    /// Every number of everything. A row that is wider than the screen ends in “…”; --json has it whole
    #[arg(long, requires = "text", conflicts_with_all = ["layer", "head", "step"])]
    pub full: bool,
    /// Write the run to this folder: trace.json says what happened, trace.safetensors has the numbers. Files of an earlier trace are
    /// replaced when all is written
    #[arg(long, value_name = "DIR", requires = "text", conflicts_with_all = ["layer", "head", "step", "full", "json"])]
    pub trace: Option<PathBuf>,
    /// How much a trace holds: how words were chosen; all values but scores of a large vocabulary; all values
    #[arg(long, value_enum, default_value_t = Level::Steps, requires = "trace")]
    pub level: Level,
    /// The language; auto follows `LC_ALL`, `LC_MESSAGES` and `LANG`
    #[arg(long, value_enum)]
    pub lang: Option<Language>,
    /// Only the numbers that the worked example gets wrong
    #[arg(long, conflicts_with = "text")]
    pub errata: bool,
    /// Print it all at once; otherwise, on a terminal, what is longer than that goes to `PAGER`, or to less
    #[arg(long)]
    pub no_pager: bool,
    /// Results as JSON, in both languages: summary, steps, tensors, claims and verdicts
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub decode: Decode,
}

/// How much a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Summary,
    Steps,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Auto,
    En,
    Zh,
}
