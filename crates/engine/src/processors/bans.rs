//! Tokens that may not come, or must.

use crate::Allowed;

/// Bans `tokens`. Ids beyond the row are passed over: a configuration may name an end token that the model cannot write.
pub fn ban(tokens: &[u32], row: &mut [f32]) {
    for &token in tokens {
        if let Some(score) = row.get_mut(token as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Bans all but `tokens`, which are equally likely.
pub fn force(tokens: &[u32], row: &mut [f32]) {
    row.fill(f32::NEG_INFINITY);
    for &token in tokens {
        if let Some(score) = row.get_mut(token as usize) {
            *score = 0.0;
        }
    }
}

/// Bans all that `allowed` does not have; `ends` are the tokens that end a text.
pub fn restrict(allowed: Allowed<'_>, ends: &[u32], row: &mut [f32]) {
    let score = |&end: &u32| Some((end as usize, *row.get(end as usize)?));
    let ends: Vec<(usize, f32)> = ends.iter().filter_map(score).collect();
    for (place, scores) in row.chunks_mut(32).enumerate() {
        let bits = allowed.tokens.get(place).copied().unwrap_or(0);
        for (bit, score) in scores.iter_mut().enumerate() {
            if bits >> bit & 1 == 0 {
                *score = f32::NEG_INFINITY;
            }
        }
    }
    for (end, score) in ends {
        row[end] = if allowed.end { score } else { f32::NEG_INFINITY };
    }
}

/// Adds `bias` to the token that would complete `run` after `history`.
pub fn bias(history: &[u32], run: &[u32], bias: f32, row: &mut [f32]) {
    let Some((&last, before)) = run.split_last() else { return };
    if history.ends_with(before)
        && let Some(score) = row.get_mut(last as usize)
    {
        *score += bias;
    }
}

/// Bans every token that would repeat a run of `size` tokens of `text` after `history`.
pub fn repeated(history: &[u32], text: &[u32], size: usize, row: &mut [f32]) {
    let Some(start) = (history.len() + 1).checked_sub(size) else { return };
    let suffix = &history[start..];
    for run in text.windows(size) {
        if run[..size - 1] == *suffix {
            ban(&run[size - 1..], row);
        }
    }
}
