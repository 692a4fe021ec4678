//! From scores to probabilities, and the best of them.

/// e^x, made to sum to 1.
pub(crate) fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = powers.iter().map(|&x| f64::from(x)).sum();
    powers.iter().map(|&x| (f64::from(x) / sum) as f32).collect()
}

/// 1 / (1 + e^−x).
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The places of the `count` largest numbers, largest first, the first of equals first. Only those are sorted.
pub(crate) fn best(scores: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    let order = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if count < places.len() {
        places.select_nth_unstable_by(count, order);
        places.truncate(count);
    }
    places.sort_unstable_by(order);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_ties_keep_their_order() {
        assert_eq!(best(&[0.1, 0.7, 0.7, 0.2], 3), [1, 2, 3]);
        assert_eq!(best(&[0.1, 0.7], 9), [1, 0]);
        assert!(best(&[], 3).is_empty());
        assert!(best(&[0.5], 0).is_empty());
    }

    #[test]
    fn softmax_sums_to_one_whatever_the_size_of_its_numbers() {
        let probabilities = softmax(&[1000.0, 1001.0, -1000.0]);
        assert!((probabilities.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((probabilities[1] - sigmoid(1.0)).abs() < 1e-6);
    }
}
