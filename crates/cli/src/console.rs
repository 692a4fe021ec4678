//! Where text goes: results to stdout, everything else to stderr.

use std::cell::OnceCell;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use glassformer::explain::{Lang, Paint};
use glassformer::weights::{Format, scheme};
use glassformer::{Backend, Cpu, Precision, Weights};

use crate::args::{Color, Device, Dtype, Globals, Language};
use crate::failure::Failure;
use crate::settings::{Origin, Settings};

/// How much is said besides results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Talk {
    Quiet,
    Usual,
    Verbose,
}

/// The terminal, and what the user wants of it.
pub struct Console {
    talk: Talk,
    settings: Settings,
    /// See [`Console::exact_backend`]: weights that were prepared once are shared by all that one backend runs.
    exact: OnceCell<Arc<dyn Backend>>,
}

/// Columns of a line where there is no terminal, and how far lines adapt to one.
const COLUMNS: usize = 80;
const LEAST_COLUMNS: usize = 40;
const MOST_COLUMNS: usize = 100;

impl Console {
    pub fn new(globals: &Globals, settings: Settings) -> Self {
        let talk = match (globals.quiet, globals.verbose) {
            (true, _) => Talk::Quiet,
            (false, true) => Talk::Verbose,
            (false, false) => Talk::Usual,
        };
        Self { talk, settings, exact: OnceCell::new() }
    }

    /// What the user wants of every run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether nothing but results and errors is wanted.
    pub fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// Says what was done.
    pub fn note(&self, text: &str) {
        self.say(Talk::Usual, text);
    }

    /// Says what only the curious ask for.
    pub fn detail(&self, text: impl FnOnce() -> String) {
        if self.talk == Talk::Verbose {
            self.say(Talk::Verbose, &text());
        }
    }

    /// Says at the end what the run took, to who wants details.
    pub fn end(&self) {
        if let Some(bytes) = peak_memory() {
            self.detail(|| format!("peak memory {:.1} MB", bytes as f64 / 1e6));
        }
    }

