//! One attention: its heads, where their queries, keys and values come from, and what is done to their scores.

use super::{position, shape};
use crate::print::expr::{
    Expr, Fence, Sign, at, call, fence, float, joined, over, prose, root, round, row, sub, sub_sup, sup,
    transposed,
};
use crate::print::names::{Names, Site};
use crate::types::{Biases, Global, Pattern, Position, Reach, Scale, Sharing, Source, Start};

pub(super) fn lines(lines: &mut Vec<Expr>, names: &Names<'_>, site: &Site) {
    let attention = &site.attention;
    let heads = attention.heads;
    let arguments = match attention.source {
        Source::Own => "x".into(),
        Source::Memory => row!["x", Sign::Comma, "M"],
    };
    let all = [sub("head", 1), Sign::Dots.into(), sub("head", heads.query)];
    let all = if heads.query == 1 { sub("head", 1) } else { joined(all, Sign::Comma) };
    let value =
        biased(row![call("concat", all), Sign::Beside, sub("W", "O")], attention.bias.output, sub("b", "O"));
    lines.push(row![call(names.site(site), arguments), Sign::Equals, value]);
    lines.push(row![
        Sign::Indent,
        sub("head", "i"),
        Sign::Equals,
        call("softmax", scores(site)),
        Sign::Beside,
        values(site)
    ]);
    lines.push(projections(names, site));
    lines.push(sizes(site));
    mask(lines, site);
    squeeze(lines, site);
    in_scores(lines, site);
}

fn biased(value: Expr, bias: bool, name: Expr) -> Expr {
    if bias { row![value, Sign::Plus, name] } else { value }
}

/// What softmax is taken of.
fn scores(site: &Site) -> Expr {
    let attention = &site.attention;
    let keys = match attention.pattern {
        Pattern::Dense | Pattern::Sliding { .. } => "K".into(),
        Pattern::LowRank { .. } => round(row![low_rank(site).0, Sign::Beside, "K"]),
    };
    let turned = |x: Expr| if site.turn.is_some() { call("Rot", x) } else { x };
    let product = match site.scores {
        Position::TransformerXl { .. } => {
            let query = round(row!["Q", Sign::Plus, by_head("u")]);
            let content = row![query, Sign::Beside, transposed(keys)];
            row![content, Sign::Plus, "Z"]
        }
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::Together(_) => row![turned("Q".into()), Sign::Beside, transposed(turned(keys))],
    };
    let mut row = vec![match attention.scale {
        Scale::RootSize => over(product, root(attention.heads.size)),
        Scale::One => product,
        Scale::By(factor) => row![float(factor), Sign::Dot, round(product)],
    }];
    match site.scores {
        Position::Alibi => row.extend([Sign::Minus.into(), sub("m", "i"), Sign::Beside.into(), "D".into()]),
        Position::Buckets { .. } => row.extend([Sign::Plus.into(), by_head("B")]),
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::TransformerXl { .. }
        | Position::Together(_) => {}
    }
    if condition(site).is_some() {
        row.extend([Sign::Plus.into(), "Mask".into()]);
    }
    Expr::Row(row)
}

fn values(site: &Site) -> Expr {
    match site.attention.pattern {
        Pattern::Dense | Pattern::Sliding { .. } => "V".into(),
        Pattern::LowRank { .. } => row![low_rank(site).1, Sign::Beside, "V"],
    }
}

/// A matrix of one head: `W_Q⁽ⁱ⁾`.
fn of_head(letter: &'static str, below: &'static str, head: &'static str) -> Expr {
    sub_sup(letter, below, round(head))
}

/// Something that a head has one of: `u⁽ⁱ⁾`.
fn by_head(letter: &'static str) -> Expr {
    sup(letter, round("i"))
}

/// The index of a head's keys and values: its own, or its group's.
fn key_head(site: &Site) -> &'static str {
    if site.attention.heads.key == site.attention.heads.query { "i" } else { "g" }
}

