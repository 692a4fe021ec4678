//! Tokens that become less likely, or likelier.

/// Divides the scores of all tokens in `text` by `penalty`, negative ones multiplied instead: each token once.
pub fn repetition(text: &[u32], penalty: f64, row: &mut [f32], seen: &mut Vec<u32>) {
    let penalty = penalty as f32;
    sort(text, seen);
    seen.dedup();
    for &token in seen.iter() {
        if let Some(score) = row.get_mut(token as usize) {
            *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
        }
    }
}

/// Takes `presence` from each token in `text`, and `frequency` for each time that it occurs.
pub fn occurrence(text: &[u32], (presence, frequency): (f64, f64), row: &mut [f32], seen: &mut Vec<u32>) {
    sort(text, seen);
    for same in seen.chunk_by(|a, b| a == b) {
        if let Some(score) = row.get_mut(same[0] as usize) {
            *score -= (presence + frequency * same.len() as f64) as f32;
        }
    }
}

/// Takes `penalty` from a token for each time that it is among `chosen`.
pub fn diversity(chosen: &[u32], penalty: f64, row: &mut [f32]) {
    for (place, &token) in chosen.iter().enumerate() {
        if chosen[..place].contains(&token) {
            continue;
        }
        let times = chosen.iter().filter(|&&other| other == token).count();
        if let Some(score) = row.get_mut(token as usize) {
            *score -= (penalty * times as f64) as f32;
        }
    }
}

/// Makes the ends likelier by `factor` for each token `beyond` where that begins.
pub fn decay(beyond: usize, factor: f64, ends: &[u32], row: &mut [f32]) {
    if beyond == 0 {
        return;
    }
    let growth = (factor.powf(beyond as f64) - 1.0) as f32;
    for &token in ends {
        if let Some(score) = row.get_mut(token as usize).filter(|score| score.is_finite()) {
            *score += score.abs() * growth;
        }
    }
}

/// Replaces NaN by 0 and infinities by the largest numbers.
pub fn remove_invalid(row: &mut [f32]) {
    for score in row {
        *score = if score.is_nan() { 0.0 } else { score.clamp(f32::MIN, f32::MAX) };
    }
}

fn sort(text: &[u32], seen: &mut Vec<u32>) {
    seen.clear();
    seen.extend_from_slice(text);
    seen.sort_unstable();
}
