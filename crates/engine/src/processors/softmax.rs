//! Scores as probabilities.

/// log Σ exp xᵢ, summed in f64; NaN where a number is NaN or +∞, −∞ where all are −∞.
pub fn log_sum_exp(row: &[f32]) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if most == f32::NEG_INFINITY {
        // `max` passes NaN over.
        return if row.iter().any(|x| x.is_nan()) { f64::NAN } else { f64::NEG_INFINITY };
    }
    let sum: f64 = row.iter().map(|&x| f64::from((x - most).exp())).sum();
    f64::from(most) + sum.ln()
}

/// xᵢ ← log softmax(x)ᵢ; the number that was subtracted.
pub fn log_softmax(row: &mut [f32]) -> f64 {
    let sum = log_sum_exp(row);
    for x in row {
        *x = (f64::from(*x) - sum) as f32;
    }
    sum
}

/// Leads the log-probabilities `row` away from those of the scores `others`: `u + guidance · (x − u)`.
pub fn guided(guidance: f64, others: &[f32], row: &mut [f32]) {
    let (sum, guidance) = (log_sum_exp(others), guidance as f32);
    for (x, &other) in row.iter_mut().zip(others) {
        let other = (f64::from(other) - sum) as f32;
        *x = guidance * (*x - other) + other;
    }
}

/// The probabilities of the tokens `alive`, into `probs`.
pub fn probabilities(row: &[f32], alive: &[u32], probs: &mut Vec<f32>) {
    let most = alive.iter().map(|&token| row[token as usize]).fold(f32::NEG_INFINITY, f32::max);
    probs.clear();
    probs.extend(alive.iter().map(|&token| (row[token as usize] - most).exp()));
    let sum: f64 = probs.iter().map(|&p| f64::from(p)).sum();
    for p in probs {
        *p = (f64::from(*p) / sum) as f32;
    }
}
