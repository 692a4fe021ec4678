//! What the verbs that look at a model understand.

use std::path::PathBuf;

pub const SHOW: &str = "\
Examples:
  glassformer show --model FOLDER
  glassformer show --model model.gguf --tensors
  glassformer show --model FOLDER --json
";

pub const VERIFY: &str = "\
Examples:
  glassformer forward --model FOLDER --ids \"101 7592 102\" --trace --out F.safetensors
  glassformer verify --model OTHER --against F.safetensors
";

#[derive(clap::Args)]
pub struct Show {
    /// The model: a folder, or a .gguf file
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
    /// Also list every tensor
    #[arg(long)]
    pub tensors: bool,
    /// The card as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Verify {
    /// The model: a folder, or a .gguf file
    #[arg(long, value_name = "MODEL")]
    pub model: PathBuf,
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
