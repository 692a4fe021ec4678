//! Tokens that may not come, or must.

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
