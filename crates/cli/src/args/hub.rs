//! What the verbs around fetched models understand.

pub const PULL: &str = "\
Examples:
  glassformer pull HuggingFaceTB/SmolLM2-135M-Instruct    what the model needs
  glassformer pull org/name:Q4_K_M      a .gguf file, by a part of its name
  glassformer pull org/name@v1.0        a branch, tag or commit

Environment:
  HF_HOME or HF_HUB_CACHE    the cache, which Hugging Face's tools use too
  HF_TOKEN                   for gated and private models
  HF_ENDPOINT                another hub
  HF_HUB_OFFLINE=1           only the cache
  HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE (certificates of a company)
";

pub const LIST: &str = "\
Examples:
  glassformer list
  glassformer list --files
  glassformer list --json
";

pub const REMOVE: &str = "\
Examples:
  glassformer remove org/name
  glassformer remove org/name@v1.0       one revision, with what no other needs
  glassformer remove org/name --yes      without a question
";

#[derive(clap::Args)]
pub struct Pull {
    /// The model: org/name, org/name@revision or org/name:file.gguf
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct List {
    /// Also each file
    #[arg(long)]
    pub files: bool,
    /// The list as JSON, with each file
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Remove {
    /// The model: org/name, or org/name@revision
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
