//! What the verbs that look at a model understand.

use std::path::PathBuf;

use super::model::Subject;

pub const SHOW: &str = "\
Examples:
  glassformer show FOLDER
  glassformer show model.gguf --tensors
  glassformer show FOLDER --json
";

pub const VERIFY: &str = "\
Examples:
  glassformer forward FOLDER --ids \"101 7592 102\" --trace --out F.safetensors
  glassformer verify OTHER --against F.safetensors
";

#[derive(clap::Args)]
pub struct Show {
    #[command(flatten)]
    pub model: Subject,
    /// Also list every tensor
    #[arg(long)]
    pub tensors: bool,
    /// The card as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Verify {
    #[command(flatten)]
    pub model: Subject,
    /// Tensors to compare with: i.hidden, i.logits or i.NODE of each sequence i, and the inputs of each
    #[arg(long, value_name = "FILE")]
    pub against: PathBuf,
    /// How far numbers may differ: |a − b| ≤ T + T·|b|
    #[arg(long, value_name = "T", default_value_t = 1e-4)]
    pub tolerance: f32,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}
