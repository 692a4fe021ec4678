//! What `quantize` understands.

use std::path::PathBuf;

use clap::ValueEnum;

use super::model::Subject;

pub const QUANTIZE: &str = "\
Examples:
  glassformer quantize FOLDER --to int8 --out SMALL
  glassformer quantize FOLDER --to int4 --out SMALL --text sample.txt            how far its logits are from what they were
  glassformer quantize FOLDER --to int4 --out SMALL --calibrate texts.txt        rounded so that it changes little on such texts
  glassformer quantize FOLDER --to int8 --out SMALL --data dev.tsv.gz --words zh   and its BLEU or perplexity
  glassformer generate --model SMALL \"Once upon a time\"
";

#[derive(clap::Args)]
pub struct Quantize {
    #[command(flatten)]
    pub model: Subject,
    /// How many bits weights get; those known to be sensitive keep 32
    #[arg(long, value_enum)]
    pub to: To,
    /// The folder to write: a new or an empty one
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write to a folder that has something in it: files of the same names are replaced, others stay
    #[arg(long)]
    pub force: bool,
    /// A file with a text on each line, some hundred of them, which the model reads first: its weights are rounded so that it changes
    /// little on texts like these; may be repeated
    #[arg(long, value_name = "FILE")]
    pub calibrate: Vec<PathBuf>,
    /// A file with a text on each line, on which the logits of both models are compared; may be repeated
    #[arg(long, value_name = "FILE")]
    pub text: Vec<PathBuf>,
    /// A file with questions and right answers, or of text, on which both are evaluated as by evaluate; may be repeated
    #[arg(long, value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// How BLEU tells words apart: 13a, zh or none
    #[arg(long, value_name = "WORDS", default_value = "13a", value_parser = ["13a", "zh", "none"])]
    pub words: String,
    /// The most examples of --data
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    Int8,
    Int4,
}
