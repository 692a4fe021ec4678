//! Are two blocks of numbers the same, within a tolerance, and if not, where do they part?

/// What may differ: `|a − b| ≤ absolute + relative · |b|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The part that does not grow with the numbers.
    pub absolute: f32,
    /// The part that does.
    pub relative: f32,
}

impl Tolerance {
    /// The same bound as absolute and relative tolerance.
    pub fn both(bound: f32) -> Self {
        Self { absolute: bound, relative: bound }
    }
}

/// The worst place where two blocks differ by more than they may.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its index.
    pub index: usize,
    /// The number found there.
    pub found: f32,
    /// The number expected there.
    pub expected: f32,
    /// How many places differ by more than they may.
    pub count: usize,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, found, expected, count } = self;
        write!(f, "{count} differ; worst at {index}: {found} where {expected} was expected")
    }
}

impl std::error::Error for Difference {}

/// Compares element by element; NaN equals only NaN, and another length differs where the shorter one ends.
///
/// # Errors
/// The worst place, if any place is out of tolerance.
pub fn compare(found: &[f32], expected: &[f32], tolerance: Tolerance) -> Result<(), Difference> {
    if found.len() != expected.len() {
        let index = found.len().min(expected.len());
        let at = |side: &[f32]| side.get(index).copied().unwrap_or(f32::NAN);
        let count = found.len().abs_diff(expected.len());
        return Err(Difference { index, found: at(found), expected: at(expected), count });
    }
    let mut worst: Option<(f32, Difference)> = None;
    for (index, (&a, &b)) in found.iter().zip(expected).enumerate() {
        let excess = match (a.is_nan(), b.is_nan()) {
            (true, true) => continue,
            (false, false) if a == b => continue,
            (false, false) => (a - b).abs() - (tolerance.absolute + tolerance.relative * b.abs()),
            _ => f32::INFINITY,
        };
        if excess > 0.0 {
            let count = worst.as_ref().map_or(0, |(_, d)| d.count) + 1;
            match &mut worst {
                Some((most, difference)) if *most >= excess => difference.count = count,
                _ => worst = Some((excess, Difference { index, found: a, expected: b, count })),
            }
        }
    }
    worst.map_or(Ok(()), |(_, difference)| Err(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_place_is_named() {
        let difference = compare(&[1.0, 2.5, 9.0], &[1.0, 2.0, 3.0], Tolerance::both(1e-6)).unwrap_err();
        assert_eq!((difference.index, difference.count), (2, 2));
        assert!(compare(&[1.0], &[1.0, 2.0], Tolerance::both(1.0)).is_err());
        assert!(compare(&[f32::NAN], &[1.0], Tolerance::both(1.0)).is_err());
        assert!(
            compare(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], Tolerance::both(0.0)).is_ok()
        );
    }
}
