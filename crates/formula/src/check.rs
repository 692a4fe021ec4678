//! What cannot work is refused here, once, before anything is allocated: all problems together, each with its place.
//!
//! A formula that passes can be lowered, and none of its sizes overflows on the way. Whether a checkpoint fits it is asked
//! elsewhere, against the file.

mod attend;
mod position;
mod stack;

use std::fmt;

use crate::half::Half;
use crate::types::{Formula, Head, Heads, Input, Norm, Patches, Side, Table, Tokens};

/// The largest sizes that can be meant. They are far above any model there is, and low enough that no product of two of
/// them overflows 64 bits.
pub mod limits {
    /// Numbers per row.
    pub const WIDTH: usize = 1 << 20;
    /// Numbers per row inside a feed-forward layer.
    pub const HIDDEN: usize = 1 << 24;
    /// Token ids, classes, tags, token types.
    pub const VOCABULARY: usize = 1 << 28;
    /// Applications of a block.
    pub const LAYERS: usize = 1 << 14;
    /// Sublayers of one block.
    pub const SUBLAYERS: usize = 64;
    /// Heads of one attention, and numbers per head.
    pub const HEADS: usize = 1 << 16;
    /// Rows: positions, windows, remembered segments, rows that a projection covers.
    pub const ROWS: usize = 1 << 30;
    /// The side of a patch in pixels, and numbers per pixel.
    pub const PIXELS: usize = 1 << 12;
    /// Weights of one side, all matrices together.
    pub const WEIGHTS: u128 = 1 << 44;
}

/// One reason why a formula cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a path into the TOML or JSON: `target.stack.block[1].mix.attend.heads.query`.
    pub field: String,
    /// What is wrong there.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} (hint: {})", self.field, self.why, self.hint)
    }
}

impl std::error::Error for Problem {}

/// Everything that is wrong with a formula; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems, in the order of the fields.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the formula cannot work")?;
        for problem in &self.0 {
            write!(out, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Heads {
    /// The size of heads whose text left it out, until reading fills it in. [`Formula::check`] refuses it.
    pub const UNSTATED: usize = usize::MAX;

    /// `query` heads that share `width` evenly: `size = width / query`.
    ///
    /// Heads of another size (T5) are written as a literal.
    ///
    /// # Errors
    ///
    /// Where `query` does not divide `width`, where `key` does not divide `query`, and where one of them is 0.
    pub fn of(width: usize, query: usize, key: usize) -> Result<Self, Problem> {
        let mut report = Report::default();
        report.size("heads.query", query, limits::HEADS);
        report.size("heads.key", key, limits::HEADS);
        if query > 0 && key > 0 {
            attend::even_heads(&mut report, "heads", width, query);
            attend::grouped_heads(&mut report, "heads", query, key);
        }
        match report.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Self { query, key, size: width / query }),
        }
    }
}

impl Formula {
    /// Whether the formula can work.
    ///
    /// # Errors
    ///
    /// All the reasons why it cannot.
    pub fn check(&self) -> Result<(), Problems> {
        let mut report = Report::default();
        if self.source.is_none() && self.target.is_none() {
            report.refuse(
                "source",
                "there is neither a source nor a target side",
                "give a [source] to read, a [target] to write, or both",
            );
        }
        for (half, side) in self.halves() {
            let place = Place { half, formula: self };
            let before = report.problems.len();
            input(&mut report, &place, side);
            stack::check(&mut report, &place, side);
            // Only sizes that are fine one by one are worth multiplying.
            if report.problems.len() == before {
                stack::weights_fit(&mut report, &place, side);
            }
        }
        head(&mut report, self);
        if report.problems.is_empty() { Ok(()) } else { Err(Problems(report.problems)) }
    }
}

/// Where a check stands: the half, and the whole around it.
struct Place<'a> {
    half: Half,
    formula: &'a Formula,
}

/// The problems found so far.
#[derive(Default)]
struct Report {
    problems: Vec<Problem>,
}

