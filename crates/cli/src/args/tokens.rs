//! What the verbs that turn text into token ids and back understand.

use std::path::PathBuf;

use super::model::Named;
use crate::texts::Texts;

pub const TOKENIZE: &str = "\
Examples:
  glassformer tokenize --model FOLDER \"The cat sat.\"
  glassformer tokenize --model FOLDER --ids \"The cat sat.\" | glassformer detokenize --model FOLDER
  printf 'Where is it?\\tIt is here.\\n' | glassformer tokenize --model FOLDER --pairs --json
";

pub const DETOKENIZE: &str = "\
Examples:
  glassformer detokenize --model FOLDER 101 7592 102
  glassformer detokenize --model FOLDER --special --json < ids.txt
";

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Tokenize {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// Each text is a pair with a tab between: premise and hypothesis, question and context
    #[arg(long)]
    pub pairs: bool,
    /// Add no special tokens around texts
    #[arg(long)]
    pub bare: bool,
    /// Texts are in the language that the model writes, where that has a vocabulary of its own
    #[arg(long, conflicts_with = "pairs")]
    pub target: bool,
    /// Print only the ids, a line for each text
    #[arg(long, conflicts_with = "json")]
    pub ids: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Detokenize {
    #[command(flatten)]
    pub model: Named,
    /// Token ids of one text; - reads standard input, a text's ids a line. Without any, standard input is read
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// A file with the ids of a text on each line, or - for standard input; may be repeated
    #[arg(long, short, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Also spell special tokens out
    #[arg(long)]
    pub special: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}
