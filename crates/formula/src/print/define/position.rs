//! Positions that are added to the rows, and the angles of those that rotate queries and keys.

use crate::half::Half;
use crate::print::expr::{Expr, Sign, at, call, float, over, prose, round, row, sub, sup};
use crate::print::names::step_signal;
use crate::types::{Counting, Formula, Pairing, Position, Rotary, Scaling, Side, Spread, When};

/// What is added to the embeddings: `+ PE` or `+ P[p]`.
pub(super) fn added(side: &Side) -> Vec<Expr> {
    let mut sum = Vec::new();
    for part in side.stack.position.parts() {
        match *part {
            Position::Sinusoidal { when: When::Once, offset: 0, .. } => {
                sum.extend([Sign::Plus.into(), "PE".into()]);
            }
            Position::Sinusoidal { when: When::Once, offset, .. } => {
                sum.extend([Sign::Plus.into(), at("PE", later(offset))]);
            }
            Position::Learned { max: _, offset, counting: _ } => {
                sum.extend([Sign::Plus.into(), at("P", later(offset))]);
            }
            Position::Sinusoidal { when: When::EveryStep, .. }
            | Position::None
            | Position::Rotary(_)
            | Position::Alibi
            | Position::Buckets { .. }
            | Position::TransformerXl { .. }
            | Position::Together(_) => {}
        }
    }
    sum
}

/// `p` or `p + 2`
fn later(offset: usize) -> Expr {
    if offset == 0 { "p".into() } else { row!["p", Sign::Plus, offset] }
}

/// The size of the learned table.
pub(super) fn table(side: &Side) -> Option<Expr> {
    side.stack.position.parts().iter().find_map(|part| match *part {
        Position::Learned { max, offset, counting } => {
            let shape = super::shape("P", max.saturating_add(offset), side.input_width());
            Some(row![Sign::Indent, shape, prose(left_out(counting, "the row before"))])
        }
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Rotary(_)
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::TransformerXl { .. }
        | Position::Together(_) => None,
    })
}

/// Which tokens positions do not count, and what those get.
fn left_out(counting: Counting, instead: &str) -> String {
    match counting {
        Counting::Every => String::new(),
        Counting::But(padding) => {
            format!(", p counts the tokens that are not {padding}; {padding} has {instead}")
        }
    }
}

/// Sines and cosines over a row.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Wave {
    base: f64,
    layout: Pairing,
    spread: Spread,
    width: usize,
    counting: Counting,
}

impl Wave {
    /// Transformer-XL's, of the distance between two rows.
    pub(super) fn of_distances(width: usize) -> Self {
        Self {
            base: 10_000.0,
            layout: Pairing::Halves,
            spread: Spread::Open,
            width,
            counting: Counting::Every,
        }
    }
}

/// The sinusoids that a side adds, with the offset and the time.
fn sinusoid_of(side: &Side) -> Option<(Wave, usize, When)> {
    side.stack.position.parts().iter().find_map(|part| match *part {
        Position::Sinusoidal { base, layout, spread, offset, when, counting } => {
            let width = match when {
                When::Once => side.input_width(),
                When::EveryStep => side.stack.width,
            };
            Some((Wave { base, layout, spread, width, counting }, offset, when))
        }
        Position::None
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::TransformerXl { .. }
        | Position::Together(_) => None,
    })
}

/// PE and, where steps are signalled, `PEₜ`; once if both sides agree.
pub(super) fn sinusoids(lines: &mut Vec<Expr>, formula: &Formula) {
    let sides = formula.halves().filter_map(|(half, side)| Some((half, sinusoid_of(side)?)));
    let found: Vec<_> = sides.collect();
    let agree = found.windows(2).all(|pair| pair[0].1 == pair[1].1);
    for (half, (wave, offset, when)) in found.into_iter().take(if agree { 1 } else { 2 }) {
        let whose = match (agree, half) {
            (true, Half::Source | Half::Target) => "",
            (false, Half::Source) => " (encoder)",
            (false, Half::Target) => " (decoder)",
        };
        let zeros = left_out(wave.counting, "zeros");
        lines.push(row![sinusoid("PE", "p", &wave), prose(whose), prose(zeros)]);
        match when {
            When::Once => {}
            When::EveryStep => {
                let sum = row![at("PE", later(offset)), Sign::Plus, at("PE", row!["t", Sign::Minus, 1])];
                let steps = prose(format!(", t = 1, 2, … the step{whose}"));
                lines.push(row![at(step_signal(), "p"), Sign::Equals, sum, steps]);
            }
        }
    }
}

