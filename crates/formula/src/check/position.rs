//! Whether the stack's positions can enter where they are meant to.

use super::blocks::attentions;
use super::{Place, Report, limits};
use crate::half::Half;
use crate::types::{
    Attention, Biases, Counting, Depth, Heads, Input, Position, Reach, Rotary, Scaling, Side, Source, Spread,
    Stack, When,
};

pub(super) fn check(report: &mut Report, place: &Place<'_>, side: &Side) {
    let at = format!("{}.stack.position", place.half.name());
    if let Position::Together(parts) = &side.stack.position {
        together(report, &format!("{at}.together"), parts);
        for (index, part) in parts.iter().enumerate() {
            one(report, place, side, (&format!("{at}.together[{index}]"), part));
        }
    } else {
        one(report, place, side, (&at, &side.stack.position));
    }
}

/// One way to tell positions.
fn one(report: &mut Report, place: &Place<'_>, side: &Side, of: (&str, &Position)) {
    let (at, position) = of;
    let stack = &side.stack;
    match position {
        Position::None | Position::Together(_) => {}
        Position::Sinusoidal { base, layout: _, spread, offset, when, counting } => {
            let at = format!("{at}.sinusoidal");
            counted(report, &at, side, (*counting, None));
            wavelength(report, &format!("{at}.base"), *base);
            report.size_or_none(format!("{at}.offset"), *offset, limits::ROWS);
            sinusoid(report, &at, side, (*spread, *when));
        }
        Position::Learned { max, offset, counting } => {
            counted(report, &format!("{at}.learned"), side, (*counting, Some(*offset)));
            report.size(format!("{at}.learned.max"), *max, limits::ROWS);
            report.size_or_none(format!("{at}.learned.offset"), *offset, limits::ROWS);
        }
        Position::Rotary(given) => {
            needs_own(report, at, stack);
            let followers = own(stack).filter(|(_, attention)| attention.rotary.is_none());
            rotary(report, &format!("{at}.rotary"), given, followers);
        }
        Position::Alibi => needs_own(report, at, stack),
        Position::Buckets { count, max_distance } => {
            needs_own(report, at, stack);
            buckets(report, &format!("{at}.buckets"), stack, *count, *max_distance);
            one_shape(report, place, stack);
        }
        Position::TransformerXl { memory, biases, clamp, start: _ } => {
            needs_own(report, at, stack);
            match biases {
                Biases::Layer => {}
                Biases::Stack => one_shape(report, place, stack),
            }
            let at = format!("{at}.transformer_xl");
            if let Some(clamp) = clamp {
                report.size(format!("{at}.clamp"), *clamp, limits::ROWS);
            }
            transformer_xl(report, place, &at, stack, *memory);
        }
    }
}

/// What is not counted is a token, and where there is a table, it has the row before the others.
fn counted(report: &mut Report, at: &str, side: &Side, of: (Counting, Option<usize>)) {
    let (Counting::But(_), offset) = of else { return };
    if matches!(side.input, Input::Patches(_)) {
        let why = "leaves out tokens, and the input has patches";
        report.refuse(format!("{at}.counting"), why, "write counting = \"every\", or leave it out");
    }
    if offset == Some(0) {
        let why = "leaves out tokens, which need a row of the table before that of position 0";
        report.refuse(format!("{at}.counting"), why, "write offset = 1 or more");
    }
}

/// Where positions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Input,
    Turn,
    Scores,
}

/// Several ways at once: at most one for each place where positions enter.
fn together(report: &mut Report, at: &str, parts: &[Position]) {
    if parts.is_empty() {
        report.refuse(at, "is empty", "list the ways, or write position = \"none\"");
    }
    let mut taken = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let (entry, place) = match part {
            Position::None => {
                report.refuse(at, "says that there are no positions, beside others", "leave it out");
                continue;
            }
            Position::Together(_) => {
                report.refuse(at, "lists several ways within the list", "write one list");
                continue;
            }
            Position::Sinusoidal { .. } | Position::Learned { .. } => (Entry::Input, "is added to the input"),
            Position::Rotary(_) => (Entry::Turn, "turns queries and keys"),
            Position::Alibi | Position::Buckets { .. } | Position::TransformerXl { .. } => {
                (Entry::Scores, "is added to the scores")
            }
        };
        if taken.contains(&entry) {
            report.refuse(at, format!("is the second one that {place}"), "keep one for each place");
        }
        taken.push(entry);
    }
    let has = |wanted: fn(&Position) -> bool| parts.iter().any(wanted);
    if has(|part| matches!(part, Position::TransformerXl { .. }))
        && has(|part| matches!(part, Position::Rotary(_)))
    {
        report.refuse(
            at,
            "transformer_xl compares queries with distances, and rotary would turn them first",
            "keep one of the two",
        );
    }
}

