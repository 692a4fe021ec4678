//! What the verbs that write text understand.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::decode::Decode;
use super::form::Formed;
use super::model::Named;
use crate::texts::Texts;

pub const TRANSLATE: &str = "\
Examples:
  glassformer translate \"The cat sat\"    English into Chinese, without --model
  glassformer translate --model FOLDER \"今天天气很好。\"
  glassformer translate --model FOLDER --from en --to zh < book.txt > book.zh
  glassformer translate --model FOLDER --beams 4 --json < sentences.txt
";

pub const SUMMARIZE: &str = "\
Examples:
  glassformer summarize --model FOLDER --file article.txt --whole
  glassformer summarize --model FOLDER --max-new-tokens 60 < articles.txt
";

pub const CHAT: &str = "\
Examples:
  glassformer chat model.gguf
  glassformer chat org/name                 a model of a hub, fetched first
  glassformer chat model.gguf --system \"Be brief.\" \"What is a Transformer?\"
  glassformer chat model.gguf --schema person.json \"Who wrote Hamlet?\"
";

pub const SCORE: &str = "\
Examples:
  glassformer score --model FOLDER \"The cat sat on the mat.\"
  glassformer score --model FOLDER --tokens --json < sentences.txt
  printf '猫坐着。\\tThe cat sits.\\n' | glassformer score --model FOLDER --pairs
";

#[derive(clap::Args)]
pub struct Translate {
    /// The model: a folder, a .gguf file, or a name of a hub such as org/name; if not given, en-zh, the one that is part of this program
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub texts: Texts,
    /// The language of the texts, where the model reads several: en, zh, zh-Hant, Chinese
    #[arg(long, value_name = "LANGUAGE")]
    pub from: Option<String>,
    /// The language to translate into, where the model writes several
    #[arg(long, value_name = "LANGUAGE")]
    pub to: Option<String>,
    /// When lines are cut into sentences
    #[arg(long, value_enum, default_value_t = Split::Long)]
    pub split: Split,
    /// Leave out the end of sentences that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub decode: Decode,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Split {
    /// Where they are long
    Long,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(clap::Args)]
pub struct Summarize {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// Each file, and standard input, is one text with all its lines
    #[arg(long)]
    pub whole: bool,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub decode: Decode,
}

#[derive(clap::Args)]
pub struct Chat {
    /// The model, unless --model gives it: a folder, a .gguf file, or a name of a hub such as org/name
    #[arg(value_name = "MODEL")]
    subject: Option<String>,
    /// The model; all arguments are then texts
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// What to say, one after the other; - reads standard input, a message a line. Without any, a conversation on the terminal
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// What the model is to be
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Texts that end an answer
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Answers as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub decode: Decode,
    #[command(flatten)]
    pub form: Formed,
}

impl Chat {
    /// The model that was given, if one was.
    pub fn given(&self) -> Option<&Path> {
        self.model.as_deref().or(self.subject.as_deref().map(Path::new))
    }

    /// What to say.
    pub fn texts(&self) -> Vec<String> {
        let first = self.subject.iter().filter(|_| self.model.is_some());
        first.chain(&self.texts).cloned().collect()
    }
}

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Score {
    #[command(flatten)]
    pub model: Named,
    #[command(flatten)]
    pub texts: Texts,
    /// Each text is a source and a target with a tab between, for encoder-decoders
    #[arg(long)]
    pub pairs: bool,
    /// Also each token with the logarithm of its probability
    #[arg(long)]
    pub tokens: bool,
    /// Leave out the end of texts that are too long, instead of refusing them
    #[arg(long)]
    pub truncate: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}
