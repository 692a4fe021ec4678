//! In which order the numbers of a tensor are read from where they lie.
//!
//! A file may hold a tensor transposed, or as a part of another. All of that is one thing: a start and, for each dimension, a
//! count and a stride. Nothing is moved until the numbers are asked for.

use std::ops::Range;

/// A walk over numbers that lie in a row, in units of one number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    start: usize,
    /// The steps of each dimension, the outermost first.
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    count: usize,
    stride: usize,
}

impl Walk {
    /// Straight on: row-major. The number of elements fits a `usize`.
    pub(crate) fn dense(shape: &[usize]) -> Self {
        let mut stride = 1_usize;
        let mut steps: Vec<_> = shape
            .iter()
            .rev()
            .map(|&count| {
                let step = Step { count, stride };
                // Only where another size is zero, and then nobody walks, can this reach the limit.
                stride = stride.saturating_mul(count);
                step
            })
            .collect();
        steps.reverse();
        Self { start: 0, steps }
    }

    /// One stride for each dimension.
    pub(crate) fn strided(start: usize, shape: &[usize], strides: &[usize]) -> Self {
        let steps = shape.iter().zip(strides).map(|(&count, &stride)| Step { count, stride }).collect();
        Self { start, steps }
    }

    /// The numbers that it needs, counted from the very first: one more than the furthest that it visits. `None` if
    /// that cannot be counted.
    pub(crate) fn reach(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        let last = self
            .steps
            .iter()
            .try_fold(self.start, |at, step| at.checked_add((step.count - 1).checked_mul(step.stride)?));
        last?.checked_add(1)
    }

    /// Only some rows; `None` if it has not so many.
    pub(crate) fn rows(&self, rows: &Range<usize>) -> Option<Self> {
        let first = self.steps.first()?;
        if rows.start > rows.end || rows.end > first.count {
            return None;
        }
        let mut walk = self.clone();
        // A walk over nothing may have any stride.
        walk.start = self.start.saturating_add(rows.start.saturating_mul(first.stride));
        walk.steps[0].count = rows.len();
        Some(walk)
    }

    /// Only the first number of each row, where the walk stands still in all others: a scale for each.
    pub(crate) fn first_of_rows(&self) -> Option<Self> {
        let (rows, rest) = self.steps.split_first()?;
        let still = rest.iter().all(|step| step.stride == 0 || step.count == 1);
        still.then(|| Self { start: self.start, steps: vec![*rows] })
    }