/// The angles that an attention has instead of the stack's.
pub(super) fn other_angles(report: &mut Report, at: &str, given: &Attention, stack: &Stack) {
    let Some(angles) = &given.rotary else { return };
    match given.source {
        Source::Own => {}
        Source::Memory => {
            return report.refuse(
                at,
                "rows of the target and of the source have no distance, so nothing is turned",
                "leave out rotary where source = \"memory\"",
            );
        }
    }
    if !stack.position.parts().iter().any(|part| matches!(part, Position::Rotary(_))) {
        report.refuse(
            at,
            "replaces the angles of the stack's rotary position, and it has none",
            "write position.rotary, or leave this out",
        );
    }
    rotary(report, at, angles, [("this block".to_owned(), given)].into_iter());
}

/// Positions that live in the scores concern the stack's own rows alone: the memory has its order already.
fn own(stack: &Stack) -> impl Iterator<Item = (String, &Attention)> {
    attentions(stack).filter(|(_, attention)| attention.source == Source::Own)
}

fn needs_own(report: &mut Report, at: &str, stack: &Stack) {
    if !stack.block.is_empty() && own(stack).next().is_none() {
        report.refuse(
            at,
            "these positions enter through self-attention, and the block has none",
            "add an attend sublayer with source = \"own\", or choose other positions",
        );
    }
}

/// Learned positions that the whole stack shares have one number, or one vector, for each head.
fn one_shape(report: &mut Report, place: &Place<'_>, stack: &Stack) {
    let Some((_, first)) = own(stack).next() else { return };
    let (query, size) = (first.heads.query, first.heads.size);
    for (path, attention) in own(stack) {
        if (attention.heads.query, attention.heads.size) != (query, size) {
            report.refuse(
                format!("{}.stack.{path}.mix.attend.heads", place.half.name()),
                format!(
                    "the stack's positions are learned for {query} heads of {size}, and these are others"
                ),
                "give all self-attentions of the block the same heads",
            );
        }
    }
}

fn wavelength(report: &mut Report, field: &str, base: f64) {
    if !(base.is_finite() && base > 1.0) {
        report.refuse(
            field,
            format!("{base} would not make wavelengths grow"),
            "give a number above 1, such as 10000",
        );
    }
}

fn sinusoid(report: &mut Report, at: &str, side: &Side, of: (Spread, When)) {
    let (spread, when) = of;
    let width = match when {
        When::Once => side.input_width(),
        When::EveryStep => side.stack.width,
    };
    even_width(report, at, width);
    match spread {
        Spread::Open => {}
        Spread::Closed if width >= 4 => {}
        Spread::Closed => report.refuse(
            format!("{at}.spread"),
            format!("the wavelengths run from the first pair to the last, and the width {width} has no two"),
            "write spread = \"open\", or choose a width of at least 4",
        ),
    }
    match (when, side.stack.depth) {
        (When::Once, _) | (When::EveryStep, Depth::Shared { .. } | Depth::Adaptive { .. }) => {}
        (When::EveryStep, Depth::Layers(_) | Depth::Groups { .. }) => report.refuse(
            format!("{at}.when"),
            "every_step tells the steps of one repeated block apart, but here layers are blocks of their own",
            "write when = \"once\", or choose the depth shared or adaptive",
        ),
    }
}

fn even_width(report: &mut Report, at: &str, width: usize) {
    if !width.is_multiple_of(2) {
        report.refuse(
            at,
            format!("sines and cosines come in pairs, but the width {width} is odd"),
            "choose an even width or other positions",
        );
    }
}

fn rotary<'a>(
    report: &mut Report,
    at: &str,
    given: &Rotary,
    turned: impl Iterator<Item = (String, &'a Attention)>,
) {
    wavelength(report, &format!("{at}.base"), given.base);
    if let Some(size) = given.size {
        report.size(format!("{at}.size"), size, limits::HEADS);
    }
    for (path, attention) in turned {
        let size = attention.heads.size;
        if size == Heads::UNSTATED {
            continue; // refused where the heads are checked
        }
        let rotated = given.size.unwrap_or(size);
        let field = match given.size {
            Some(_) => format!("{at}.size"),
            None => at.to_owned(),
        };
        if !rotated.is_multiple_of(2) {
            report.refuse(
                &field,
                format!("pairs of numbers are rotated, but {rotated} is odd"),
                "rotate an even number of each head (rotary.size)",
            );
        }
        if rotated > size {
            report.refuse(
                &field,
                format!("{rotated} numbers are to be rotated, but heads of {path} have {size}"),
                "rotate at most the whole head",
            );
        }
        scaling(report, &format!("{at}.scaling"), &given.scaling, rotated);
    }
}

