//! What an attention may look at, with which heads.

use super::blocks::attentions;
use super::{Place, Report, limits, position};
use crate::half::Half;
use crate::types::{Attention, Global, Heads, Pattern, Position, Reach, Scale, Sharing, Source, Stack};

pub(super) fn check(report: &mut Report, place: &Place<'_>, at: &str, given: &Attention, stack: &Stack) {
    match given.source {
        Source::Own => own(report, place, at, given),
        Source::Memory => memory(report, place, at, given),
    }
    heads(report, &format!("{at}.heads"), given.heads, stack.width);
    pattern(report, at, given, &stack.position);
    match given.scale {
        Scale::RootSize | Scale::One => {}
        Scale::By(factor) => report.positive(format!("{at}.scale.by"), f64::from(factor)),
    }
    report.norm(&format!("{at}.norm"), given.norm);
    position::other_angles(report, &format!("{at}.rotary"), given, stack);
}

fn own(report: &mut Report, place: &Place<'_>, at: &str, given: &Attention) {
    if place.half == Half::Target && given.reach == Reach::Both {
        report.refuse(
            format!("{at}.reach"),
            "the target would look at words that it has not written yet",
            "write reach = \"past\"",
        );
    }
}

fn memory(report: &mut Report, place: &Place<'_>, at: &str, given: &Attention) {
    let field = format!("{at}.source");
    match (place.half, &place.formula.source) {
        (Half::Source, _) => {
            report.refuse(field, "the source is the memory, it cannot look at it", "write source = \"own\"");
        }
        (Half::Target, None) => {
            report.refuse(
                field,
                "there is no source to look at",
                "add a [source], or write source = \"own\"",
            );
        }
        (Half::Target, Some(_)) => {}
    }
    if given.reach == Reach::Past {
        report.refuse(
            format!("{at}.reach"),
            "the memory has no past: all of it is there before the first word is written",
            "write reach = \"both\"",
        );
    }
    match given.pattern {
        Pattern::Dense => {}
        Pattern::Sliding { window: _, global: _ } => report.refuse(
            format!("{at}.pattern.sliding"),
            "rows of the target and of the source have no distance, so no window",
            "write pattern = \"dense\"",
        ),
        Pattern::LowRank { rank: _, length: _, sharing: _ } => report.refuse(
            format!("{at}.pattern.low_rank"),
            "the projection belongs to the stack's own rows, not to the memory",
            "write pattern = \"dense\"",
        ),
    }
}

fn heads(report: &mut Report, at: &str, given: Heads, width: usize) {
    let Heads { query, key, size } = given;
    report.size(format!("{at}.query"), query, limits::HEADS);
    report.size(format!("{at}.key"), key, limits::HEADS);
    if query > 0 && key > 0 {
        grouped_heads(report, at, query, key);
    }
    if size != Heads::UNSTATED {
        report.size(format!("{at}.size"), size, limits::HEADS);
    } else if query > 0 {
        if !even_heads(report, at, width, query) {
            return;
        }
        report.refuse(
            format!("{at}.size"),
            "is not stated",
            format!("write size = {}, or read the formula as text", width / query),
        );
    }
}

/// Whether `query` heads share `width` evenly; refuses it where they do not.
pub(super) fn even_heads(report: &mut Report, at: &str, width: usize, query: usize) -> bool {
    let even = width > 0 && width.is_multiple_of(query);
    if !even {
        report.refuse(
            format!("{at}.query"),
            format!("{query} heads do not divide the width {width}"),
            "choose a number of heads that divides the width, or state heads.size",
        );
    }
    even
}

pub(super) fn grouped_heads(report: &mut Report, at: &str, query: usize, key: usize) {
    if !query.is_multiple_of(key) {
        report.refuse(
            format!("{at}.query"),
            format!("{query} query heads are not a multiple of {key} key heads"),
            "every key head must serve the same number of query heads",
        );
    }
}

fn pattern(report: &mut Report, at: &str, given: &Attention, position: &Position) {
    match given.pattern {
        Pattern::Dense => {}
        Pattern::Sliding { window, global } => {
            let at = format!("{at}.pattern.sliding");
            report.size_or_none(format!("{at}.window"), window, limits::ROWS); // 0: the row itself
            if global != Global::None && given.reach == Reach::Past {
                report.refuse(
                    format!("{at}.global"),
                    "a global row is seen by all, also by rows before it, but the reach is the past",
                    "write global = \"none\", or reach = \"both\"",
                );
            }
        }
        Pattern::LowRank { rank, length, sharing: _ } => {
            let at = format!("{at}.pattern.low_rank");
            report.size(format!("{at}.rank"), rank, limits::ROWS);
            report.size(format!("{at}.length"), length, limits::ROWS);
            if rank > length {
                report.refuse(
                    format!("{at}.rank"),
                    format!("{rank} is more than the {length} rows that there are to squeeze"),
                    "give a rank of at most length",
                );
            }
            low_rank(report, &at, given, position);
        }
    }
}

/// Squeezed rows have no single position, so neither a mask nor a distance can be applied to them.
fn low_rank(report: &mut Report, field: &str, given: &Attention, position: &Position) {
    if given.reach == Reach::Past {
        report.refuse(
            field,
            "every squeezed row mixes past and future, so the past cannot be masked out",
            "write reach = \"both\", or another pattern",
        );
    }
    for part in position.parts() {
        no_distance(report, field, part);
    }
}

fn no_distance(report: &mut Report, field: &str, position: &Position) {
    let name = match position {
        Position::None | Position::Sinusoidal { .. } | Position::Learned { .. } | Position::Together(_) => {
            return;
        }
        Position::Rotary(_) => "rotary",
        Position::Alibi => "alibi",
        Position::Buckets { .. } => "buckets",
        Position::TransformerXl { .. } => "transformer_xl",
    };
    report.refuse(
        field,
        format!("squeezed rows have no distance, so {name} positions cannot reach them"),
        "choose sinusoidal or learned positions, or another pattern",
    );
}

/// A projection shared by all layers must be the same everywhere in the stack.
pub(super) fn one_projection(report: &mut Report, at: &str, stack: &Stack) {
    let mut first = None;
    for (path, attention) in attentions(stack) {
        let (rank, length) = match attention.pattern {
            Pattern::LowRank { rank, length, sharing: Sharing::Layers } => (rank, length),
            Pattern::LowRank { rank: _, length: _, sharing: Sharing::Heads | Sharing::KeyValue }
            | Pattern::Dense
            | Pattern::Sliding { window: _, global: _ } => continue,
        };
        match first {
            None => first = Some((rank, length)),
            Some(shared) if shared == (rank, length) => {}
            Some((other, covered)) => report.refuse(
                format!("{at}.{path}.mix.attend.pattern.low_rank"),
                format!("{rank} of {length} rows, but the layers share a projection to {other} of {covered}"),
                "give all of them one rank and one length, or another sharing",
            ),
        }
    }
}
