//! Texts of a command: arguments, files or standard input, in this order, one a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use glassformer::tasks::without_mark;

use crate::console::Console;
use crate::failure::{Failure, INTERRUPTED};
use crate::feed::{Feed, Line};
use crate::prompt::{Answer, Prompt};

/// Where texts come from.
#[derive(Clone, clap::Args)]
pub struct Texts {
    /// Texts; - reads standard input, a text a line. Without any, standard input is read
    #[arg(value_name = "TEXT", allow_hyphen_values = false)]
    pub texts: Vec<String>,
    /// A file with a text on each line, or - for standard input; may be repeated
    #[arg(long, short, value_name = "FILE")]
    pub file: Vec<PathBuf>,
}

/// How many texts are worked on at once: enough to fill batches, and few enough that results come while a long file is
/// still being read.
const CHUNK: usize = 256;

/// At most so many bytes are worked on at once, the line that goes beyond them included.
const BYTES: usize = 1 << 20;

enum Place {
    Argument(String),
    Lines {
        name: String,
        lines: Box<dyn BufRead>,
        line: usize,
    },
    Input {
        feed: Feed,
        line: usize,
    },
    /// Someone at a terminal.
    Asked(Prompt),
}

/// Whether a text is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Until it is there.
    Long,
    /// Only if it is there already.
    No,
}

/// Texts as they come.
pub struct Reading {
    places: std::vec::IntoIter<Place>,
    current: Option<Place>,
}

impl Texts {
    /// Opens all places; a file that is not there is told before any work is done.
    pub fn read(&self) -> Result<Reading, Failure> {
        self.once()?;
        let mut places = Vec::new();
        for text in &self.texts {
            places.push(if text == "-" { stdin() } else { Place::Argument(text.clone()) });
        }
        for path in &self.file {
            if is_stdin(path) {
                places.push(stdin());
                continue;
            }
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| {
                Failure::new(
                    format!("cannot read {name}: {error}"),
                    "--file takes a file with a text on each line",
                )
            })?;
            places.push(Place::Lines { name, lines: Box::new(BufReader::new(file)), line: 0 });
        }
        if places.is_empty() {
            if io::stdin().is_terminal() {
                return Err(Failure::new(
                    "there is no text",
                    "give one as an argument, with --file, or on standard input",
                ));
            }
            places.push(stdin());
        }
        Ok(Reading { places: places.into_iter(), current: None })
    }

    /// The same, but where there are none and stdin is a terminal, a text is asked for again and again.
    pub fn read_or_ask(&self, console: &Console) -> Result<Reading, Failure> {
        if !self.texts.is_empty() || !self.file.is_empty() || !io::stdin().is_terminal() {
            return self.read();
        }
        console.note("a text a line; Ctrl-D ends");
        Ok(Reading { places: vec![Place::Asked(Prompt::open(None))].into_iter(), current: None })
    }

    /// The same texts, but each file and standard input as one text with all its lines.
    pub fn whole(&self) -> Result<Self, Failure> {
        self.once()?;
        let mut texts = Vec::new();
        for text in &self.texts {
            texts.push(if text == "-" { all("standard input", io::stdin())? } else { text.clone() });
        }
        for path in &self.file {
            if is_stdin(path) {
                texts.push(all("standard input", io::stdin())?);
                continue;
            }
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| {
                Failure::new(format!("cannot read {name}: {error}"), "--file takes a file of text")
            })?;
            texts.push(all(&name, file)?);
        }
        if texts.is_empty() && !io::stdin().is_terminal() {
            texts.push(all("standard input", io::stdin())?);
        }
        Ok(Self { texts, file: Vec::new() })
    }

    /// Refuses to read standard input twice: it comes once, and whoever waits for it again waits for ever.
    fn once(&self) -> Result<(), Failure> {
        let texts = self.texts.iter().filter(|text| *text == "-").count();
        if texts + self.file.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(Failure::new("- is given twice", "standard input can be read once; write - once"));
        }
        Ok(())
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Everything that `name` holds, as one text.
fn all(name: &str, mut from: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    from.read_to_string(&mut text).map_err(|error| {
        Failure::new(format!("cannot read {name}: {error}"), "give a file of text in UTF-8")
    })?;
    Ok(without_mark(text))
}

fn stdin() -> Place {
    Place::Input { feed: Feed::open(), line: 0 }
}

impl Reading {
    /// Whether someone at a terminal is asked.
    pub fn asks(&self) -> bool {
        matches!(self.current, Some(Place::Asked(_))) || matches!(self.places.as_slice(), [Place::Asked(_)])
    }

    /// The next texts, none when all are read: many where they are there already, and the one that came where it came alone.
    pub fn chunk(&mut self) -> Result<Vec<String>, Failure> {
        let mut texts = Vec::new();
        let mut bytes = 0;
        while texts.len() < CHUNK && bytes < BYTES {
            let wait = if texts.is_empty() { Wait::Long } else { Wait::No };
            let Some(text) = self.get(wait)? else { break };
            bytes += text.len();
            texts.push(text);
        }
        Ok(texts)
    }

    /// The next text.
    pub fn next(&mut self) -> Result<Option<String>, Failure> {
        self.get(Wait::Long)
    }

    /// The next text, if it is there or is waited for.
    fn get(&mut self, wait: Wait) -> Result<Option<String>, Failure> {
        loop {
            match &mut self.current {
                None => match self.places.next() {
                    None => return Ok(None),
                    Some(place) => self.current = Some(place),
                },
                Some(Place::Argument(text)) => {
                    let text = std::mem::take(text);
                    self.current = None;
                    return Ok(Some(text));
                }
                Some(Place::Lines { name, lines, line }) => {
                    if let Some(text) = next_line(name, lines, line)? {
                        return Ok(Some(text));
                    }
                    self.current = None;
                }
                Some(Place::Input { feed, line }) => {
                    let came = if wait == Wait::Long { feed.next() } else { feed.next_at_once() };
                    match came {
                        Line::Came(bytes) => return text(INPUT, bytes, line).map(Some),
                        Line::None => return Ok(None),
                        Line::End => self.current = None,
                    }
                }
                Some(Place::Asked(_)) if wait == Wait::No => return Ok(None),
                Some(Place::Asked(prompt)) => match prompt.line()? {
                    Answer::Line(text) => return Ok(Some(text)),
                    Answer::Interrupted => std::process::exit(i32::from(INTERRUPTED)),
                    Answer::End => self.current = None,
                },
            }
        }
    }
}

/// The next line without its end.
fn next_line(name: &str, lines: &mut dyn BufRead, line: &mut usize) -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    match lines.read_until(b'\n', &mut bytes) {
        Ok(0) => Ok(None),
        read => text(name, read.map(|_| bytes), line).map(Some),
    }
}

/// What standard input is called.
const INPUT: &str = "standard input";

/// A line that was read, without its end.
fn text(name: &str, read: io::Result<Vec<u8>>, line: &mut usize) -> Result<String, Failure> {
    *line += 1;
    let mut bytes =
        read.map_err(|error| Failure::new(format!("cannot read {name}: {error}"), "check the file"))?;
    for end in [b'\n', b'\r'] {
        if bytes.last() == Some(&end) {
            bytes.pop();
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(
            format!("line {line} of {name} is not UTF-8"),
            "convert it, for example with iconv -t UTF-8",
        )
    })?;
    Ok(if *line == 1 { without_mark(text) } else { text })
}
