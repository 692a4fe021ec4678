//! What the verbs that read text understand.

use std::path::PathBuf;

use clap::ValueEnum;

use super::model::Named;
use crate::texts::Texts;

pub const EMBED: &str = "\
Examples:
  glassformer embed --model FOLDER \"The cat sat on the mat.\"
  glassformer embed --model FOLDER --similar \"A cat sits.\" \"The cat sat on the mat.\" \"Stocks fell.\"
  glassformer embed --model FOLDER --file texts.txt --out vectors.safetensors
";

pub const FILL: &str = "\
Examples:
  glassformer fill --model FOLDER \"The cat [MASK] on the mat.\"
  glassformer fill --model FOLDER --top 3 --json < sentences.txt
";

pub const CLASSIFY: &str = "\
Examples:
  glassformer classify --model FOLDER \"A film to remember.\"
  glassformer classify --model FOLDER --file reviews.txt --top 3 --json
  printf 'A man eats.\\tSomeone is eating.\\n' | glassformer classify --model FOLDER --pairs
";

pub const TAG: &str = "\
Examples:
  glassformer tag --model FOLDER \"Wolfgang lives in Berlin.\"
  glassformer tag --model FOLDER --merge first --json < sentences.txt
";

pub const ANSWER: &str = "\
Examples:
  glassformer answer --model FOLDER --context \"The cat sat on the mat.\" \"Where did the cat sit?\"
  glassformer answer --model FOLDER --context-file book.txt --top 3 < questions.txt
";

#[derive(clap::Args)]
pub struct Embed {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// The prompt to put before each text, by the name that the model's files give it; none for no prompt at all
    #[arg(long, value_name = "NAME")]
    pub prompt: Option<String>,
    /// Print how similar each text is to this one (the cosine), instead of vectors
    #[arg(long, value_name = "TEXT", conflicts_with = "out")]
    pub similar: Option<String>,
    /// Write the vectors to a safetensors file, as the tensor `embeddings`, instead of printing them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub out: Option<PathBuf>,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Fill {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// How many words for each blank
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub top: usize,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Classify {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// Each text is a pair with a tab between: premise and hypothesis, query and document
    #[arg(long)]
    pub pairs: bool,
    /// How many labels for each text
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub top: usize,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Tag {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// How tokens become entities
    #[arg(long, value_enum, default_value_t = Merge::Simple)]
    pub merge: Merge,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Merge {
    /// Every token for itself
    None,
    /// Neighbours with the same tag
    Simple,
    /// Words with the same tag; a word has the tag of its first token
    First,
    /// Words with the same tag; a word's tag is the best by the mean of its tokens
    Average,
    /// Words with the same tag; a word has the tag of its surest token
    Max,
}

#[derive(clap::Args)]
pub struct Answer {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// The text that holds the answers; without it, each line is a question, a tab and its context
    #[arg(long, value_name = "TEXT", conflicts_with = "context_file")]
    pub context: Option<String>,
    /// The same, from a file
    #[arg(long, value_name = "FILE")]
    pub context_file: Option<PathBuf>,
    /// How many answers to each question
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub top: usize,
    /// The most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub longest: usize,
    /// The most tokens that are read at once; a longer context is read in windows
    #[arg(long, value_name = "N", default_value_t = 384)]
    pub window: usize,
    /// How many tokens neighbouring windows share
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub overlap: usize,
    /// Let "there is none" be an answer
    #[arg(long)]
    pub unanswerable: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}
