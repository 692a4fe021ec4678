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
  glassformer explain --open \"The cat sat\"                in a browser
  glassformer explain --html FILE \"The cat sat\"           as one page
  glassformer explain --trace out \"The cat sat\"           a run as files
  glassformer explain --lens \"The cat sat\"                layer by layer
  glassformer explain --attribute --contrast 狗 \"The cat sat\"    why 猫, not 狗
  glassformer explain --ablate heads \"The cat sat\"        without each head
  glassformer explain --edit FILE \"The cat sat\"           with other values
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
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Every number of this layer, counted from 1
    #[arg(long, value_name = "N", requires = "text")]
    pub layer: Option<NonZeroUsize>,
    /// Every number of this head, in the layers that are shown
    #[arg(long, value_name = "N", requires = "text")]
    pub head: Option<NonZeroUsize>,
    /// How this word was written: its row in the layers that are shown, and what it was chosen from. Of a model that does not write,
    /// the blank or the token that is asked about
    #[arg(long, value_name = "N", requires = "text")]
    pub step: Option<NonZeroUsize>,
    /// Every number of everything. A row that is wider than the screen ends in “…”; --json has it whole
    #[arg(long, requires = "text", conflicts_with_all = ["layer", "head", "step"])]
    pub full: bool,
    /// Write the run to this folder: trace.json says what happened, trace.safetensors has the numbers. Files of an earlier trace are
    /// replaced when all is written
    #[arg(long, value_name = "DIR", requires = "text", conflicts_with_all = ["layer", "head", "step", "full", "json", "lens", "attribute", "heads", "ablate", "gradients", "edit"])]
    pub trace: Option<PathBuf>,
    /// Write the run to this file as a page, with everything inside it: it opens in any browser and sends nothing anywhere
    #[arg(long, value_name = "FILE", requires = "text", conflicts_with_all = ["trace", "layer", "head", "step", "full", "json", "lens", "attribute", "heads", "ablate", "gradients", "edit"])]
    pub html: Option<PathBuf>,
    /// Show the run in a browser: serves the page on this machine until Ctrl-C
    #[arg(long, conflicts_with_all = ["trace", "html", "layer", "head", "step", "full", "json", "lens", "attribute", "heads", "ablate", "gradients", "edit", "errata", "level"])]
    pub open: bool,
    /// How much a trace or a page holds: how words were chosen; all values but scores of a large vocabulary; all values
    #[arg(long, value_enum, default_value_t = Level::Steps, requires = "text", conflicts_with_all = ["layer", "head", "step", "full", "json", "lens", "attribute", "heads", "ablate", "gradients", "edit"])]
    pub level: Level,
    /// What the model would say if it stopped after each sublayer (the logit lens)
    #[arg(long, requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub lens: bool,
    /// Which heads, feed-forwards and embeddings wrote the score of what was chosen, or of TOKEN (direct logit attribution)
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, require_equals = true, default_missing_value = "", requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub attribute: Option<String>,
    /// Why not this token, or this class: its score is subtracted in all that is asked
    #[arg(long, value_name = "TOKEN", requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub contrast: Option<String>,
    /// What each head looks at: entropy, the token before, the first one, induction, alignment
    #[arg(long, requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub heads: bool,
    /// What becomes of the score without each of these, in turn
    #[arg(long, value_enum, value_name = "WHAT", requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub ablate: Option<Ablate>,
    /// What is put in the place of what is taken away
    #[arg(long, value_enum, value_name = "WHAT", default_value = "zero", requires = "ablate", help_heading = WHY)]
    pub with: With,
    /// Which tokens of the input the score hangs on: the gradient times the input, or integrated gradients
    #[arg(long, value_enum, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = "input", requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub gradients: Option<Gradients>,
    /// What the model would say with other activations: heads taken away, values scaled or patched, attention cut, as a JSON file
    /// says (docs/asking-why.md); “-” reads standard input. Other questions are then about the edited run
    #[arg(long, value_name = "FILE", requires = "text", conflicts_with_all = NUMBERS, help_heading = WHY)]
    pub edit: Option<PathBuf>,
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

/// What shows numbers, not reasons.
const NUMBERS: [&str; 3] = ["layer", "head", "full"];
const WHY: &str = "Asking why";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ablate {
    /// Every head of every attention
    Heads,
    /// What every sublayer adds
    Sublayers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum With {
    /// Zeros
    Zero,
    /// Its mean over the rows of this text
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gradients {
    /// The gradient times the input
    Input,
    /// Integrated gradients, from the average token, in 64 to 256 steps
    Integrated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Auto,
    En,
    Zh,
}