/// `Q = x W_Q⁽ⁱ⁾ + b_Q⁽ⁱ⁾, K = …, V = …`
fn projections(names: &Names<'_>, site: &Site) -> Expr {
    let attention = &site.attention;
    let bias = attention.bias;
    let group = key_head(site);
    let from = || match (attention.source, &site.scores) {
        (Source::Memory, _) => Expr::from("M"),
        (Source::Own, Position::TransformerXl { .. }) => fence(Fence::Index, row!["H", prose("; "), "x"]),
        (Source::Own, _) => Expr::from("x"),
    };
    let normed = |value: Expr| match attention.norm {
        None => value,
        Some(norm) => call(names.norm(norm), value),
    };
    let projected = |from: Expr, letter: &'static str, head: &'static str, bias: bool| {
        biased(row![from, Sign::Beside, of_head("W", letter, head)], bias, of_head("b", letter, head))
    };
    let query = normed(projected("x".into(), "Q", "i", bias.query));
    let key = normed(projected(from(), "K", group, bias.key));
    let value = projected(from(), "V", group, bias.value);
    let line = row![
        Sign::Indent,
        "Q",
        Sign::Equals,
        query,
        Sign::Comma,
        "K",
        Sign::Equals,
        key,
        Sign::Comma,
        "V",
        Sign::Equals,
        value
    ];
    let heads = attention.heads;
    match heads.query.checked_div(heads.key) {
        Some(share) if group == "g" => {
            row![line, Sign::Comma, "g", Sign::Equals, fence(Fence::Ceiling, over("i", share))]
        }
        Some(_) | None => line,
    }
}

fn sizes(site: &Site) -> Expr {
    let heads = site.attention.heads;
    let group = key_head(site);
    let query = of_head("W", "Q", "i");
    let keys = row![of_head("W", "K", group), Sign::Comma, of_head("W", "V", group)];
    let inward = if site.from == site.width {
        shape(row![query, Sign::Comma, keys], site.width, heads.size)
    } else {
        row![shape(query, site.width, heads.size), Sign::Comma, shape(keys, site.from, heads.size)]
    };
    let outward = shape(sub("W", "O"), heads.query.saturating_mul(heads.size), site.width);
    row![Sign::Indent, inward, Sign::Comma, outward]
}

/// Which pairs (p, q) of a query's and a key's row count, if not all.
fn condition(site: &Site) -> Option<Expr> {
    let distance = || row!["p", Sign::Minus, "q"];
    let (window, global) = match site.attention.pattern {
        Pattern::Dense | Pattern::LowRank { .. } => (None, Global::None),
        Pattern::Sliding { window, global } => (Some(window), global),
    };
    let near = match (site.attention.reach, window) {
        (Reach::Both, None) => return None,
        (Reach::Past, None) => row!["q", Sign::AtMost, "p"],
        (Reach::Both, Some(window)) => row![fence(Fence::Bars, distance()), Sign::AtMost, window],
        (Reach::Past, Some(window)) => row![0, Sign::AtMost, distance(), Sign::AtMost, window],
    };
    Some(match global {
        Global::None => near,
        Global::Shared | Global::Separate => row![near, prose(" or p or q is global")],
    })
}

fn mask(lines: &mut Vec<Expr>, site: &Site) {
    if let Some(condition) = condition(site) {
        let entry = row![Sign::Indent, at("Mask", row!["p", Sign::Comma, "q"]), Sign::Equals];
        lines.push(row![entry, 0, prose(" where "), condition, prose(", else "), Sign::Negative, "∞"]);
    }
    if let Pattern::Sliding { global: Global::Separate, .. } = site.attention.pattern {
        let own = prose(", but for a global p they come from matrices of their own");
        lines.push(row![Sign::Indent, "Q", Sign::Comma, "K", Sign::Comma, "V", prose(" as above"), own]);
    }
}

/// The matrices that squeeze keys and values.
fn low_rank(site: &Site) -> (Expr, Expr) {
    match site.attention.pattern {
        Pattern::Dense | Pattern::Sliding { .. } | Pattern::LowRank { sharing: Sharing::Heads, .. } => {
            (sub("L", "K"), sub("L", "V"))
        }
        Pattern::LowRank { sharing: Sharing::KeyValue | Sharing::Layers, .. } => ("L".into(), "L".into()),
    }
}

fn squeeze(lines: &mut Vec<Expr>, site: &Site) {
    let (rank, length, sharing) = match site.attention.pattern {
        Pattern::Dense | Pattern::Sliding { .. } => return,
        Pattern::LowRank { rank, length, sharing } => (rank, length, sharing),
    };
    let (keys, values) = low_rank(site);
    let (matrices, whose) = match sharing {
        Sharing::Heads => (row![keys, Sign::Comma, values], ", the same for all heads"),
        Sharing::KeyValue => (keys, ", the same for keys, values and all heads"),
        Sharing::Layers => (keys, ", the same for keys, values, all heads and all layers"),
    };
    lines.push(row![Sign::Indent, shape(matrices, rank, length), prose(whose)]);
}