fn scaling(report: &mut Report, at: &str, given: &Scaling, rotated: usize) {
    match given {
        Scaling::None => {}
        Scaling::Linear { factor } => report.positive(format!("{at}.linear.factor"), *factor),
        Scaling::Dynamic { factor, original } => {
            report.positive(format!("{at}.dynamic.factor"), *factor);
            report.size(format!("{at}.dynamic.original"), *original, limits::ROWS);
            if rotated == 2 {
                report.refuse(
                    format!("{at}.dynamic"),
                    "the base grows by a power of size/(size − 2), and the rotated size is 2",
                    "rotate more numbers or choose another scaling",
                );
            }
        }
        Scaling::Yarn { factor, original, fast, slow, magnitude, whole: _ } => {
            let at = format!("{at}.yarn");
            report.positive(format!("{at}.factor"), *factor);
            report.size(format!("{at}.original"), *original, limits::ROWS);
            ordered(report, &at, ("slow", *slow), ("fast", *fast));
            if let Some(magnitude) = magnitude {
                report.positive(format!("{at}.magnitude"), *magnitude);
            }
        }
        Scaling::Llama3 { factor, low, high, original } => {
            let at = format!("{at}.llama3");
            report.positive(format!("{at}.factor"), *factor);
            ordered(report, &at, ("low", *low), ("high", *high));
            report.size(format!("{at}.original"), *original, limits::ROWS);
        }
        Scaling::Long { short, long, original, magnitude } => {
            let at = format!("{at}.long");
            divisors(report, &format!("{at}.short"), short, rotated);
            divisors(report, &format!("{at}.long"), long, rotated);
            report.size(format!("{at}.original"), *original, limits::ROWS);
            report.positive(format!("{at}.magnitude"), *magnitude);
        }
    }
}

fn ordered(report: &mut Report, at: &str, low: (&str, f64), high: (&str, f64)) {
    report.positive(format!("{at}.{}", low.0), low.1);
    report.positive(format!("{at}.{}", high.0), high.1);
    if low.1 >= high.1 {
        report.refuse(
            format!("{at}.{}", high.0),
            format!("{} is not above {} = {}", high.1, low.0, low.1),
            "give the two in order",
        );
    }
}

fn divisors(report: &mut Report, field: &str, list: &[f64], rotated: usize) {
    if list.len() != rotated / 2 {
        report.refuse(
            field,
            format!("{} divisors for {} angles", list.len(), rotated / 2),
            "give one for every pair of rotated numbers",
        );
    }
    if let Some(index) = list.iter().position(|divisor| !(divisor.is_finite() && *divisor > 0.0)) {
        report.positive(format!("{field}[{index}]"), list[index]);
    }
}

fn buckets(report: &mut Report, at: &str, stack: &Stack, count: usize, max_distance: usize) {
    report.size(format!("{at}.count"), count, limits::VOCABULARY);
    report.size(format!("{at}.max_distance"), max_distance, limits::ROWS);
    for (_, attention) in own(stack) {
        // Half of a direction's buckets hold one distance each, the other half grow up to `max_distance`.
        let (least, directions) = match attention.reach {
            Reach::Both => (4, 2),
            Reach::Past => (2, 1),
        };
        let field = format!("{at}.count");
        if count < least {
            report.refuse(
                field,
                format!("{count} buckets are too few"),
                format!("give at least {least}: one near and one far for each direction"),
            );
        } else if !count.is_multiple_of(directions) {
            report.refuse(
                field,
                format!("{count} buckets cannot be divided between the two directions"),
                "give an even number",
            );
        } else if max_distance <= count / directions / 2 {
            report.refuse(
                format!("{at}.max_distance"),
                format!("{max_distance} is within the {} exact buckets", count / directions / 2),
                "give a greater distance or fewer buckets",
            );
        }
    }
}

fn transformer_xl(report: &mut Report, place: &Place<'_>, at: &str, stack: &Stack, memory: usize) {
    report.size_or_none(format!("{at}.memory"), memory, limits::MEMORY);
    even_width(report, at, stack.width);
    if place.half == Half::Source {
        report.refuse(
            at,
            "segments follow each other in a target; a source is read at once",
            "choose other positions for the source",
        );
    }
}