impl Report {
    fn refuse(&mut self, field: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) {
        let problem = Problem { field: field.into(), why: why.into(), hint: hint.into() };
        // Two attentions of a block may meet the same wrong position.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// A size: at least 1, at most `limit`.
    fn size(&mut self, field: impl Into<String>, value: usize, limit: usize) {
        if value == 0 {
            self.refuse(field, "is 0", format!("give a size from 1 to {limit}"));
        } else if value > limit {
            self.refuse(field, format!("{value} cannot be meant"), format!("give a size from 1 to {limit}"));
        }
    }

    /// A size that may also be 0.
    fn size_or_none(&mut self, field: impl Into<String>, value: usize, limit: usize) {
        if value > limit {
            self.refuse(field, format!("{value} cannot be meant"), format!("give a size from 0 to {limit}"));
        }
    }

    /// A number above 0.
    fn positive(&mut self, field: impl Into<String>, value: f64) {
        if !(value.is_finite() && value > 0.0) {
            self.refuse(field, format!("{value} is not a positive number"), "give a finite number above 0");
        }
    }

    fn norm(&mut self, field: &str, norm: Option<Norm>) {
        let (kind, epsilon) = match norm {
            None => return,
            Some(Norm::Layer { epsilon, bias: _ }) => ("layer", epsilon),
            Some(Norm::Rms { epsilon }) => ("rms", epsilon),
        };
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            self.refuse(
                format!("{field}.{kind}.epsilon"),
                format!("{epsilon} would make the square root meaningless"),
                "give a small number such as 1e-5",
            );
        }
    }
}

fn input(report: &mut Report, place: &Place<'_>, side: &Side) {
    match &side.input {
        Input::Tokens(given) => tokens(report, place, given),
        Input::Patches(given) => patches(report, place, given),
    }
}

fn tokens(report: &mut Report, place: &Place<'_>, given: &Tokens) {
    let at = format!("{}.input.tokens", place.half.name());
    report.size(format!("{at}.vocabulary"), given.vocabulary, limits::VOCABULARY);
    if let Some(width) = given.width {
        report.size(format!("{at}.width"), width, limits::WIDTH);
    }
    if let Some(types) = given.types {
        report.size(format!("{at}.types"), types, limits::VOCABULARY);
    }
    report.norm(&format!("{at}.norm"), given.norm);
    match given.table {
        Table::Own => {}
        Table::Source => shared_table(report, place, given, &at),
    }
}

fn shared_table(report: &mut Report, place: &Place<'_>, given: &Tokens, at: &str) {
    let field = format!("{at}.table");
    let own = "write table = \"own\"";
    let other = match (place.half, &place.formula.source) {
        (Half::Source, _) => {
            return report.refuse(field, "the source cannot borrow its table from itself", own);
        }
        (Half::Target, None) => {
            return report.refuse(field, "there is no source to borrow a table from", own);
        }
        (Half::Target, Some(side)) => side,
    };
    let lender = match &other.input {
        Input::Tokens(lender) => lender,
        Input::Patches(_) => return report.refuse(field, "the source reads patches and has no table", own),
    };
    if lender.vocabulary != given.vocabulary {
        report.refuse(
            format!("{at}.vocabulary"),
            format!("{} ids, but the source's table has {}", given.vocabulary, lender.vocabulary),
            "give both sides one vocabulary, or the target a table of its own",
        );
    }
    let width = |side: &Side, tokens: &Tokens| tokens.width.unwrap_or(side.stack.width);
    let target = place.formula.target.as_ref().map(|side| width(side, given));
    if target != Some(width(other, lender)) {
        report.refuse(
            field,
            format!("the source's table is {} wide, the target needs another width", width(other, lender)),
            "give both sides one width, or the target a table of its own",
        );
    }
}

fn patches(report: &mut Report, place: &Place<'_>, given: &Patches) {
    let at = format!("{}.input.patches", place.half.name());
    if place.half == Half::Target {
        report.refuse(
            &at,
            "a target writes tokens, it cannot write patches",
            "put the image into the source",
        );
    }
    report.size(format!("{at}.size"), given.size, limits::PIXELS);
    report.size(format!("{at}.channels"), given.channels, limits::PIXELS);
    report.norm(&format!("{at}.norm"), given.norm);
}

fn head(report: &mut Report, formula: &Formula) {
    let Some(last) = formula.target.as_ref().or(formula.source.as_ref()) else { return };
    match &formula.head {
        Head::Rows | Head::Spans => {}
        Head::Words { tied, bias: _ } => words(report, last, *tied),
        Head::Classes { count, pool: _ } => report.size("head.classes.count", *count, limits::VOCABULARY),
        Head::Tags { count } => report.size("head.tags.count", *count, limits::VOCABULARY),
    }
}

fn words(report: &mut Report, last: &Side, tied: bool) {
    match &last.input {
        Input::Patches(_) => report.refuse(
            "head.words",
            "the last side reads patches, so there is no vocabulary to score",
            "choose the head rows, classes or tags, or add a target that reads tokens",
        ),
        Input::Tokens(Tokens { width: Some(width), .. }) if tied => report.refuse(
            "head.words.tied",
            format!(
                "the table is {width} wide and widened by a projection, so rows cannot be compared with it"
            ),
            "write tied = false, or leave out the table's width",
        ),
        Input::Tokens(_) => {}
    }
}
