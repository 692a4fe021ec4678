//! Tables of sinusoids that a file holds: the reference computes them where they are missing, and else takes them as they are,
//! rounded to few bits or changed.

use glassformer_formula::{Counting, Formula, Position, Side, When};
use glassformer_graph::ops::{Counting as CountingOp, Pairing, Sinusoid, Spread, Wave};
use glassformer_graph::{Rows, Side as Half};
use glassformer_weights::Weights;

use crate::family::Sinusoids;
use crate::{Family, bind};

/// How far a table may lie from what is computed to be the same, but for how sines were rounded.
const SAME: f32 = 1e-6;

/// Gives each side of a family that takes such tables the one of the file, where it is not what would be computed.
pub(crate) fn stored(family: &mut Family, weights: &Weights) {
    if family.sinusoids == Sinusoids::Computed {
        return;
    }
    for half in [Half::Source, Half::Target] {
        let name = format!("{half}.embed.positions");
        let Ok((theirs, _)) = bind::find(&family.rules, family.prefixes, &name, weights) else { continue };
        let Some(&[rows, width]) = weights.shape(&theirs) else { continue };
        let side = match half {
            Half::Source => &mut family.formula.source,
            Half::Target => &mut family.formula.target,
        };
        if let Some(side) = side
            && let Some(wave) = wave(side)
            && !(width == side.stack.width && same(weights, &theirs, &Sinusoid { width, ..wave }))
        {
            side.stack.position = learned(rows);
        }
    }
}

/// `formula` with the tables of positions of `other`, where it would compute them.
pub(crate) fn with_tables_of(mut formula: Formula, other: &Formula) -> Formula {
    let sides = [(&mut formula.source, &other.source), (&mut formula.target, &other.target)];
    for (side, other) in sides {
        if let (Some(side), Some(other)) = (side, other)
            && wave(side).is_some()
            && let Position::Learned { max, offset: 0, .. } = other.stack.position
        {
            side.stack.position = learned(max);
        }
    }
    formula
}

fn learned(max: usize) -> Position {
    Position::Learned { max, offset: 0, counting: Counting::Every }
}

/// What `side` adds to its words, if that is a sinusoid of every row's number.
fn wave(side: &Side) -> Option<Sinusoid> {
    let Position::Sinusoidal { base, layout, spread, offset: 0, when: When::Once, counting: Counting::Every } =
        side.stack.position
    else {
        return None;
    };
    let pairing = match layout {
        glassformer_formula::Pairing::Interleaved => Pairing::Interleaved,
        glassformer_formula::Pairing::Halves => Pairing::Halves,
    };
    let spread = match spread {
        glassformer_formula::Spread::Open => Spread::Open,
        glassformer_formula::Spread::Closed => Spread::Closed,
    };
    let wave = Wave { base, spread, pairing };
    let (rows, counting) = (Rows::Fixed(1), CountingOp::Every);
    Some(Sinusoid { rows, start: 0, counting, width: side.stack.width, wave, clamp: None })
}

/// Whether the tensor `name` holds the rows of `op`.
fn same(weights: &Weights, name: &str, op: &Sinusoid) -> bool {
    let Some(view) = weights.get(name) else { return false };
    let values = view.values();
    let turns: Vec<f64> = (0..op.width / 2).map(|i| op.angle(1, i)).collect();
    let near = |found: f32, computed: f64| (found - computed as f32).abs() <= SAME;
    let row = |(position, row): (usize, &[f32])| {
        turns.iter().enumerate().all(|(i, turn)| {
            let (sine, cosine) = (position as f64 * turn).sin_cos();
            let (a, b) = op.wave.pairing.columns(i, op.width);
            near(row[a], sine) && near(row[b], cosine)
        })
    };
    values.chunks_exact(op.width).enumerate().all(row)
}
