//! BLEU (Papineni et al. 2002), as sacreBLEU computes it for a corpus (Post 2018).

use std::collections::HashMap;

use crate::{Words, counts};

/// The longest sequences of words that are compared.
const ORDER: usize = 4;

/// A BLEU score and what it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bleu {
    /// The score, from 0 to 100.
    pub score: f64,
    /// The precisions of sequences of one to four words, in percent.
    pub precisions: [f64; ORDER],
    /// What the score was multiplied by for being too short.
    pub brevity: f64,
    /// How many words were written.
    pub words: usize,
    /// How many the references have that are nearest in length.
    pub reference_words: usize,
}

/// The score of `texts`, each against all its references.
///
/// `100 · BP · exp(Σ ln pₙ / 4)`: a sequence of words counts as often as the reference that has it most often has it; where none
/// is right, `pₙ = 1/(2ᵏ · total)` for the k-th such n.
pub fn bleu<T: AsRef<str>, R: AsRef<str>>(texts: &[T], references: &[Vec<R>], words: Words) -> Bleu {
    let (mut right, mut total) = ([0; ORDER], [0; ORDER]);
    let (mut own, mut theirs) = (0, 0);
    for (text, references) in texts.iter().zip(references) {
        let text = words.of(text.as_ref());
        let references: Vec<Vec<String>> = references.iter().map(|text| words.of(text.as_ref())).collect();
        own += text.len();
        let nearest = references.iter().map(Vec::len).min_by_key(|&len| (len.abs_diff(text.len()), len));
        theirs += nearest.unwrap_or(0);
        for n in 1..=ORDER {
            let mut most: HashMap<&[String], usize> = HashMap::new();
            for reference in &references {
                for (sequence, count) in counts(reference.windows(n)) {
                    let known = most.entry(sequence).or_default();
                    *known = count.max(*known);
                }
            }
            for (sequence, count) in counts(text.windows(n)) {
                total[n - 1] += count;
                right[n - 1] += count.min(most.get(sequence).copied().unwrap_or(0));
            }
        }
    }
    score(right, total, own, theirs)
}

fn score(right: [usize; ORDER], total: [usize; ORDER], words: usize, reference_words: usize) -> Bleu {
    let brevity = match words {
        0 => 0.0,
        _ if words < reference_words => (1.0 - reference_words as f64 / words as f64).exp(),
        _ => 1.0,
    };
    let brevity = if words >= reference_words { 1.0 } else { brevity };
    let mut precisions = [0.0; ORDER];
    let mut bleu = Bleu { score: 0.0, precisions, brevity, words, reference_words };
    if right.iter().all(|&count| count == 0) {
        return bleu;
    }
    let mut smooth = 1.0;
    for n in 0..ORDER {
        if total[n] == 0 {
            break;
        }
        precisions[n] = if right[n] == 0 {
            smooth *= 2.0;
            100.0 / (smooth * total[n] as f64)
        } else {
            100.0 * right[n] as f64 / total[n] as f64
        };
    }
    bleu.precisions = precisions;
    // A precision of nought makes the score one, as its logarithm would.
    if precisions.iter().all(|&p| p > 0.0) {
        bleu.score = brevity * (precisions.iter().map(|p| p.ln()).sum::<f64>() / ORDER as f64).exp();
    }
    bleu
}