/// The positions that enter through the scores.
fn in_scores(lines: &mut Vec<Expr>, site: &Site) {
    if let Some(angles) = &site.turn {
        position::rotary(lines, angles, site.attention.heads.size);
    }
    match &site.scores {
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Together(_) => {}
        Position::Alibi => alibi(lines, site.attention.heads.query),
        Position::Buckets { count, max_distance } => buckets(lines, site, *count, *max_distance),
        Position::TransformerXl { memory, biases, clamp, start } => {
            let before = match start {
                Start::Empty => "",
                Start::Zeros => ", zeros before the first",
            };
            let remembered = format!(
                " are the {memory} rows before x that entered this layer with earlier segments{before}"
            );
            lines.push(row![Sign::Indent, "H", prose(remembered)]);
            let entry = at("Z", row!["p", Sign::Comma, "q"]);
            let query = round(row![at("Q", "p"), Sign::Plus, by_head("v")]);
            let distance = row!["p", Sign::Minus, "q"];
            let distance = match clamp {
                None => distance,
                Some(most) => call("min", row![distance, Sign::Comma, *most]),
            };
            let wave = row![at("S", distance), Sign::Beside, of_head("W", "R", "i")];
            let value = row![query, Sign::Dot, round(wave)];
            let size = shape(of_head("W", "R", "i"), site.width, site.attention.heads.size);
            let shared = match biases {
                Biases::Layer => prose(", u and v of each layer"),
                Biases::Stack => prose(", u and v common to all layers"),
            };
            lines.push(row![Sign::Indent, entry, Sign::Equals, value, Sign::Comma, size, shared]);
            let waves = position::sinusoid("S", "d", &position::Wave::of_distances(site.width));
            lines.push(row![Sign::Indent, waves]);
        }
    }
}

/// Slopes for any number of heads: a power of two is a geometric series, the rest lie between its members.
fn alibi(lines: &mut Vec<Expr>, heads: usize) {
    let distance = fence(Fence::Bars, row!["p", Sign::Minus, "q"]);
    let power = heads.checked_ilog2().map_or(1, |exponent| 1 << exponent);
    let series = sup(2, row![Sign::Negative, over(row![8, "i"], power)]);
    let entry = row![at("D", row!["p", Sign::Comma, "q"]), Sign::Equals, distance];
    let line = row![Sign::Indent, entry, Sign::Comma, sub("m", "i"), Sign::Equals, series];
    if power == heads {
        return lines.push(line);
    }
    let beyond = round(row!["i", Sign::Minus, power]);
    let odd = round(row![2, beyond, Sign::Minus, 1]);
    let between = sup(2, row![Sign::Negative, over(row![4, odd], power)]);
    lines.push(row![line, prose(" for "), "i", Sign::AtMost, power, prose(", else "), between]);
}

/// T5's buckets: half of a direction's hold one distance each, the others grow up to `max_distance`.
fn buckets(lines: &mut Vec<Expr>, site: &Site, count: usize, max_distance: usize) {
    let (each, direction) = match site.attention.reach {
        Reach::Both => (count / 2, Some(count / 2)),
        Reach::Past => (count, None),
    };
    let exact = each / 2;
    let entry = at(by_head("B"), row!["p", Sign::Comma, "q"]);
    let bucket = || call("bucket", fence(Fence::Bars, row!["p", Sign::Minus, "q"]));
    let learned = |index: Expr| at(by_head("r"), index);
    let line = row![Sign::Indent, entry, Sign::Equals, learned(bucket())];
    let line = match direction {
        None => line,
        Some(later) => {
            let after = learned(row![later, Sign::Plus, bucket()]);
            row![line, prose(" where "), "q", Sign::AtMost, "p", prose(", else "), after]
        }
    };
    let numbers = prose(format!(", {count} learned numbers r for each head, the same in all layers"));
    lines.push(row![line, numbers]);
    let growth = over(call("ln", over("d", exact)), call("ln", over(max_distance, exact)));
    let grown = row![exact, Sign::Plus, fence(Fence::Floor, row![each - exact, Sign::Dot, growth])];
    let value = row!["d", prose(format!(" for d < {exact}, else ")), grown];
    let most = prose(format!(", at most {}", each.saturating_sub(1)));
    lines.push(row![Sign::Indent, call("bucket", "d"), Sign::Equals, value, most]);
}
