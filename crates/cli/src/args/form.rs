//! What form a text must have: what `generate` and `chat` understand.

use std::path::{Path, PathBuf};

use glassformer::tasks::Form;

use crate::failure::Failure;

#[derive(clap::Args, Default)]
#[command(next_help_heading = "The form of what is written (at most one of these)")]
pub struct Formed {
    /// JSON that the JSON Schema in this file describes
    #[arg(long, value_name = "FILE", group = "form")]
    pub schema: Option<PathBuf>,
    /// A JSON object
    #[arg(long, group = "form")]
    pub json_object: bool,
    /// What this regular expression matches, from beginning to end
    #[arg(long, value_name = "PATTERN", group = "form")]
    pub regex: Option<String>,
    /// What the grammar in this file describes, in the notation of Lark: start: "yes" | "no"
    #[arg(long, value_name = "FILE", group = "form")]
    pub grammar: Option<PathBuf>,
}

impl Formed {
    /// The form that was asked for, if one was.
    pub fn read(&self) -> Result<Option<Form>, Failure> {
        if let Some(path) = &self.schema {
            let schema = serde_json::from_str(&text(path)?).map_err(|error| {
                let what = format!("{} is no JSON: {error}", path.display());
                Failure::new(what, "--schema takes a file with a JSON Schema")
            })?;
            return Ok(Some(Form::JsonSchema(schema)));
        }
        if let Some(path) = &self.grammar {
            return Ok(Some(Form::Grammar(text(path)?)));
        }
        let object = self.json_object.then_some(Form::Json);
        Ok(object.or_else(|| self.regex.clone().map(Form::Regex)))
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let what = format!("cannot read {}: {error}", path.display());
        Failure::new(what, "give a file of text in UTF-8")
    })
}
