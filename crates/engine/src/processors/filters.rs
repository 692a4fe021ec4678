//! Which tokens may be drawn. What is left out becomes −∞; `alive` lists what is left, ascending.

use super::Scratch;
use super::softmax::{log_sum_exp, probabilities};

/// Up to how many the best are found by insertion; beyond, by selection on a copy of the row.
const FEW: usize = 256;
/// How many tokens top-H looks at.
const TOP_H: usize = 100;

/// Divides all scores by `temperature`.
pub fn temperature(temperature: f64, row: &mut [f32]) {
    let temperature = temperature as f32;
    for score in row {
        *score /= temperature;
    }
}

/// The tokens of `row` that can be drawn at all.
pub fn living(row: &[f32], alive: &mut Vec<u32>) {
    alive.clear();
    alive.extend((0..).zip(row).filter(|&(_, &score)| score > f32::NEG_INFINITY).map(|(token, _)| token));
}

/// Keeps the `k` likeliest, and all that are as likely as the last of them.
pub fn top_k(k: usize, row: &mut [f32], scratch: &mut Scratch) {
    if k < row.len() {
        let bound = nth(k, row, scratch);
        for score in row.iter_mut().filter(|score| **score < bound) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// The `k`-th largest score; `k` is at least 1 and at most the row's length.
fn nth(k: usize, row: &[f32], scratch: &mut Scratch) -> f32 {
    if k <= FEW {
        scratch.best.start(k);
        scratch.best.offer(row, 0.0, 0);
        return scratch.best.found().last().map_or(f32::NEG_INFINITY, |last| last.0);
    }
    scratch.numbers.clear();
    scratch.numbers.extend_from_slice(row);
    *scratch.numbers.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
}

/// Of the hundred likeliest, keeps those from the top whose entropy is at most `share` of all of theirs.
pub fn top_h(share: f64, row: &mut [f32], scratch: &mut Scratch) {
    scratch.best.start(TOP_H.min(row.len()));
    scratch.best.offer(row, 0.0, 0);
    let best = scratch.best.found();
    scratch.numbers.clear();
    scratch.numbers.extend(best.iter().map(|&(score, _)| score));
    let sum = log_sum_exp(&scratch.numbers);
    let entropy = |score: f32| {
        let log = f64::from(score) - sum;
        if log == f64::NEG_INFINITY { 0.0 } else { -log.exp() * log }
    };
    let bound = share * best.iter().map(|&(score, _)| entropy(score)).sum::<f64>();
    let mut so_far = 0.0;
    let mut within = |&(score, _): &(f32, u32)| {
        so_far += entropy(score);
        so_far as f32 <= bound as f32
    };
    let kept = best.iter().take_while(|found| within(found)).count().max(1);
    row.fill(f32::NEG_INFINITY);
    for &(score, token) in &best[..kept.min(best.len())] {
        row[token as usize] = score;
    }
}

/// Keeps the likeliest that together have the probability `mass`: those are left out that are last and together have at
/// most 1 − `mass`. Of equal ones, those with larger ids are kept.
pub fn top_p(mass: f64, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    let Scratch { alive, order, numbers, .. } = scratch;
    probabilities(row, alive, numbers);
    // What a token and all that are less likely have together: in f64, and compared in f32, as the reference does.
    let mut rest: f64 = numbers.iter().map(|&p| f64::from(p)).sum();
    let bound = (1.0 - mass) as f32;
    // `order` holds places among the living; as much of its top is sorted as is needed, a growing piece at a time.
    let after = |a: &u32, b: &u32| numbers[*b as usize].total_cmp(&numbers[*a as usize]).then(b.cmp(a));
    order.clear();
    order.extend(0..alive.len() as u32);
    let (mut sorted, mut kept) = (0, 0);
    while kept == sorted && sorted < order.len() {
        let end = (4 * sorted).max(FEW).min(order.len());
        if end < order.len() {
            order[sorted..].select_nth_unstable_by(end - sorted - 1, after);
        }
        order[sorted..end].sort_unstable_by(after);
        for &place in &order[sorted..end] {
            if kept >= keep && rest as f32 <= bound {
                break;
            }
            rest -= f64::from(numbers[place as usize]);
            kept += 1;
        }
        sorted = end;
    }
    for place in &mut order[kept..] {
        *place = alive[*place as usize];
    }
    leave_out(&order[kept..], row, alive);
}

/// Leaves out what is less likely than `share` of the likeliest.
pub fn min_p(share: f64, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    let Scratch { alive, order, numbers, best, .. } = scratch;
    probabilities(row, alive, numbers);
    let bound = share as f32 * numbers.iter().copied().fold(0.0, f32::max);
    best.start(keep);
    best.offer(numbers, 0.0, 0);
    let safe = |place: usize| best.found().iter().any(|&(_, kept)| kept as usize == place);
    order.clear();
    let unlikely = numbers.iter().enumerate().filter(|&(place, &p)| p < bound && !safe(place));
    order.extend(unlikely.map(|(place, _)| alive[place]));
    leave_out(order, row, alive);
}

/// Keeps those whose surprise is nearest to the expected one and that together have the probability `mass`.
pub fn typical(mass: f64, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    let Scratch { alive, order, numbers, .. } = scratch;
    let most = alive.iter().map(|&token| row[token as usize]).fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = alive.iter().map(|&token| f64::from((row[token as usize] - most).exp())).sum();
    let sum = f64::from(most) + sum.ln();
    let log = |token: u32| (f64::from(row[token as usize]) - sum) as f32;
    let entropy: f64 = alive.iter().map(|&token| -f64::from(log(token)) * f64::from(log(token).exp())).sum();
    numbers.clear();
    numbers.extend(alive.iter().map(|&token| (-log(token) - entropy as f32).abs()));
    // `order` holds places among the living.
    order.clear();
    order.extend(0..alive.len() as u32);
    order.sort_unstable_by(|&a, &b| numbers[a as usize].total_cmp(&numbers[b as usize]).then(a.cmp(&b)));
    let mut so_far = 0.0;
    let mut below = |&place: &u32| {
        so_far += f64::from(log(alive[place as usize]).exp());
        (so_far as f32) < mass as f32
    };
    let last = order.iter().take_while(|place| below(place)).count();
    let Some(&last) = order.get(last.min(order.len().saturating_sub(1))) else { return };
    let bound = numbers[last as usize];
    let out = |(rank, &place): (usize, &u32)| rank >= keep && numbers[place as usize] > bound;
    let first = order.iter().enumerate().position(out).unwrap_or(order.len());
    for place in &mut order[first..] {
        *place = alive[*place as usize];
    }
    leave_out(&order[first..], row, alive);
}

/// Leaves out what is less likely than `bound`.
pub fn epsilon(bound: f64, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    probabilities(row, &scratch.alive, &mut scratch.numbers);
    below(bound as f32, keep, row, scratch);
}

/// Leaves out what is less likely than `bound`, or than √`bound` · exp(−entropy) where that is less.
pub fn eta(bound: f64, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    probabilities(row, &scratch.alive, &mut scratch.numbers);
    let entropy: f64 =
        scratch.numbers.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum();
    below(bound.min(bound.sqrt() * (-entropy).exp()) as f32, keep, row, scratch);
}

/// Leaves out living tokens whose probability, in `scratch.numbers`, is below `bound` and that are not among the first
/// `keep`.
fn below(bound: f32, keep: usize, row: &mut [f32], scratch: &mut Scratch) {
    scratch.best.start(keep);
    scratch.best.offer(row, 0.0, 0);
    let safe = scratch.best.found().last().map_or(f32::INFINITY, |last| last.0);
    let Scratch { alive, order, numbers, .. } = scratch;
    order.clear();
    let out =
        alive.iter().zip(numbers.iter()).filter(|&(&token, &p)| p < bound && row[token as usize] < safe);
    order.extend(out.map(|(&token, _)| token));
    leave_out(order, row, alive);
}

/// Bans `tokens`, which are no longer alive.
fn leave_out(tokens: &[u32], row: &mut [f32], alive: &mut Vec<u32>) {
    if tokens.is_empty() {
        return;
    }
    super::bans::ban(tokens, row);
    alive.retain(|&token| row[token as usize] > f32::NEG_INFINITY);
}
