//! What the verbs that are about the program itself understand.

use std::path::PathBuf;

use clap_complete::Shell;

pub const CONFIG: &str = "\
Examples:
  glassformer config --show          every setting, and who said so
  glassformer config --example       a configuration file to begin with
";

pub const COMPLETIONS: &str = "\
Examples:
  glassformer completions bash > ~/.local/share/bash-completion/completions/glassformer
  glassformer completions zsh > ~/.zfunc/_glassformer
  glassformer completions fish > ~/.config/fish/completions/glassformer.fish
";

#[derive(clap::Args)]
pub struct Config {
    /// Print every setting with its value, and whether a flag, the environment, the file or nobody said so; the default
    #[arg(long, conflicts_with = "example")]
    pub show: bool,
    /// Print a configuration file with all settings as comments
    #[arg(long, conflicts_with = "json")]
    pub example: bool,
    /// The settings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(clap::Args)]
pub struct Man {
    /// The folder to write, a page for each verb
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
