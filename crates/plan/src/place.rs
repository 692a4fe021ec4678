//! Where values lie in one block of memory: two that live at the same time never overlap, others may.

/// A value that needs a place: how much, and from which phase to which, both included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Life {
    /// Floats.
    pub floats: usize,
    /// The phase that writes it.
    pub first: usize,
    /// The last phase that reads it.
    pub last: usize,
}

impl Life {
    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The offset of each life, a multiple of `line` floats, and how long the memory must be.
///
/// The largest is placed first, each at the lowest offset that is free during its whole life: "greedy by size" (Pisarchyk
/// and Lee 2020). Quadratic in the number of values, which is some thousands at most, and done once.
pub fn place(lives: &[Life], line: usize) -> (Vec<usize>, usize) {
    let lines = |floats: usize| floats.next_multiple_of(line);
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(lives[index].floats), lives[index].first));
    let mut offsets = vec![0; lives.len()];
    // What has a place, by its offset.
    let mut placed: Vec<usize> = Vec::with_capacity(lives.len());
    let mut total = 0;
    for index in order {
        let need = lines(lives[index].floats);
        let mut offset = 0;
        for &other in placed.iter().filter(|&&other| lives[other].meets(&lives[index])) {
            if offset + need <= offsets[other] {
                break;
            }
            offset = offset.max(offsets[other] + lines(lives[other].floats));
        }
        offsets[index] = offset;
        placed.insert(placed.partition_point(|&other| offsets[other] <= offset), index);
        total = total.max(offset + need);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    use glassformer_tensor::Random;

    const LINE: usize = 16;

    #[test]
    fn lives_that_meet_never_overlap() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let lives: Vec<Life> = (0..random.below(60))
                .map(|_| {
                    let first = random.below(30);
                    Life { floats: random.below(200), first, last: first + random.below(6) }
                })
                .collect();
            let (offsets, total) = place(&lives, LINE);
            for (a, (x, &at)) in lives.iter().zip(&offsets).enumerate() {
                assert!(at % LINE == 0 && at + x.floats <= total);
                for (y, &other) in lives[..a].iter().zip(&offsets) {
                    assert!(
                        !x.meets(y) || at + x.floats <= other || other + y.floats <= at,
                        "{x:?} and {y:?}"
                    );
                }
            }
            let least = (0..40).map(|phase| {
                lives
                    .iter()
                    .filter(|l| l.first <= phase && phase <= l.last)
                    .map(|l| l.floats.next_multiple_of(LINE))
                    .sum::<usize>()
            });
            assert!(total <= 2 * least.max().unwrap_or(0), "the arena is much longer than any phase needs");
        }
    }

    #[test]
    fn a_chain_needs_room_for_two() {
        let lives: Vec<Life> = (0..50).map(|i| Life { floats: 64, first: i, last: i + 1 }).collect();
        assert_eq!(place(&lives, LINE).1, 128);
    }
}
