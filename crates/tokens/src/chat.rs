//! Chat templates: a conversation as the text that a model was trained on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::files::{self, Folder};
use crate::jinja::{Limits, Now, Template};

/// What a rendering may use besides what its input does.
const STEPS: u64 = 4_000_000;
const BYTES: u64 = 64 << 20;
const DEPTH: usize = 1000;

/// The chat templates of a model, which are programs in the language Jinja.
///
/// Rendering is equal to transformers' `apply_chat_template`. A template comes from a file that is not trusted: it can
/// read nothing but what it is given, and its steps and its memory are limited.
#[derive(Debug)]
pub struct ChatTemplate {
    templates: BTreeMap<String, Source>,
    /// `bos_token` and its kin, which templates print.
    tokens: Map<String, Value>,
}

#[derive(Debug)]
struct Source {
    text: String,
    template: Template,
}

/// How a rendered conversation ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the beginning of an answer, so that the model answers (`add_generation_prompt`).
    #[default]
    Prompt,
    /// With the last message.
    Nothing,
    /// Inside the last message, so that the model continues it (`continue_final_message`).
    Continue,
}

/// What a chat template is given.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Objects with a `role` and a `content`, and whatever else the template reads.
    pub messages: Vec<Value>,
    /// How it ends.
    pub ending: Ending,
    /// Functions that the model may call, as JSON schemas.
    pub tools: Option<Vec<Value>>,
    /// Texts that the model may quote: objects with a `title` and a `text`.
    pub documents: Option<Vec<Value>>,
    /// Further names that the template reads, such as `enable_thinking`. They come before special tokens of that name.
    pub variables: Map<String, Value>,
    /// Which template to use where the model has several; `tool_use` or `default` otherwise.
    pub template: Option<String>,
    /// The time that the template is told, in seconds since 1970, and how many seconds local time is ahead of universal
    /// time; the system's clock in universal time otherwise.
    pub now: Option<(i64, i64)>,
}

impl Conversation {
    /// Messages of a role and a text each, to be answered.
    pub fn new<'m>(messages: impl IntoIterator<Item = (&'m str, &'m str)>) -> Self {
        let message = |(role, content)| json!({"role": role, "content": content});
        Self { messages: messages.into_iter().map(message).collect(), ..Self::default() }
    }
}

impl ChatTemplate {
    /// A single template, such as a GGUF file's `tokenizer.chat_template`.
    ///
    /// # Errors
    /// [`Error::Template`] where it does not parse.
    pub fn new(source: &str) -> Result<Self, Error> {
        Self::with_names(BTreeMap::from([("default".to_owned(), source.to_owned())]))
    }

    fn with_names(sources: BTreeMap<String, String>) -> Result<Self, Error> {
        let compile =
            |(name, text): (String, String)| Ok((name, Source { template: Template::new(&text)?, text }));
        let templates = sources.into_iter().map(compile).collect::<Result<_, Error>>()?;
        Ok(Self { templates, tokens: Map::new() })
    }

