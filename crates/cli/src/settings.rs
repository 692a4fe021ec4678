//! What a user wants of every run, and who said so: a flag, before the environment, before the configuration file, before what is
//! usual. Only settings whose default is a matter of taste or of the machine: what changes a result's meaning is a flag each time.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use glassformer::cpu::lowp::Dot;
use toml::{Table, Value};

use crate::args::{self, Color, Device, Dtype, Globals, Language};
use crate::failure::Failure;
use crate::folders;

/// The variable that names another configuration file; an empty one means none.
const FILE: &str = "GLASSFORMER_CONFIG";

/// A whole configuration file, which changes nothing as it stands.
pub const EXAMPLE: &str = "\
# The configuration of glassformer. Flags and the environment (GLASSFORMER_MODEL and so on) go before it.
# model = \"~/models/smollm2.gguf\"   # where no model is given: a folder, a .gguf file or a hub's name
# threads = 4                       # how many threads compute
# device = \"auto\"                   # or cpu
# dtype = \"auto\"                    # f32, bf16, int8, int4 or stored; forward, verify and explain keep to the flag
# isa = \"avx2\"                      # the instructions to compute with
# color = \"auto\"                    # always or never
# lang = \"auto\"                     # en or zh, of explain
# history = true                    # keep what is typed in a chat
";

/// Who said something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    File(PathBuf),
    Default(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "from {flag}"),
            Self::Environment(name) => write!(f, "from {name} in the environment"),
            Self::File(path) => write!(f, "from {}", path.display()),
            Self::Default(why) => write!(f, "default: {why}"),
        }
    }
}

/// A value, and who said it.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

/// What can be set, by the names in the file.
#[derive(Debug)]
pub struct Settings {
    pub model: Setting<Option<PathBuf>>,
    pub threads: Setting<Option<usize>>,
    pub device: Setting<Device>,
    pub dtype: Setting<Dtype>,
    pub isa: Setting<Option<Dot>>,
    pub color: Setting<Color>,
    pub lang: Setting<Language>,
    pub history: Setting<bool>,
}

/// A setting's name in the file, in the environment, as a flag, and what holds without any.
struct Key {
    name: &'static str,
    variable: &'static str,
    flag: &'static str,
    usual: &'static str,
}

const fn key(name: &'static str, variable: &'static str, flag: &'static str, usual: &'static str) -> Key {
    Key { name, variable, flag, usual }
}

const MODEL: Key =
    key("model", "GLASSFORMER_MODEL", "--model", "none; translate and explain have the built-in translator");
const THREADS: Key = key("threads", "GLASSFORMER_THREADS", "--threads", "all cores");
const DEVICE: Key = key("device", "GLASSFORMER_DEVICE", "--device", "the fastest that is there");
const DTYPE: Key = key("dtype", "GLASSFORMER_DTYPE", "--dtype", "as the model's files say");
const ISA: Key = key("isa", "GLASSFORMER_ISA", "--isa", "the best of this machine");
const COLOR: Key = key("color", "GLASSFORMER_COLOR", "--color", "on a terminal, unless NO_COLOR is set");
const LANG: Key = key("lang", "GLASSFORMER_LANG", "--lang", "by LC_ALL, LC_MESSAGES and LANG");
const HISTORY: Key = key("history", "GLASSFORMER_HISTORY", "", "kept");

const KEYS: [&Key; 8] = [&MODEL, &THREADS, &DEVICE, &DTYPE, &ISA, &COLOR, &LANG, &HISTORY];

