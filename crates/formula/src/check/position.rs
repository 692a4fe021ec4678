//! Whether the stack's positions can enter where they are meant to.

use super::stack::attentions;
use super::{Place, Report, limits};
use crate::half::Half;
use crate::types::{
    Attention, Biases, Depth, Heads, Position, Reach, Rotary, Scaling, Side, Source, Stack, When,
};

pub(super) fn check(report: &mut Report, place: &Place<'_>, side: &Side) {
    let at = format!("{}.stack.position", place.half.name());
    let stack = &side.stack;
    match &stack.position {
        Position::None => {}
        Position::Sinusoidal { base, layout: _, when } => {
            let at = format!("{at}.sinusoidal");
            wavelength(report, &format!("{at}.base"), *base);
            sinusoid(report, &at, side, *when);
        }
        Position::Learned { max, offset } => {
            report.size(format!("{at}.learned.max"), *max, limits::ROWS);
            report.size_or_none(format!("{at}.learned.offset"), *offset, limits::ROWS);
        }
        Position::Rotary(given) => {
            needs_own(report, &at, stack);
            rotary(report, &format!("{at}.rotary"), given, stack);
        }
        Position::Alibi => needs_own(report, &at, stack),
        Position::Buckets { count, max_distance } => {
            needs_own(report, &at, stack);
            buckets(report, &format!("{at}.buckets"), stack, *count, *max_distance);
            one_shape(report, place, stack);
        }
        Position::TransformerXl { memory, biases } => {
            needs_own(report, &at, stack);
            match biases {
                Biases::Layer => {}
                Biases::Stack => one_shape(report, place, stack),
            }
            transformer_xl(report, place, &format!("{at}.transformer_xl"), stack, *memory);
        }
    }
}

/// Positions that live in the scores concern the stack's own rows alone: the memory has its order already.
fn own(stack: &Stack) -> impl Iterator<Item = (usize, &Attention)> {
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
    for (index, attention) in own(stack) {
        if (attention.heads.query, attention.heads.size) != (query, size) {
            report.refuse(
                format!("{}.stack.block[{index}].mix.attend.heads", place.half.name()),
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

fn sinusoid(report: &mut Report, at: &str, side: &Side, when: When) {
    even_width(report, at, side.stack.width);
    match (when, side.stack.depth) {
        (When::Once, _) | (When::EveryStep, Depth::Shared { .. } | Depth::Adaptive { .. }) => {}
        (When::EveryStep, Depth::Layers(_)) => report.refuse(
            format!("{at}.when"),
            "every_step tells the steps of one repeated block apart, but here every layer is its own block",
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

fn rotary(report: &mut Report, at: &str, given: &Rotary, stack: &Stack) {
    wavelength(report, &format!("{at}.base"), given.base);
    if let Some(size) = given.size {
        report.size(format!("{at}.size"), size, limits::HEADS);
    }
    for (index, attention) in own(stack) {
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
                format!("{rotated} numbers are to be rotated, but heads of block[{index}] have {size}"),
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
        Scaling::Yarn { factor, original, fast, slow, magnitude } => {
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
    report.size_or_none(format!("{at}.memory"), memory, limits::ROWS);
    even_width(report, at, stack.width);
    if place.half == Half::Source {
        report.refuse(
            at,
            "segments follow each other in a target; a source is read at once",
            "choose other positions for the source",
        );
    }
}
