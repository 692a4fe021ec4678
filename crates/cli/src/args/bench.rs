//! What `bench` understands.

use clap::ValueEnum;

use super::model::Subject;

pub const BENCH: &str = "\
Examples:
  glassformer bench FOLDER                               what such models are measured at
  glassformer bench FOLDER --workload decode --batch 1,8 --new 128 --json
  glassformer bench FOLDER --length 5-200 --threads 1    texts of many lengths, on one core
";

#[derive(clap::Args)]
pub struct Bench {
    #[command(flatten)]
    pub model: Subject,
    /// What is measured; what the model is for, if not given
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workload: Vec<Workload>,
    /// Texts at once; several measurements, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub batch: Vec<u16>,
    /// Tokens of each text or prompt, or a range such as 5-200 for texts of all these lengths
    #[arg(long, value_name = "N", value_parser = range)]
    pub length: Option<(usize, usize)>,
    /// New tokens of each text: always so many, no token ends it before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub new: Option<u32>,
    /// Beams of translations; several measurements, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub beams: Vec<u16>,
    /// How often each measurement is repeated, after a first one that does not count
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
    /// Take measurements from standard input, a JSON object on each line, and answer each with a line: to take turns with others
    #[arg(long, conflicts_with_all = ["workload", "batch", "length", "new", "beams", "rounds", "json"])]
    pub ask: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Texts through an encoder
    Encode,
    /// A prompt through a decoder, to the scores of the next token
    Prefill,
    /// New tokens of a decoder, one after the other
    Decode,
    /// Texts through an encoder and its decoder
    Translate,
}

/// The longest text that is measured.
const LONGEST: usize = 1 << 20;

/// `128`, or `5-200`.
fn range(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| match text.trim().parse::<usize>() {
        Ok(number) if (1..=LONGEST).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("{text:?} is no number from 1 to {LONGEST}")),
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    if from > to { Err(format!("{from} is more than {to}")) } else { Ok((from, to)) }
}