/// `PE[p, 2j] = sin(p/10000^(2j/512)), PE[p, 2j + 1] = cos(p/10000^(2j/512))`
pub(super) fn sinusoid(name: &'static str, of: &'static str, wave: &Wave) -> Expr {
    let (even, odd) = match wave.layout {
        Pairing::Interleaved => (row![2, "j"], row![2, "j", Sign::Plus, 1]),
        Pairing::Halves => (row!["j"], row!["j", Sign::Plus, wave.width / 2]),
    };
    let share = match wave.spread {
        Spread::Open => over(row![2, "j"], wave.width),
        Spread::Closed => over("j", (wave.width / 2).saturating_sub(1)),
    };
    let power = sup(float(wave.base), share);
    let wave = |function: &'static str| call(function, over(of, power.clone()));
    let sine = row![at(name, row![of, Sign::Comma, even]), Sign::Equals, wave("sin")];
    row![sine, Sign::Comma, at(name, row![of, Sign::Comma, odd]), Sign::Equals, wave("cos")]
}

/// What Rot does to queries and keys.
pub(super) fn rotary(lines: &mut Vec<Expr>, rotary: &Rotary, head: usize) {
    let size = rotary.size.unwrap_or(head);
    let pair = match rotary.layout {
        Pairing::Interleaved => row![2, "j", Sign::Comma, 2, "j", Sign::Plus, 1],
        Pairing::Halves => row!["j", Sign::Comma, "j", Sign::Plus, size / 2],
    };
    let pairs = row![Sign::Indent, "Rot", prose(" turns the pair "), round(pair), prose(" of row p by ")];
    let whole = if size == head { prose("") } else { prose(format!(", the first {size} numbers alone")) };
    let angle = |name: Expr| row!["p", Sign::Beside, name];
    let theta = || sub("θ", "j");
    let plain = |base: Expr| sup(base, row![Sign::Negative, over(row![2, "j"], size)]);
    let given = row![Sign::Comma, theta(), Sign::Equals, plain(float(rotary.base)), whole];
    let scaled = sub("φ", "j");
    let mut line = |turn: Expr| lines.push(row![pairs.clone(), turn, given.clone()]);
    match &rotary.scaling {
        Scaling::None => line(angle(theta())),
        Scaling::Linear { factor } => line(over(angle(theta()), float(*factor))),
        Scaling::Dynamic { factor, original } => {
            line(angle(scaled.clone()));
            let grown =
                row![float(*factor), Sign::Beside, over("n", *original), Sign::Minus, float(factor - 1.0)];
            let power = sup(round(grown), over(size, size.saturating_sub(2)));
            let base = round(row![float(rotary.base), Sign::Dot, power]);
            let value = row![plain(base), prose(format!(" for texts of n > {original} rows, else "))];
            lines.push(row![Sign::Indent, scaled, Sign::Equals, value, theta()]);
        }
        Scaling::Yarn { factor, original, fast, slow, magnitude, whole: _ } => {
            line(angle(scaled.clone()));
            let mix = row![round(row![1, Sign::Minus, sub("r", "j")]), Sign::Beside, theta()];
            let slowed = row![sub("r", "j"), Sign::Beside, over(theta(), float(*factor))];
            let ramp = prose(format!(
                ", r rising from 0 at {fast} turns over {original} rows to 1 at {slow}, linearly in j; "
            ));
            let sharpened = prose("cosines and sines times ");
            let usual = if *factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 };
            let magnitude = magnitude.unwrap_or(usual);
            let value = row![mix, Sign::Plus, slowed, ramp, sharpened, float(magnitude)];
            lines.push(row![Sign::Indent, scaled, Sign::Equals, value]);
        }
        Scaling::Llama3 { factor, low, high, original } => {
            line(angle(scaled.clone()));
            let mix = row![sub("r", "j"), Sign::Beside, theta()];
            let slowed =
                row![round(row![1, Sign::Minus, sub("r", "j")]), Sign::Beside, over(theta(), float(*factor))];
            let turns =
                row![over(row![*original, Sign::Beside, theta()], row![2, "π"]), Sign::Minus, float(*low)];
            let ramp =
                row![sub("r", "j"), Sign::Equals, over(turns, float(high - low)), prose(" within 0 and 1")];
            let value = row![mix, Sign::Plus, slowed, Sign::Comma, ramp];
            lines.push(row![Sign::Indent, scaled, Sign::Equals, value]);
        }
        Scaling::Long { short, long, original, magnitude } => {
            line(over(angle(theta()), sub("s", "j")));
            let list = |divisors: &[f64]| {
                let divisors: Vec<String> = divisors.iter().map(f64::to_string).collect();
                prose(format!("({})", divisors.join(", ")))
            };
            let up_to = prose(format!(" up to {original} rows, "));
            let beyond = prose(" beyond; cosines and sines times ");
            let value = row![list(short), up_to, list(long), beyond, float(*magnitude)];
            lines.push(row![Sign::Indent, "s", Sign::Equals, value]);
        }
    }
}