    /// The sizes of its dimensions.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.steps.iter().map(|step| step.count).collect()
    }

    /// The range that it goes through from start to end without a jump, if it does.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        match self.merged().as_slice() {
            _ if self.is_empty() => Some(0..0),
            [] => Some(self.start..self.start + 1),
            [Step { count, stride: 1 }] => Some(self.start..self.start + count),
            _ => None,
        }
    }

    /// Whether it visits whole blocks of `size` numbers in their order.
    pub(crate) fn keeps_blocks(&self, size: usize) -> bool {
        if size == 1 || self.is_empty() {
            return true;
        }
        let steps = self.merged();
        let Some((run, jumps)) = steps.split_last() else { return false };
        let whole = |number: usize| number.is_multiple_of(size);
        run.stride == 1
            && whole(run.count)
            && whole(self.start)
            && jumps.iter().all(|step| whole(step.stride))
    }

    /// Calls `visit` with every range of neighbours, in order.
    pub(crate) fn runs(&self, mut visit: impl FnMut(Range<usize>)) {
        if self.is_empty() {
            return;
        }
        let mut steps = self.merged();
        let run = match steps.last() {
            Some(&Step { count, stride: 1 }) => {
                steps.pop();
                count
            }
            _ => 1,
        };
        // An odometer: the last step turns fastest.
        let mut turns = vec![0; steps.len()];
        let mut at = self.start;
        loop {
            visit(at..at + run);
            let mut wheel = steps.len();
            loop {
                let Some(next) = wheel.checked_sub(1) else { return };
                wheel = next;
                let Step { count, stride } = steps[wheel];
                turns[wheel] += 1;
                at += stride;
                if turns[wheel] < count {
                    break;
                }
                at -= stride * count;
                turns[wheel] = 0;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.steps.iter().any(|step| step.count == 0)
    }

    /// The fewest steps that visit the same numbers in the same order.
    fn merged(&self) -> Vec<Step> {
        let mut merged: Vec<Step> = Vec::new();
        for &step in self.steps.iter().filter(|step| step.count != 1) {
            match merged.last_mut() {
                Some(last) if step.count.checked_mul(step.stride) == Some(last.stride) => {
                    *last = Step { count: last.count.saturating_mul(step.count), stride: step.stride };
                }
                _ => merged.push(step),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(walk: &Walk) -> Vec<usize> {
        let mut visited = Vec::new();
        walk.runs(|run| visited.extend(run));
        visited
    }

    #[test]
    fn a_dense_walk_is_one_range() {
        for shape in [&[][..], &[1], &[7], &[2, 3], &[1, 4, 1, 2], &[0], &[3, 0, 2]] {
            let walk = Walk::dense(shape);
            let count = shape.iter().product();
            assert_eq!(walk.range(), Some(0..count), "{shape:?}");
            assert_eq!(walk.reach(), Some(count), "{shape:?}");
            assert_eq!(visited(&walk), (0..count).collect::<Vec<_>>(), "{shape:?}");
            assert_eq!(walk.shape(), shape);
        }
    }

    #[test]
    fn rows_of_a_walk_are_a_walk() {
        let walk = Walk::dense(&[6, 2]);
        let part = walk.rows(&(2..5)).expect("five rows are in six");
        assert_eq!((part.shape(), part.range()), (vec![3, 2], Some(4..10)));
        let turned = Walk::strided(0, &[2, 3], &[1, 2]).rows(&(1..2)).expect("it has two rows");
        assert_eq!((visited(&turned), turned.range()), (vec![1, 3, 5], None));
        assert_eq!(walk.rows(&(4..7)), None);
        assert_eq!(walk.rows(&(0..usize::MAX)), None);
        assert_eq!(Walk::dense(&[]).rows(&(0..1)), None);
        assert_eq!(walk.rows(&(6..6)).map(|walk| visited(&walk)), Some(vec![]));
        let far = Walk::strided(1, &[4, 0], &[usize::MAX, 1]);
        assert!(far.rows(&(2..4)).is_some_and(|walk| visited(&walk).is_empty()));
    }

    #[test]
    fn blocks_survive_where_only_rows_are_left_out() {
        let walk = Walk::dense(&[4, 64]);
        assert!(walk.keeps_blocks(32) && walk.keeps_blocks(64) && walk.keeps_blocks(256));
        assert!(walk.rows(&(1..2)).is_some_and(|part| part.keeps_blocks(64) && !part.keeps_blocks(128)));
        let turned = Walk::strided(0, &[64, 4], &[1, 64]);
        assert!(!turned.keeps_blocks(32) && turned.keeps_blocks(1));
        assert!(!Walk::dense(&[]).keeps_blocks(32) && Walk::dense(&[0, 7]).keeps_blocks(32));
    }

    #[test]
    fn a_walk_knows_how_far_it_reaches() {
        assert_eq!(Walk::strided(5, &[2, 3], &[10, 1]).reach(), Some(18));
        assert_eq!(Walk::strided(0, &[2, 2], &[usize::MAX, 1]).reach(), None);
        assert_eq!(Walk::strided(usize::MAX, &[1], &[1]).reach(), None);
        assert_eq!(Walk::strided(0, &[1, 4], &[usize::MAX, 1]).range(), Some(0..4));
        assert_eq!(visited(&Walk::strided(0, &[2, 2], &[1, 0])), [0, 0, 1, 1]);
    }
}
