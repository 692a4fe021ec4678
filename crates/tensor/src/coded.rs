//! Weights in few bits: codes, and what each group of them is multiplied by.
//!
//! All formats that Glassformer reads or writes in few bits are one of these, so that a backend needs to know no file
//! format: GGUF's blocks, CTranslate2's integers, and what `quantize` writes. Files keep their own layouts; here a row is
//! taken apart, number by number.

use std::cmp::Ordering;

use crate::half;

/// How the numbers of a matrix are written in few bits.
///
/// A row is cut into groups. A number is `scale · (code - offset)`, or `scale · code - minimum`, with its group's scale and
/// minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coding {
    /// How large codes are.
    pub bits: Bits,
    /// Numbers of a group: 16 or 32. Of [`Scales::Row`], all numbers of a row are one.
    pub group: usize,
    /// What code stands for zero.
    pub base: Base,
    /// How scales are written.
    pub scales: Scales,
}

/// The size of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// 0 to 15.
    Four,
    /// 0 to 63.
    Six,
    /// 0 to 255.
    Eight,
}

/// What code stands for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// This one.
    Offset(u8),
    /// None: each group has a minimum, which is taken away.
    Minimum,
}

/// How scales, and minima where there are any, are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scales {
    /// One number for each row.
    Row,
    /// A half for each group.
    Halves,
    /// A small integer for each group, times a number for each [`SUPER`] numbers.
    Steps,
    /// An integer from 0 to [`LARGEST_STEP`] for each group, times one number for the row.
    RowSteps,
}

/// Numbers that share the upper level of [`Scales::Steps`].
pub const SUPER: usize = 256;

/// The largest step of [`Scales::RowSteps`]. A code of four bits without its offset, -8 to 7, times a step then fits into eight bits: a row
/// in four bits is one of integers in eight with one scale, and is multiplied as such.
pub const LARGEST_STEP: u8 = 15;

impl Coding {
    /// What `quantize` makes of weights in 8 bits: integers from -127 to 127, and a scale for each row.
    pub const INT8: Self =
        Self { bits: Bits::Eight, group: usize::MAX, base: Base::Offset(128), scales: Scales::Row };
    /// What it makes of them in 4 bits: from -8 to 7, with a step for each 16, and a scale for each row.
    pub const INT4: Self =
        Self { bits: Bits::Four, group: 16, base: Base::Offset(8), scales: Scales::RowSteps };
    /// Rows of [`Coding::INT4`] are whole numbers of these: the steps of two groups share a byte.
    pub const INT4_BLOCK: usize = 2 * Self::INT4.group;

    /// Groups of a row of so many numbers.
    pub fn groups(&self, width: usize) -> usize {
        match self.scales {
            Scales::Row => 1,
            Scales::Halves | Scales::Steps | Scales::RowSteps => width.div_ceil(self.group),
        }
    }

    /// The largest code.
    pub fn most(&self) -> u8 {
        match self.bits {
            Bits::Four => 15,
            Bits::Six => 63,
            Bits::Eight => 255,
        }
    }

    /// Writes `numbers` in this coding, where it is one of ours.
    ///
    /// Integers of a whole row lie from -127 to 127, by the largest of them. For a group some scales, or steps, near the one that its
    /// farthest number asks for are tried: the one with the least squared error wins.
    ///
    /// # Panics
    /// If the coding has minima, or steps for each [`SUPER`] numbers: those come from files alone.
    pub fn encode(&self, numbers: &[f32], row: &mut CodedRow) {
        let Base::Offset(offset) = self.base else { panic!("{self:?} is read, and never written") };
        let offset = f32::from(offset);
        row.clear();
        match self.scales {
            Scales::Row => Self::encode_row(numbers, row),
            Scales::Halves => {
                for group in numbers.chunks(self.group) {
                    // The lowest code is one farther from zero than the highest, so the farthest number gets that one.
                    let scale = self.best_scale(group, farthest(group) / -offset, half_of);
                    row.scales.push(scale);
                    self.encode_group(group, scale, row);
                }
            }
            Scales::RowSteps => self.encode_steps(numbers, row),
            Scales::Steps => panic!("{self:?} is read, and never written"),
        }
    }

    /// Appends the codes of a group of this scale.
    fn encode_group(&self, group: &[f32], scale: f32, row: &mut CodedRow) {
        let (offset, inverse) = (self.offset(), inverse(scale));
        row.codes.extend(group.iter().map(|&x| self.nearest(x * inverse + offset) as u8));
    }

