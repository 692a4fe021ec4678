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
  glassformer explain --trace out \"The cat sat\"
  glassformer verify out
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
    /// A trace: the folder that `explain --trace` wrote. With --against, the model: a folder, a .gguf file, or a name of a hub
    #[arg(value_name = "TRACE")]
    pub subject: Option<PathBuf>,
    /// The model: what a trace takes its weights from where not from the one that it names
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Tensors to compare with: i.hidden, i.logits or i.NODE of each sequence i, and the inputs of each
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// How far numbers may differ: |a − b| ≤ T + T·|b|
    #[arg(long, value_name = "T", default_value_t = 1e-4, requires = "against")]
    pub tolerance: f32,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}
