//! What `train` understands.

use std::path::PathBuf;

use super::model::Named;

pub const TRAIN: &str = "\
Examples:
  glassformer train config.toml            begins, or goes on where it was interrupted
  glassformer train config.toml --plot     the curves of a training, as a page
  glassformer train --init classify reviews.tsv     looks at data, and writes a configuration that fits them

A whole configuration, with what is usual:
  out = \"runs/en-zh\"                    # everything goes there; paths are relative to this file
  objective = \"translate\"               # or generate, fill, classify, tag, answer, embed
  seed = 1
  precision = \"bf16\"                    # or f32
  model.formula = \"formula.toml\"        # or model.checkpoint = \"FOLDER\"
                                        # or model.shape = { name = \"bert-classifier\", width = 128, layers = 2 }
  tokenizer = { kind = \"unigram\", size = 8000, coverage = 0.9995 }   # or folder = \"FOLDER\"

  [data]
  train = [{ path = \"a.tsv.gz\", weight = 2.0 }, { path = \"b.jsonl\", columns = [\"en\", \"zh\"] }]
  valid = [{ path = \"dev.tsv\" }]        # or held_out = 0.01
  length = 128
  filter = { ratio = 3.0, source_script = \"latin\", target_script = \"han\" }

  [batch]
  tokens = 4096
  accumulate = 1

  [optimiser]                           # AdamW
  beta2 = 0.98
  decay = 0.01
  clip = 1.0

  [schedule]
  steps = 20000
  rate = 1e-3
  warmup = 1000
  decay = \"inverse-square-root\"         # or cosine, linear, constant

  [regularise]
  dropout = 0.1
  smoothing = 0.1
  average = 0.999

  [checkpoint]
  every = 500
  check = 500
  keep = 2
";

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Train {
    /// The configuration; with --init, the data to learn from
    #[arg(value_name = "CONFIG.toml", required = true)]
    pub files: Vec<PathBuf>,
    /// Look at data and write a configuration that fits them and this machine, to learn this: translate, generate, fill, classify, tag,
    /// answer or embed
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = ["until", "changed", "plot"])]
    pub init: Option<String>,
    /// The configuration to write; named after the data if it is not given
    #[arg(long, value_name = "FILE", requires = "init")]
    pub out: Option<PathBuf>,
    /// Which columns (numbers from 0) or keys of the data hold what, with commas between; found out if they are not given
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "init")]
    pub columns: Vec<String>,
    /// What the data are, where their endings do not say it: tsv, jsonl, text, conll, squad
    #[arg(long, value_name = "FORMAT", requires = "init")]
    pub format: Option<String>,
    /// How many lines at the beginning of each file are no data; found out if it is not given
    #[arg(long, value_name = "N", requires = "init")]
    pub skip: Option<usize>,
    /// Write over a configuration that is there
    #[arg(long, requires = "init")]
    pub force: bool,
    /// Stop after this many steps in all; a later run goes on
    #[arg(long, value_name = "N")]
    pub until: Option<usize>,
    /// Go on although the configuration has changed since the training began
    #[arg(long)]
    pub changed: bool,
    /// Write the curves of the training so far to out/report.html, and do nothing else
    #[arg(long)]
    pub plot: bool,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

pub const EVALUATE: &str = "\
Examples:
  glassformer evaluate --model FOLDER --words zh dev.tsv.gz      BLEU and chrF of a translator
  glassformer evaluate --model FOLDER --columns 1,0 dev.tsv      accuracy of a classifier; the text is in column 1
  glassformer evaluate --model FOLDER --format conll test.txt    entity F1 of a tagger
  glassformer evaluate --model FOLDER dev.json --json            exact match and F1 of answers to SQuAD's questions
  glassformer evaluate --model FOLDER valid.txt                  perplexity of a language model
";

#[derive(clap::Args)]
pub struct Evaluate {
    #[command(flatten)]
    pub model: Named,
    /// Files with questions and right answers; .gz is unpacked
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What the files are, where their endings do not say it: tsv, jsonl, text, conll, squad
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Which columns (numbers from 0) or keys are the texts and right answers, with commas between
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// How many lines at the beginning of each file are no data
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: usize,
    /// What the model is asked, where its head does not say it: translate, generate, fill, classify, tag, answer, embed
    #[arg(long, value_name = "OBJECTIVE")]
    pub objective: Option<String>,
    /// How BLEU tells words apart: 13a, zh or none
    #[arg(long, value_name = "WORDS", default_value = "13a", value_parser = ["13a", "zh", "none"])]
    pub words: String,
    /// How many beams translations have
    #[arg(long, value_name = "N")]
    pub beams: Option<usize>,
    /// The most examples
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Also each example with the model's answer
    #[arg(long)]
    pub answers: bool,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}