    /// A row of [`Scales::RowSteps`]. The group with the farthest number gets the largest step. Where one number is so far from all
    /// others that they would have but a few steps, less of it may be better for them all.
    fn encode_steps(&self, numbers: &[f32], row: &mut CodedRow) {
        let groups = || numbers.chunks(self.group);
        let far = |group: &[f32]| farthest(group).abs();
        let last = groups().max_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or_default();
        let largest = f32::from(LARGEST_STEP);
        let most = self.best_scale(last, far(last) / self.offset(), |scale| scale);
        // What is so small that its inverse is infinite is nothing.
        let mut unit = if most < f32::MIN_POSITIVE * largest { 0.0 } else { most / largest };
        let typical =
            groups().map(|group| far(group) / self.offset()).sum::<f32>() / groups().len().max(1) as f32;
        let steps = |unit: f32, steps: &mut Vec<i8>| -> f32 {
            steps.clear();
            let mut error = 0.0;
            for group in groups() {
                let (less, step) = self.best_step(group, unit);
                error += less;
                steps.push(step.cast_signed());
            }
            error
        };
        let mut error = steps(unit, &mut row.scale_steps);
        let mut others = Vec::new();
        while typical < unit * FINE {
            let other = steps(unit * LESS, &mut others);
            // Not so where a number is none, either.
            if other.partial_cmp(&error) != Some(Ordering::Less) {
                break;
            }
            std::mem::swap(&mut row.scale_steps, &mut others);
            (unit, error) = (unit * LESS, other);
        }
        row.scales.push(unit);
        for (at, group) in groups().enumerate() {
            self.encode_group(group, unit * f32::from(row.scale_steps[at]), row);
        }
    }

    /// The step of this unit that suits a group best, with its error.
    fn best_step(&self, group: &[f32], unit: f32) -> (f32, u8) {
        let ideal = farthest(group).abs() * inverse(unit) / self.offset();
        let [first, last] = [ideal * TRIES[1], ideal * TRIES[TRIES.len() - 1] + 1.0].map(|step| step as u8);
        let tries = first..=last.min(LARGEST_STEP);
        let tries = tries.map(|step| (self.error(group, unit * f32::from(step)), step));
        tries
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or_else(|| (self.error(group, unit * f32::from(LARGEST_STEP)), LARGEST_STEP))
    }

    /// The code that stands for zero, where one does.
    pub fn offset(&self) -> f32 {
        if let Base::Offset(offset) = self.base { f32::from(offset) } else { 0.0 }
    }

    fn encode_row(numbers: &[f32], row: &mut CodedRow) {
        let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        // As when rows of activations are narrowed: what is so small that its inverse is infinite is nothing.
        let inverse = if most < f32::MIN_POSITIVE * 127.0 { 0.0 } else { 127.0 / most };
        row.scales.push(if inverse == 0.0 { 0.0 } else { most / 127.0 });
        let code = |x: &f32| ((x * inverse).round_ties_even() as i32 + 128) as u8;
        row.codes.extend(numbers.iter().map(code));
    }

    /// The code that is nearest to `x`, as a number. What is added and taken away leaves no room for a fraction, and ties go to the
    /// even one; `round_ties_even` would be a call for each number.
    pub fn nearest(&self, x: f32) -> f32 {
        const NO_FRACTION: f32 = (1 << 23) as f32;
        x.clamp(0.0, f32::from(self.most())) + NO_FRACTION - NO_FRACTION
    }

    /// The squared error of a group with this scale.
    fn error(&self, group: &[f32], scale: f32) -> f32 {
        let (offset, inverse) = (self.offset(), inverse(scale));
        let mut sums = [0.0_f32; LANES];
        for numbers in group.chunks(LANES) {
            for (sum, &x) in sums.iter_mut().zip(numbers) {
                let error = x - scale * (self.nearest(x * inverse + offset) - offset);
                *sum += error * error;
            }
        }
        sums.iter().sum::<f32>()
    }

    /// A scale for a group near `plain`, as `held` makes it. A larger one is coarser, a smaller one clips: how much of either pays is
    /// found by trying. With many codes there is little to gain.
    fn best_scale(&self, group: &[f32], plain: f32, held: impl Fn(f32) -> f32) -> f32 {
        let tries: &[f32] = if self.most() > 15 { &[1.0] } else { &TRIES };
        let scales = tries.iter().map(|&part| held(plain * part)).filter(|scale| scale.is_finite());
        let best = scales.map(|scale| (self.error(group, scale), scale)).min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(f32::NAN, |(_, scale)| scale)
    }
}