    /// The templates of a model's folder: `chat_template.jinja` with those in `additional_chat_templates`, or else
    /// `chat_template` in `tokenizer_config.json`, which is one or a list with names. `None` where there are none.
    ///
    /// # Errors
    /// A file that cannot be read, is not JSON, or holds a template that does not parse.
    pub fn open(folder: impl AsRef<Path>) -> Result<Option<Self>, Error> {
        let folder = Folder(folder.as_ref());
        let config = Config::open(folder)?;
        let mut sources = BTreeMap::new();
        if let Some(path) = folder.has("chat_template.jinja") {
            sources.insert("default".to_owned(), files::text(&path)?);
        }
        let more = folder.0.join("additional_chat_templates");
        for entry in fs::read_dir(&more).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if let (Some(name), Some("jinja")) = (path.file_stem(), path.extension().and_then(|e| e.to_str()))
            {
                sources.insert(name.to_string_lossy().into_owned(), files::text(&path)?);
            }
        }
        if sources.is_empty() {
            match config.value("chat_template") {
                Some(Value::String(text)) => {
                    sources.insert("default".to_owned(), text.clone());
                }
                Some(Value::Array(list)) => {
                    let text =
                        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
                    sources.extend(
                        list.iter().filter_map(|one| Some((text(one, "name")?, text(one, "template")?))),
                    );
                }
                _ => {}
            }
        }
        if sources.is_empty() {
            return Ok(None);
        }
        let mut templates = Self::with_names(sources)?;
        templates.tokens =
            config.special_texts().map(|(name, text)| (name.to_owned(), text.into())).collect();
        Ok(Some(templates))
    }

    /// Gives a special token that templates print: `bos_token`, `eos_token`.
    #[must_use]
    pub fn with_token(mut self, name: &str, text: &str) -> Self {
        self.tokens.insert(name.to_owned(), text.into());
        self
    }

    /// The names of the templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }

    /// A conversation as text, ready to be encoded without special tokens ([`Special::Leave`](crate::Special::Leave)).
    ///
    /// # Errors
    /// The template refuses the conversation, does what cannot be done, or wants more than its share of steps or memory.
    pub fn render(&self, conversation: &Conversation) -> Result<String, Error> {
        let source = self.choose(conversation)?;
        let mut messages = conversation.messages.clone();
        for message in &mut messages {
            let Value::Object(message) = message else {
                return Err(refuse("a message is not an object with a role and a content"));
            };
            alias_reasoning(message);
        }
        let open = match conversation.ending {
            Ending::Continue => Some(mark_last(&mut messages, &source.text)?),
            Ending::Prompt | Ending::Nothing => None,
        };
        let mut names = self.tokens.clone();
        names.extend(conversation.variables.clone());
        let list = |values: &Option<Vec<Value>>| values.clone().map_or(Value::Null, Value::Array);
        names.insert("messages".to_owned(), messages.into());
        names.insert("tools".to_owned(), list(&conversation.tools));
        names.insert("documents".to_owned(), list(&conversation.documents));
        names.insert("add_generation_prompt".to_owned(), (conversation.ending == Ending::Prompt).into());
        // Templates copy their input a few times: what they may use grows with it.
        let size: u64 = names.values().map(size).sum();
        let limits = Limits { steps: STEPS + size, bytes: BYTES + 64 * size, depth: DEPTH };
        let now = conversation.now.map_or_else(Now::system, |(seconds, offset)| Now { seconds, offset });
        let text = source.template.render(&names, limits, now)?;
        match open {
            Some(last) => cut_at_mark(text, &last),
            None => Ok(text),
        }
    }

    fn choose(&self, conversation: &Conversation) -> Result<&Source, Error> {
        if let Some(name) = &conversation.template {
            let known = || self.names().collect::<Vec<_>>().join(", ");
            return self.templates.get(name).ok_or_else(|| {
                refuse(&format!("there is no chat template {name:?}; there are: {}", known()))
            });
        }
        let tools = conversation.tools.as_ref().and_then(|_| self.templates.get("tool_use"));
        tools
            .or_else(|| self.templates.get("default"))
            .ok_or_else(|| refuse("the model has several chat templates and none is the default; name one"))
    }
}

fn refuse(reason: &str) -> Error {
    Error::Conversation { reason: reason.to_owned() }
}

/// Names of what a model thought before it answered: the first is what templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

fn alias_reasoning(message: &mut Map<String, Value>) {
    let found =
        REASONING.iter().find_map(|name| message.get(*name).filter(|value| !value.is_null()).cloned());
    if let Some(reasoning) = found {
        message.entry("thinking").or_insert_with(|| reasoning.clone());
        message.insert(REASONING[0].to_owned(), reasoning);
    }
}

/// What is put after the last message to find its end in the text. It ends in a space, which shows whether the template
/// trims.
const MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

fn mark_last(messages: &mut [Value], source: &str) -> Result<String, Error> {
    let nothing = || refuse("the last message has no content that could be continued");
    let content = messages.last_mut().and_then(|last| last.get_mut("content")).ok_or_else(nothing)?;
    if !source.contains("content") {
        return Err(refuse("the chat template does not read the content of messages"));
    }
    let text = match content {
        Value::String(_) => content,
        Value::Array(blocks) => {
            blocks.iter_mut().rev().find_map(|block| block.get_mut("text")).ok_or_else(nothing)?
        }
        _ => return Err(nothing()),
    };
    let last = text.as_str().ok_or_else(nothing)?.to_owned();
    *text = Value::String(format!("{last}{MARK}"));
    Ok(last)
}

fn cut_at_mark(mut text: String, last: &str) -> Result<String, Error> {
    let (Some(at), true) = (text.rfind(MARK.trim_end()), text.contains(last.trim())) else {
        return Err(refuse(
            "the last message cannot be continued: the chat template does not print it as it is",
        ));
    };
    let kept = text[at..].starts_with(MARK);
    text.truncate(at);
    if !kept {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

/// About how many bytes a value has.
fn size(value: &Value) -> u64 {
    16 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() as u64 + size(value)).sum(),
    }
}
