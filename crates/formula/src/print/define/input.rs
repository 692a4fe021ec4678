//! How rows come in.

use super::{position, rows_letter, shape, target_rows};
use crate::half::Half;
use crate::print::expr::{Expr, Fence, Sign, at, call, fence, joined, prose, root, round, row, sub, sup};
use crate::print::names::Names;
use crate::types::{Clusters, Input, InputScale, Lead, Patches, Side, Table, Tokens};

/// `X = E[x] · √512 + PE`
pub(super) fn lines(lines: &mut Vec<Expr>, names: &Names<'_>, half: Half, side: &Side) {
    match &side.input {
        Input::Tokens(given) => tokens(lines, names, half, (side, given)),
        Input::Patches(given) => patches(lines, names, side, given),
    }
    lines.extend(position::table(side));
}

fn patches(lines: &mut Vec<Expr>, names: &Names<'_>, side: &Side, given: &Patches) {
    let name = sub("Patch", given.size);
    let square = row![given.size, Sign::Cross, given.size, Sign::Cross, given.channels];
    let projected = row!["s", Sign::Beside, sub("W", "P"), Sign::Plus, sub("b", "P")];
    let lead = match given.lead {
        Lead::None => prose(""),
        Lead::Class => prose(", and before them one learned row with its position"),
    };
    let placed = Expr::Row([projected].into_iter().chain(position::added(side)).collect());
    let normed = match given.norm {
        None => placed,
        Some(norm) => call(names.norm(norm), placed),
    };
    let squares = row![prose(" for every square s of "), square, prose(" numbers")];
    lines.push(row![call(name, "X"), Sign::Equals, normed, squares, lead]);
    let numbers = given.size.saturating_mul(given.size).saturating_mul(given.channels);
    lines.push(row![Sign::Indent, shape(sub("W", "P"), numbers, side.stack.width)]);
}

fn tokens(lines: &mut Vec<Expr>, names: &Names<'_>, half: Half, of: (&Side, &Tokens)) {
    let (side, given) = of;
    let rows = match half {
        Half::Source => "X".into(),
        Half::Target => target_rows(names.formula),
    };
    let id: Expr = rows_letter(names, half).into();
    let table = names.table(half);
    lines.push(if let Some(clusters) = &given.clusters {
        let place = row![id.clone(), Sign::Minus, sub("c", "i")];
        let found = at(of_cluster(table.clone(), "i"), place);
        let found = if clusters.projects(side.stack.width) {
            row![found, Sign::Beside, of_cluster("U", "i")]
        } else {
            found
        };
        row![rows, Sign::Equals, value(names, of, found), prose(" where "), within_cluster(id)]
    } else {
        row![rows, Sign::Equals, value(names, of, at(table.clone(), id))]
    });
    let width = side.stack.width;
    let mut shapes = Vec::new();
    match (given.table, &given.clusters) {
        (Table::Own, None) => shapes.push(shape(table, given.vocabulary, side.input_width())),
        (Table::Own, Some(clusters)) => {
            lines.push(row![Sign::Indent, cuts(clusters, given.vocabulary)]);
            for (index, cluster) in clusters.list(given.vocabulary, width).into_iter().enumerate() {
                let words = cluster.to.saturating_sub(cluster.from);
                shapes.push(shape(of_cluster(table.clone(), index), words, cluster.width));
                if clusters.projects(width) {
                    shapes.push(shape(of_cluster("U", index), cluster.width, width));
                }
            }
        }
        (Table::Source, _) => {}
    }
    shapes.extend(given.width.map(|narrow| shape(sub("W", "E"), narrow, width)));
    shapes.extend(given.types.map(|types| shape("T", types, side.input_width())));
    if !shapes.is_empty() {
        lines.push(row![Sign::Indent, joined(shapes, Sign::Comma)]);
    }
}

/// What becomes of a row that was found in the table. Narrow rows are widened at the end.
fn value(names: &Names<'_>, of: (&Side, &Tokens), found: Expr) -> Expr {
    let (side, given) = of;
    let mut sum = match given.scale {
        InputScale::One => vec![found],
        InputScale::RootWidth => vec![found, Sign::Dot.into(), root(side.stack.width)],
    };
    if given.types.is_some() {
        sum.extend([Sign::Plus.into(), at("T", "type")]);
    }
    sum.extend(position::added(side));
    let alone = sum.len() == 1;
    let sum = Expr::Row(sum);
    let (value, alone) = match given.norm {
        None => (sum, alone),
        Some(norm) => (call(names.norm(norm), sum), true),
    };
    if given.width.is_none() {
        return value;
    }
    let value = if alone { value } else { round(value) };
    row![value, Sign::Beside, sub("W", "E"), Sign::Plus, sub("b", "E")]
}

/// Something that a cluster has one of: `E⁽ⁱ⁾`.
pub(super) fn of_cluster(letter: impl Into<Expr>, cluster: impl Into<Expr>) -> Expr {
    sup(letter, round(cluster))
}

/// `cᵢ ≤ x < cᵢ₊₁`
pub(super) fn within_cluster(id: Expr) -> Expr {
    let next = sub("c", row!["i", Sign::Plus, 1]);
    row![sub("c", "i"), Sign::AtMost, id, Sign::Less, next]
}

/// `c = (0, 20000, 40000)`: where clusters begin, and the vocabulary's end.
pub(super) fn cuts(clusters: &Clusters, vocabulary: usize) -> Expr {
    let bounds = [0].into_iter().chain(clusters.cuts.iter().copied()).chain([vocabulary]);
    row!["c", Sign::Equals, fence(Fence::Round, joined(bounds.map(Expr::from), Sign::Comma))]
}