    fn say(&self, needs: Talk, text: &str) {
        if self.talk >= needs {
            // If even stderr is closed there is nobody left to tell.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Tells a failure.
    pub fn fail(&self, failure: &Failure) {
        self.tell("error:", failure);
    }

    /// Tells of a result that is not what was hoped for, and what to do.
    pub fn warn(&self, failure: &Failure) {
        self.tell("warning:", failure);
    }

    fn tell(&self, kind: &str, failure: &Failure) {
        write_failure(kind, failure, self.paint(io::stderr().is_terminal()));
    }

    /// Whether results are coloured.
    pub fn result_paint(&self) -> Paint {
        self.paint(io::stdout().is_terminal())
    }

    fn paint(&self, terminal: bool) -> Paint {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wanted = match self.settings.color.value {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !dumb && !set("NO_COLOR"),
        };
        match (wanted, all_colours()) {
            (true, true) => Paint::TrueColour,
            (true, false) => Paint::Colour,
            (false, _) if dumb => Paint::Ascii,
            (false, _) => Paint::Plain,
        }
    }

    /// How many threads compute.
    pub fn threads(&self) -> usize {
        self.settings.threads.value.unwrap_or_else(|| available_parallelism().map_or(1, NonZeroUsize::get))
    }

    /// Whether `--dtype` says what weights are multiplied in.
    pub fn is_dtype_given(&self) -> bool {
        let dtype = &self.settings.dtype;
        dtype.value != Dtype::Auto && matches!(dtype.origin, Origin::Flag(_))
    }

    /// What runs the model at `path`.
    pub fn backend(&self, path: &Path) -> Arc<dyn Backend> {
        self.device(self.precision(path))
    }

    /// The processor as it runs the model at `path`, for who measures it.
    pub fn processor(&self, path: &Path) -> Cpu {
        self.cpu(self.precision(path))
    }

    /// What the model at `path` is run in.
    fn precision(&self, path: &Path) -> Precision {
        self.asked(if is_quantized(path) { Precision::Stored } else { Precision::F32 })
    }

    /// What runs the model at `path` to write texts: in the bits that it is stored in, where those are few.
    pub fn writing_backend(&self, path: &Path) -> Arc<dyn Backend> {
        if is_quantized(path) || is_large_gguf(path) {
            self.quantized_backend()
        } else {
            self.exact_backend()
        }
    }

    /// What runs models that `quantize` wrote.
    pub fn quantized_backend(&self) -> Arc<dyn Backend> {
        self.device(self.asked(Precision::Stored))
    }

    /// What runs the models where every bit is to be that of the weights, whatever they are stored in: unless the command itself says
    /// otherwise. Numbers that are checked do not depend on a configuration that was forgotten.
    pub fn exact_backend(&self) -> Arc<dyn Backend> {
        self.exact.get_or_init(|| self.device(self.exact_precision())).clone()
    }

    /// What [`Console::exact_backend`] computes in.
    pub fn exact_precision(&self) -> Precision {
        if self.is_dtype_given() { self.asked(Precision::F32) } else { Precision::F32 }
    }

    /// What trains models: `bf16` is what every weight is multiplied in, the head's too. The copy that learns is never rounded.
    pub fn training_backend(&self, precision: Precision) -> Arc<dyn Backend> {
        match self.settings.device.value {
            Device::Auto | Device::Cpu => Arc::new(self.cpu(precision).keeping_f32(|_| false)),
        }
    }

    /// The precision that was asked for, or this one.
    fn asked(&self, auto: Precision) -> Precision {
        match self.settings.dtype.value {
            Dtype::Auto => auto,
            Dtype::F32 => Precision::F32,
            Dtype::Bf16 => Precision::Bf16,
            Dtype::Int8 => Precision::Int8,
            Dtype::Int4 => Precision::Int4,
            Dtype::Stored => Precision::Stored,
        }
    }

    /// The device that was asked for, computing in this precision.
    pub fn device(&self, precision: Precision) -> Arc<dyn Backend> {
        match self.settings.device.value {
            Device::Auto | Device::Cpu => Arc::new(self.cpu(precision)),
        }
    }

    /// The processor, computing in this precision.
    fn cpu(&self, precision: Precision) -> Cpu {
        let cpu = match self.settings.isa.value {
            None => Cpu::new(self.threads()),
            Some(dot) => Cpu::with_isa(self.threads(), dot.isa()).with_dot(dot),
        };
        let cpu = cpu.with_precision(precision);
        self.detail(|| {
            let (threads, isa, precision) = (cpu.threads(), cpu.isa(), cpu.precision());
            let how = match precision {
                Precision::F32 => format!("f32 with {isa}"),
                Precision::Bf16 | Precision::Int8 | Precision::Int4 | Precision::Stored => {
                    format!("{precision} with {}, and the rest with {isa}", cpu.dot())
                }
            };
            format!("computing in {how}; threads: {threads}")
        });
        cpu
    }
}

/// Whether the terminal says that it shows more than 256 colours.
fn all_colours() -> bool {
    let said = |name: &str| std::env::var(name).unwrap_or_default().to_ascii_lowercase();
    matches!(said("COLORTERM").as_str(), "truecolor" | "24bit") || said("TERM").ends_with("-direct")
}

/// Tells a failure where it is not known yet what the user wants of the terminal.
pub fn fail_plainly(failure: &Failure) {
    write_failure("error:", failure, Paint::Plain);
}

fn write_failure(kind: &str, failure: &Failure, paint: Paint) {
    let (red, cyan, end) = match paint {
        Paint::Colour | Paint::TrueColour => ("\x1b[1;31m", "\x1b[36m", "\x1b[0m"),
        Paint::Plain | Paint::Ascii => ("", "", ""),
    };
    let (message, hint) = (harmless(&failure.message), harmless(&failure.hint));
    let text = format!("{red}{kind}{end} {message}\n{cyan}hint:{end} {hint}\n");
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A message may quote a file, and a file may hold codes that a terminal obeys: they are shown, not sent.
fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => "\n".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// The most memory that this process has held so far, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Writes a result. A reader that has seen enough and closes the pipe is no failure.
pub fn result(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write the result: {error}"), "check where stdout leads to"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Columns of the terminal that results go to, if it is one.
pub fn columns() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Columns of a line of results.
pub fn width() -> usize {
    columns().map_or(COLUMNS, |width| width.clamp(LEAST_COLUMNS, MOST_COLUMNS))
}

/// The language that was asked for, or that of the environment.
pub fn language(asked: Language) -> Lang {
    let locale = || {
        let given = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        given.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
    };
    match asked {
        Language::En => Lang::English,
        Language::Zh => Lang::Chinese,
        Language::Auto => Lang::of_locale(&locale()),
    }
}

/// Whether `quantize` wrote the weights of the model at `path`. Blocks of GGUF are another matter where numbers come out: those who
/// wrote them expect the reference's, and activations in eight bits may turn a decision that was near.
pub fn is_quantized(path: &Path) -> bool {
    let file = path.join("model.safetensors");
    file.is_file() && Weights::open(file).is_ok_and(|weights| weights.metadata().contains_key(scheme::CODING))
}

/// From so many numbers on, a GGUF file writes texts in the bits that it is stored in.
///
/// Products in few bits take activations in eight. A chat model of 135 million numbers answered otherwise then; one of 630 million
/// gave the same answer. What is small fits in `f32` anyway.
const LARGE: usize = 300_000_000;

/// Whether the model at `path` is a large GGUF file, alone or in its folder.
fn is_large_gguf(path: &Path) -> bool {
    let alone = !path.join("config.json").exists() && !path.join("formula.toml").exists();
    alone
        && Weights::open(path).is_ok_and(|weights| {
            let size = |name: &str| weights.shape(name).map_or(0, |shape| shape.iter().product::<usize>());
            matches!(weights.format(), Format::Gguf(_)) && weights.names().map(size).sum::<usize>() >= LARGE
        })
}