/// The half that is nearest, widened.
fn half_of(x: f32) -> f32 {
    half::widen(half::round(x))
}

/// Squares that are added side by side.
const LANES: usize = 16;

/// One over a scale; of none, none.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The number that is farthest from zero.
fn farthest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |most, &x| if x.abs() > most.abs() { x } else { most })
}

/// What the plain scale of a group is multiplied by, to see whether that is better.
const TRIES: [f32; 13] = [1.0, 0.7, 0.75, 0.8, 0.84, 0.88, 0.92, 0.95, 0.975, 1.025, 1.05, 1.1, 1.15];

/// Fewer steps than these are few for a group.
const FINE: f32 = 4.0;
/// What a unit of steps is multiplied by, to see whether less is better.
const LESS: f32 = 0.6;

/// One row, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodedRow {
    /// A code for each number.
    pub codes: Vec<u8>,
    /// A scale for the row, for each group, or for each [`SUPER`] numbers.
    pub scales: Vec<f32>,
    /// The same of minima, where there are any.
    pub minima: Vec<f32>,
    /// What the scale of each group is multiplied by, with [`Scales::Steps`] and [`Scales::RowSteps`].
    pub scale_steps: Vec<i8>,
    /// The same of minima.
    pub minimum_steps: Vec<i8>,
}

impl CodedRow {
    /// Nothing, with room for what was there.
    pub fn clear(&mut self) {
        self.codes.clear();
        self.scales.clear();
        self.minima.clear();
        self.scale_steps.clear();
        self.minimum_steps.clear();
    }

    /// Whether every number that it stands for is one.
    pub fn is_finite(&self) -> bool {
        self.scales.iter().chain(&self.minima).all(|x| x.is_finite())
    }

    /// The numbers that it stands for.
    pub fn decode(&self, coding: &Coding) -> Vec<f32> {
        let of_group = |numbers: &[f32], steps: &[i8], group: usize| match coding.scales {
            Scales::Row | Scales::RowSteps => numbers[0],
            Scales::Halves => numbers[group],
            Scales::Steps => numbers[group * coding.group / SUPER] * f32::from(steps[group]),
        };
        let number = |(at, &code): (usize, &u8)| {
            let group = if coding.scales == Scales::Row { 0 } else { at / coding.group };
            let scale = of_group(&self.scales, &self.scale_steps, group);
            // Of a row with steps, codes and steps make one integer.
            let step =
                if coding.scales == Scales::RowSteps { f32::from(self.scale_steps[group]) } else { 1.0 };
            match coding.base {
                Base::Offset(offset) => scale * ((f32::from(code) - f32::from(offset)) * step),
                Base::Minimum => scale * f32::from(code) - of_group(&self.minima, &self.minimum_steps, group),
            }
        };
        self.codes.iter().enumerate().map(number).collect()
    }
}

/// Integers from -127 to 127 with a scale for each row, as files hold them.
#[derive(Clone, Copy, Debug)]
pub struct Integers<'a> {
    /// The integers, row by row, each a byte.
    pub bytes: &'a [u8],
    /// What those of each row are multiplied by.
    pub scales: &'a [f32],
}

/// A matrix in few bits, wherever it lies.
pub trait Coded {
    /// How it is written.
    fn coding(&self) -> Coding;

    /// Takes row number `row` apart. Rows that it does not have are empty.
    fn row(&self, row: usize, into: &mut CodedRow);

    /// All rows at once where they lie, if the coding is [`Coding::INT8`].
    fn integers(&self) -> Option<Integers<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn numbers_come_back_within_half_a_step() {
        let mut random = Random::new(1);
        let mut row = CodedRow::default();
        for width in [1, 31, 32, 33, 256, 300, 768] {
            let numbers: Vec<f32> = (0..width).map(|_| random.normal()).collect();
            Coding::INT8.encode(&numbers, &mut row);
            let most = numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            for (x, y) in numbers.iter().zip(row.decode(&Coding::INT8)) {
                assert!((x - y).abs() <= most / 253.0, "{x} became {y}");
            }
        }
    }

