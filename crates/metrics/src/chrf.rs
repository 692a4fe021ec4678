//! chrF (Popović 2015): how many sequences of characters are right, as sacreBLEU computes it for a corpus (`chrF2`).

use crate::counts;

/// The longest sequences of characters that are compared.
const ORDER: usize = 6;

/// How many times as much recall counts as precision, squared.
const FACTOR: f64 = 4.0;

/// Written, in the reference, in both; for each length.
type Counts = [[usize; 3]; ORDER];

/// The score of `texts`, each against the best of its references, from 0 to 100. Spaces do not count.
pub fn chrf<T: AsRef<str>, R: AsRef<str>>(texts: &[T], references: &[Vec<R>]) -> f64 {
    let mut sums: Counts = Default::default();
    for (text, references) in texts.iter().zip(references) {
        let text = letters(text.as_ref());
        let mut best: Option<(f64, Counts)> = None;
        for reference in references {
            let found = compare(&text, &letters(reference.as_ref()));
            let score = score(&found);
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, found));
            }
        }
        if let Some((_, found)) = best {
            for (sum, found) in sums.iter_mut().zip(found) {
                sum.iter_mut().zip(found).for_each(|(sum, count)| *sum += count);
            }
        }
    }
    score(&sums)
}

fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn compare(text: &[char], reference: &[char]) -> Counts {
    let mut found: Counts = Default::default();
    for (n, found) in (1..=ORDER).zip(&mut found) {
        let (own, theirs) = (counts(text.windows(n)), counts(reference.windows(n)));
        let both =
            own.iter().map(|(sequence, count)| theirs.get(sequence).map_or(0, |other| *count.min(other)));
        // What is written does not count where the reference is too short to have such sequences at all.
        let written = if theirs.is_empty() { 0 } else { own.values().sum() };
        *found = [written, theirs.values().sum(), both.sum()];
    }
    found
}

/// `100 (1 + β²) P R / (β² P + R)`, with the means over lengths of which both sides have some.
fn score(counts: &Counts) -> f64 {
    let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0);
    for &[written, reference, both] in counts {
        if written > 0 && reference > 0 {
            precision += both as f64 / written as f64;
            recall += both as f64 / reference as f64;
            orders += 1;
        }
    }
    if precision + recall == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (precision / f64::from(orders), recall / f64::from(orders));
    100.0 * (1.0 + FACTOR) * precision * recall / (FACTOR * precision + recall)
}