impl Settings {
    /// All settings, with these flags.
    pub fn read(globals: &Globals) -> Result<Self, Failure> {
        let said = Said { file: Self::file(), table: Self::table()? };
        let boolean = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("true or false"),
        };
        Ok(Self {
            model: said.setting(&MODEL, None, None, |text| match text {
                "" => Err("a folder, a .gguf file or a name"),
                text => Ok(Some(expanded(text))),
            })?,
            threads: said.setting(&THREADS, globals.threads.map(|n| Some(usize::from(n))), None, |text| {
                let number = text.parse().ok().filter(|n| (1..=args::MOST_THREADS).contains(n));
                number.map(Some).ok_or("a number from 1 to 1024")
            })?,
            device: said.setting(&DEVICE, globals.device, Device::Auto, |text| {
                Device::from_str(text, false).map_err(|_| "auto or cpu")
            })?,
            dtype: said.setting(&DTYPE, globals.dtype, Dtype::Auto, |text| {
                Dtype::from_str(text, false).map_err(|_| "auto, f32, bf16, int8, int4 or stored")
            })?,
            isa: said.setting(&ISA, globals.isa.map(Some), None, |text| {
                let known = Dot::available().iter().copied().find(|dot| dot.word() == text);
                known.map(Some).ok_or("one that this machine has; `glassformer --version -v` lists them")
            })?,
            color: said.setting(&COLOR, globals.color, Color::Auto, |text| {
                Color::from_str(text, false).map_err(|_| "auto, always or never")
            })?,
            lang: said.setting(&LANG, None, Language::Auto, |text| {
                Language::from_str(text, false).map_err(|_| "auto, en or zh")
            })?,
            history: said.setting(&HISTORY, None, true, boolean)?,
        })
    }

    /// Where the configuration file is, or would be.
    pub fn file() -> Option<PathBuf> {
        match std::env::var_os(FILE) {
            Some(path) if path.is_empty() => None,
            Some(path) => Some(path.into()),
            None => Some(folders::config()?.join("config.toml")),
        }
    }

    /// What the configuration file says.
    fn table() -> Result<Table, Failure> {
        let Some(path) = Self::file() else { return Ok(Table::new()) };
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // It may be absent where nobody named it.
            Err(error) if error.kind() == ErrorKind::NotFound && std::env::var_os(FILE).is_none() => {
                String::new()
            }
            Err(error) => {
                return Err(Failure::new(
                    format!("cannot read the configuration {shown}: {error}"),
                    format!("check it, or set {FILE} to another file, or to nothing"),
                ));
            }
        };
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let what = error.to_string();
            Failure::new(
                format!("the configuration {shown} is no TOML: {}", what.trim_end()),
                "`glassformer config --example` prints one that works",
            )
        })?;
        for name in table.keys() {
            if KEYS.iter().all(|key| key.name != name) {
                return Err(unknown(&path, name));
            }
        }
        Ok(table)
    }

    /// Each setting by its name: the value as it would be written, and who said it.
    pub fn list(&self) -> Vec<(&'static str, Option<String>, &Origin)> {
        fn word<T: ValueEnum>(value: &T) -> Option<String> {
            Some(value.to_possible_value()?.get_name().to_owned())
        }
        let Self { model, threads, device, dtype, isa, color, lang, history } = self;
        vec![
            (MODEL.name, model.value.as_ref().map(|path| path.display().to_string()), &model.origin),
            (THREADS.name, threads.value.map(|count| count.to_string()), &threads.origin),
            (DEVICE.name, word(&device.value), &device.origin),
            (DTYPE.name, word(&dtype.value), &dtype.origin),
            (ISA.name, isa.value.map(|dot| dot.word().to_owned()), &isa.origin),
            (COLOR.name, word(&color.value), &color.origin),
            (LANG.name, word(&lang.value), &lang.origin),
            (HISTORY.name, Some(history.value.to_string()), &history.origin),
        ]
    }
}

/// What the environment and the file say.
struct Said {
    file: Option<PathBuf>,
    table: Table,
}

impl Said {
    /// A setting: by its flag, or else the environment, the file, or what is usual. `read` says what else would be right.
    fn setting<T>(
        &self,
        key: &Key,
        flag: Option<T>,
        usual: T,
        read: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<Setting<T>, Failure> {
        if let Some(value) = flag {
            return Ok(Setting { value, origin: Origin::Flag(key.flag) });
        }
        let bad = |place: String, text: &str, wanted: &str| {
            let text: String = text.chars().take(60).collect();
            Failure::new(format!("{place} is {text}"), format!("it takes {wanted}"))
        };
        // An empty variable is none, as with NO_COLOR.
        if let Ok(text) = std::env::var(key.variable)
            && !text.is_empty()
        {
            let value = read(&text).map_err(|wanted| bad(key.variable.to_owned(), &text, wanted))?;
            return Ok(Setting { value, origin: Origin::Environment(key.variable) });
        }
        if let (Some(value), Some(file)) = (self.table.get(key.name), &self.file) {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let value = read(&text)
                .map_err(|wanted| bad(format!("{} in {}", key.name, file.display()), &text, wanted))?;
            return Ok(Setting { value, origin: Origin::File(file.clone()) });
        }
        Ok(Setting { value: usual, origin: Origin::Default(key.usual) })
    }
}

fn unknown(file: &Path, name: &str) -> Failure {
    let shown: String = name.chars().take(60).collect();
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let near = glassformer::families::nearest(known.iter().copied(), name);
    let meant = near.map_or(String::new(), |near| format!("is {near} meant? "));
    Failure::new(
        format!("{} does not know {shown:?}", file.display()),
        format!("{meant}it takes {}", known.join(", ")),
    )
}

/// A path whose `~` is the user's folder.
fn expanded(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), folders::home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}
