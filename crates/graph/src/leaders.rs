//! The largest numbers of rows: what a search for tokens needs to know of a vocabulary's scores.

/// What is asked about every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How many of the largest numbers.
    pub most: usize,
    /// What else.
    pub sum: Sum,
}

/// What is asked about a row as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Only whether it holds numbers.
    Numbers,
    /// log Σ exp of it.
    LogExp,
}

/// The answer, for all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaders {
    /// How many there are of each row.
    pub each: usize,
    /// The largest numbers and where they stand, the largest first, of equal ones the first; row after row.
    pub found: Vec<(f32, u32)>,
    /// For each row what was asked about it as a whole: NaN where a number is NaN, or +∞ is asked to be summed; 0 where
    /// nothing was asked.
    pub sums: Vec<f64>,
}

impl Leaders {
    /// Makes room for `rows` rows of `width` numbers.
    pub fn clear(&mut self, ask: Ask, rows: usize, width: usize) {
        self.each = ask.most.min(width);
        self.found.clear();
        self.found.resize(rows * self.each, (f32::NEG_INFINITY, 0));
        self.sums.clear();
        self.sums.resize(rows, 0.0);
    }

    /// Those of row `index`, and what was asked about it as a whole.
    pub fn row(&self, index: usize) -> (&[(f32, u32)], f64) {
        (&self.found[index * self.each..(index + 1) * self.each], self.sums[index])
    }

    /// Answers for rows of `width` numbers, one number after the other.
    pub fn find(&mut self, ask: Ask, numbers: &[f32], width: usize) {
        self.clear(ask, numbers.len() / width.max(1), width);
        for (index, row) in numbers.chunks_exact(width.max(1)).enumerate() {
            let found = &mut self.found[index * self.each..(index + 1) * self.each];
            let mut count = 0;
            row.iter().zip(0..).for_each(|(&number, place)| offer(found, &mut count, number, place));
            self.sums[index] = match ask.sum {
                _ if row.iter().any(|x| x.is_nan()) => f64::NAN,
                Sum::Numbers => 0.0,
                Sum::LogExp => log_sum_exp(row),
            };
        }
    }
}

/// Puts `number` among the `count` first of `found`, where it is one of the largest.
#[inline]
pub fn offer(found: &mut [(f32, u32)], count: &mut usize, number: f32, place: u32) {
    if *count == found.len() && found.last().is_none_or(|&(last, _)| number <= last) {
        return;
    }
    let at = found[..*count].partition_point(|&(other, _)| other >= number);
    if at < found.len() {
        *count = (*count + 1).min(found.len());
        found[at..*count].rotate_right(1);
        found[at] = (number, place);
    }
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if most == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let sum: f64 = row.iter().map(|&x| f64::from((x - most).exp())).sum();
    f64::from(most) + sum.ln()
}
