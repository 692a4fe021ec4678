//! The best few of many, without sorting them all.

/// The largest scores seen, best first; of equal ones, those that came first.
#[derive(Clone, Debug, Default)]
pub struct Best {
    found: Vec<(f32, u32)>,
    most: usize,
}

impl Best {
    /// Forgets everything; at most `most` are kept from now on.
    pub fn start(&mut self, most: usize) {
        self.found.clear();
        self.most = most;
    }

    /// Offers all of `scores`, each plus `bonus`, as the places from `first` on.
    pub fn offer(&mut self, scores: &[f32], bonus: f32, first: u32) {
        let mut bound = self.bound();
        for (place, &score) in (first..).zip(scores) {
            let score = score + bonus;
            // Not `<=`: while there is room, −∞ is taken too.
            if score > bound || self.found.len() < self.most {
                self.insert(score, place);
                bound = self.bound();
            }
        }
    }

    /// Offers one.
    pub fn insert(&mut self, score: f32, place: u32) {
        let at = self.found.partition_point(|&(other, _)| other >= score);
        if at < self.most {
            self.found.truncate(self.most - 1);
            self.found.insert(at, (score, place));
        }
    }

    fn bound(&self) -> f32 {
        if self.found.len() < self.most {
            f32::NEG_INFINITY
        } else {
            self.found.last().map_or(f32::INFINITY, |last| last.0)
        }
    }

    /// What was found.
    pub fn found(&self) -> &[(f32, u32)] {
        &self.found
    }
}

/// The place of the largest number; the first of equals.
pub fn largest(row: &[f32]) -> u32 {
    let better = |best: usize, (i, x): (usize, &f32)| if *x > row[best] { i } else { best };
    row.iter().enumerate().fold(0, better) as u32
}