    /// Four bits with a half for each 32: what GGUF calls `Q4_0`.
    const HALVES: Coding =
        Coding { bits: Bits::Four, group: 32, base: Base::Offset(8), scales: Scales::Halves };

    fn squared_error(numbers: &[f32], row: &CodedRow, coding: &Coding) -> f32 {
        numbers.iter().zip(row.decode(coding)).map(|(x, y)| (x - y).powi(2)).sum()
    }

    #[test]
    fn four_bits_are_never_worse_than_the_plain_scale() {
        let mut random = Random::new(2);
        let mut row = CodedRow::default();
        for _ in 0..100 {
            let numbers: Vec<f32> = (0..32).map(|_| random.normal()).collect();
            HALVES.encode(&numbers, &mut row);
            let plain = half_of(farthest(&numbers) / -8.0);
            let rounded = |x: &f32| (x - (x / plain).round_ties_even().clamp(-8.0, 7.0) * plain).powi(2);
            let by_plain: f32 = numbers.iter().map(rounded).sum();
            assert!(squared_error(&numbers, &row, &HALVES) <= by_plain * 1.000_01);
        }
    }

    #[test]
    fn steps_of_sixteen_are_finer_than_halves_of_thirty_two() {
        let mut random = Random::new(3);
        let (mut row, mut sums) = (CodedRow::default(), [0.0; 2]);
        for _ in 0..50 {
            let numbers: Vec<f32> = (0..512).map(|_| random.normal()).collect();
            for (sum, coding) in sums.iter_mut().zip([Coding::INT4, HALVES]) {
                coding.encode(&numbers, &mut row);
                *sum += squared_error(&numbers, &row, &coding);
            }
        }
        assert!(sums[0] < sums[1], "{sums:?}");
    }

    #[test]
    fn a_row_in_four_bits_is_one_of_integers_in_eight() {
        let mut random = Random::new(4);
        let mut row = CodedRow::default();
        for width in [1, 16, 31, 100, 512] {
            let numbers: Vec<f32> = (0..width).map(|_| random.normal()).collect();
            Coding::INT4.encode(&numbers, &mut row);
            assert_eq!((row.codes.len(), row.scales.len()), (width, 1));
            assert_eq!(row.scale_steps.len(), width.div_ceil(16));
            for (at, x) in row.decode(&Coding::INT4).iter().enumerate() {
                let integer = (i32::from(row.codes[at]) - 8) * i32::from(row.scale_steps[at / 16]);
                assert!((-127..=127).contains(&integer));
                assert!((x - row.scales[0] * integer as f32).abs() <= 1e-6 * x.abs());
            }
        }
    }

    #[test]
    fn a_number_far_from_all_others_does_not_cost_them_all_their_bits() {
        let mut random = Random::new(5);
        let mut row = CodedRow::default();
        let mut numbers: Vec<f32> = (0..512).map(|_| random.normal()).collect();
        let of = |numbers: &[f32]| numbers.iter().map(|x| x * x).sum::<f32>();
        Coding::INT4.encode(&numbers, &mut row);
        let before = squared_error(&numbers, &row, &Coding::INT4) / of(&numbers);
        numbers[100] = 30.0;
        Coding::INT4.encode(&numbers, &mut row);
        let after = squared_error(&numbers[208..], &cut(&row, 208), &Coding::INT4) / of(&numbers[208..]);
        assert!(after < 3.0 * before, "{before} became {after}");
    }

    /// A row from one of its groups on.
    fn cut(row: &CodedRow, from: usize) -> CodedRow {
        let (codes, scale_steps) =
            (row.codes[from / 16 * 16..].to_vec(), row.scale_steps[from / 16..].to_vec());
        CodedRow { codes, scale_steps, ..row.clone() }
    }

    #[test]
    fn nothing_stays_nothing_and_what_is_too_large_is_told() {
        let mut row = CodedRow::default();
        for coding in [Coding::INT8, Coding::INT4, HALVES] {
            for nothing in [[0.0; 40], [f32::MIN_POSITIVE / 4.0; 40]] {
                coding.encode(&nothing, &mut row);
                assert_eq!(row.decode(&coding), [0.0; 40]);
            }
        }
        HALVES.encode(&[1e30; 32], &mut row);
        assert!(!row.is_finite());
        Coding::INT4.encode(&[f32::INFINITY; 32], &mut row);
        assert!(!row.is_finite());
    }
}
