//! In which order the numbers of a tensor are read from where they lie.
//!
//! A file may hold a tensor transposed, as a part of another, or with its rows in another order. All of that is one
//! thing: a start and, for each dimension, steps of a count and a stride. Nothing is moved until the numbers are asked for,
//! and a rule that splits, transposes or regroups only makes another walk.

use std::ops::Range;

/// A walk over numbers that lie in a row, in units of one number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    start: usize,
    /// For each dimension its steps, the outermost first: mostly one. Rows that were regrouped take several.
    axes: Vec<Vec<Step>>,
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
        let mut axes: Vec<_> = shape
            .iter()
            .rev()
            .map(|&count| {
                let step = Step { count, stride };
                // Only where another size is zero, and then nobody walks, can this reach the limit.
                stride = stride.saturating_mul(count);
                vec![step]
            })
            .collect();
        axes.reverse();
        Self { start: 0, axes }
    }

    /// One stride for each dimension.
    pub(crate) fn strided(start: usize, shape: &[usize], strides: &[usize]) -> Self {
        let axes = shape.iter().zip(strides).map(|(&count, &stride)| vec![Step { count, stride }]).collect();
        Self { start, axes }
    }

    /// The numbers that it needs, counted from the very first: one more than the furthest that it visits. `None` if
    /// that cannot be counted.
    pub(crate) fn reach(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        let last = self
            .steps()
            .try_fold(self.start, |at, step| at.checked_add((step.count - 1).checked_mul(step.stride)?));
        last?.checked_add(1)
    }

    /// With the last two dimensions exchanged; `None` if there are fewer.
    pub(crate) fn transposed(&self) -> Option<Self> {
        let mut walk = self.clone();
        let last = walk.axes.len().checked_sub(2)?;
        walk.axes.swap(last, last + 1);
        Some(walk)
    }

    /// Some rows of each of `groups` groups of rows: those from `from` on, `count` of them. `None` if the rows cannot be
    /// divided so.
    pub(crate) fn part(&self, groups: usize, from: usize, count: usize) -> Option<Self> {
        let rows = self.axes.first()?;
        let size = exactly(product(rows), groups)?;
        if from.checked_add(count)? > size {
            return None;
        }
        if count == size {
            return Some(self.clone());
        }
        let (mut outer, mut inner) = cut(rows, size)?;
        // The part must be whole strides of the outermost step inside the group. There is one: `count < size`.
        let first = inner.iter_mut().find(|step| step.count != 1)?;
        let whole = size / first.count;
        // A walk over nothing may have any stride.
        let start = self.start.saturating_add(exactly(from, whole)?.saturating_mul(first.stride));
        first.count = exactly(count, whole)?;
        outer.append(&mut inner);
        let mut walk = Self { start, axes: self.axes.clone() };
        walk.axes[0] = outer;
        Some(walk)
    }

    /// Rows seen as [heads, outer, inner], with the last two of these exchanged. `None` if the rows cannot be divided so.
    pub(crate) fn regrouped(&self, heads: usize, inner: usize) -> Option<Self> {
        let rows = self.axes.first()?;
        let size = exactly(product(rows), heads)?;
        exactly(size, inner)?;
        let (mut steps, group) = cut(rows, size)?;
        let (outer, mut inner) = cut(&group, inner)?;
        steps.append(&mut inner);
        steps.extend(outer);
        let mut walk = self.clone();
        walk.axes[0] = steps;
        Some(walk)
    }

    /// Only the first number of each row, where the walk stands still in all others: a scale for each.
    pub(crate) fn first_of_rows(&self) -> Option<Self> {
        let (rows, rest) = self.axes.split_first()?;
        let still = rest.iter().flatten().all(|step| step.stride == 0 || step.count == 1);
        still.then(|| Self { start: self.start, axes: vec![rows.clone()] })
    }

    /// The sizes of its dimensions.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|steps| product(steps)).collect()
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
        self.steps().any(|step| step.count == 0)
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.axes.iter().flatten()
    }

    /// The fewest steps that visit the same numbers in the same order.
    fn merged(&self) -> Vec<Step> {
        let mut merged: Vec<Step> = Vec::new();
        for &step in self.steps().filter(|step| step.count != 1) {
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

fn product(steps: &[Step]) -> usize {
    steps.iter().fold(1, |product, step| product.saturating_mul(step.count))
}

/// `whole / part` where that leaves nothing over.
fn exactly(whole: usize, part: usize) -> Option<usize> {
    (part != 0 && whole.is_multiple_of(part)).then(|| whole / part)
}

/// Steps divided into outer ones and inner ones that visit `size` numbers; `None` if no step ends there.
fn cut(steps: &[Step], size: usize) -> Option<(Vec<Step>, Vec<Step>)> {
    let mut inner = 1;
    for (index, step) in steps.iter().enumerate().rev() {
        if inner == size {
            return Some((steps[..=index].to_vec(), steps[index + 1..].to_vec()));
        }
        let wanted = exactly(size, inner)?;
        if step.count > wanted {
            let outer =
                Step { count: exactly(step.count, wanted)?, stride: step.stride.saturating_mul(wanted) };
            let rest = Step { count: wanted, stride: step.stride };
            let outer = [&steps[..index], &[outer]].concat();
            return Some((outer, [&[rest], &steps[index + 1..]].concat()));
        }
        inner *= step.count;
    }
    (inner == size).then(|| (Vec::new(), steps.to_vec()))
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
    fn transposing_twice_changes_nothing() {
        let walk = Walk::dense(&[2, 3]);
        let turned = walk.transposed().expect("it has two dimensions");
        assert_eq!(turned.shape(), [3, 2]);
        assert_eq!(visited(&turned), [0, 3, 1, 4, 2, 5]);
        assert_eq!(turned.range(), None);
        assert_eq!(turned.transposed(), Some(walk));
        assert_eq!(Walk::dense(&[4]).transposed(), None);
    }

    #[test]
    fn parts_of_rows_are_ranges_and_parts_of_groups_are_not() {
        let walk = Walk::dense(&[6, 2]);
        let part = walk.part(1, 2, 3).expect("five rows are in six");
        assert_eq!((part.shape(), part.range()), (vec![3, 2], Some(4..10)));
        let part = walk.part(2, 1, 1).expect("each three rows have a second");
        assert_eq!((part.shape(), part.range()), (vec![2, 2], None));
        assert_eq!(visited(&part), [2, 3, 8, 9]);
        assert_eq!(walk.part(1, 4, 3), None);
        assert_eq!(walk.part(4, 0, 1), None);
        assert_eq!(walk.part(0, 0, 1), None);
        assert_eq!(walk.part(1, usize::MAX, 2), None);
        assert_eq!(Walk::dense(&[0, 2]).part(3, 0, 0).map(|walk| walk.shape()), Some(vec![0, 2]));
        assert!(
            Walk::strided(1, &[4, 0], &[usize::MAX, 1])
                .part(1, 2, 2)
                .is_some_and(|walk| visited(&walk).is_empty())
        );
        assert_eq!(walk.part(1, 2, 0).map(|walk| walk.shape()), Some(vec![0, 2]));
    }

    #[test]
    fn rows_regrouped_there_and_back_are_as_before() {
        let walk = Walk::dense(&[8, 1]);
        let pairs = walk.regrouped(2, 2).expect("eight rows are two heads of two pairs");
        assert_eq!(visited(&pairs), [0, 2, 1, 3, 4, 6, 5, 7]);
        let wide = Walk::dense(&[12]).regrouped(1, 4).expect("twelve rows are three fours");
        assert_eq!(visited(&wide), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        let back = wide.regrouped(1, 3).expect("and four threes");
        assert_eq!(visited(&back), (0..12).collect::<Vec<_>>());
        assert_eq!(walk.regrouped(3, 2), None);
        assert_eq!(walk.regrouped(2, 3), None);
    }

    #[test]
    fn a_part_of_groups_can_be_regrouped_and_parted_again() {
        // Two heads of [query, key], four rows each: the keys, and of these the pairs.
        let keys = Walk::dense(&[16]).part(2, 4, 4).expect("the second half of each eight");
        assert_eq!(visited(&keys), [4, 5, 6, 7, 12, 13, 14, 15]);
        let pairs = keys.regrouped(2, 2).expect("each four are two pairs");
        assert_eq!(visited(&pairs), [4, 6, 5, 7, 12, 14, 13, 15]);
        let second = pairs.part(1, 4, 4).expect("one head");
        assert_eq!(visited(&second), [12, 14, 13, 15]);
        assert_eq!(pairs.part(1, 1, 2), None, "these rows begin inside a group");
    }

    #[test]
    fn blocks_survive_where_only_rows_move() {
        let walk = Walk::dense(&[4, 64]);
        assert!(walk.keeps_blocks(32) && walk.keeps_blocks(64) && walk.keeps_blocks(256));
        assert!(walk.part(2, 1, 1).is_some_and(|part| part.keeps_blocks(64) && !part.keeps_blocks(128)));
        assert!(walk.regrouped(1, 2).is_some_and(|rows| rows.keeps_blocks(32)));
        assert!(walk.transposed().is_some_and(|turned| !turned.keeps_blocks(32) && turned.keeps_blocks(1)));
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
