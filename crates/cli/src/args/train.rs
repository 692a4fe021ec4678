//! What `train` understands.

use std::path::PathBuf;

pub const TRAIN: &str = "\
Examples:
  glassformer train config.toml            begins, or goes on where it was interrupted
  glassformer train config.toml --plot     the curves of a training, as a page

A whole configuration, with what is usual:
  out = \"runs/en-zh\"                    # everything goes there; paths are relative to this file
  objective = \"translate\"               # or generate, fill, classify, tag, answer, embed
  seed = 1
  precision = \"bf16\"                    # or f32
  model.formula = \"formula.toml\"        # or model.checkpoint = \"FOLDER\"
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
pub struct Train {
    /// The configuration
    #[arg(value_name = "CONFIG.toml")]
    pub config: PathBuf,
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
