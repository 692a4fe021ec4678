//! Weights in few bits: codes, and what each group of them is multiplied by.
//!
//! All formats that Glassformer reads or writes in few bits are one of these, so that a backend needs to know no file
//! format: GGUF's blocks, CTranslate2's integers, and what `quantize` writes. Files keep their own layouts; here a row is
//! taken apart, number by number.

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
}

/// Numbers that share the upper level of [`Scales::Steps`].
pub const SUPER: usize = 256;

impl Coding {
    /// What `quantize` makes of weights in 8 bits: integers from -127 to 127, and a scale for each row.
    pub const INT8: Self =
        Self { bits: Bits::Eight, group: usize::MAX, base: Base::Offset(128), scales: Scales::Row };
    /// What it makes of them in 4 bits: from -8 to 7, and a scale for each 32.
    pub const INT4: Self =
        Self { bits: Bits::Four, group: 32, base: Base::Offset(8), scales: Scales::Halves };

    /// Groups of a row of so many numbers.
    pub fn groups(&self, width: usize) -> usize {
        match self.scales {
            Scales::Row => 1,
            Scales::Halves | Scales::Steps => width.div_ceil(self.group),
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
    /// Integers of a whole row lie from -127 to 127, by the largest of them. In a group the number that is farthest from
    /// zero gets the code that is, and then some scales near that one are tried: the one with the least squared error wins.
    ///
    /// # Panics
    /// If the coding has minima or steps: those come from files alone.
    pub fn encode(&self, numbers: &[f32], row: &mut CodedRow) {
        let Base::Offset(offset) = self.base else { panic!("{self:?} is read, and never written") };
        row.clear();
        match self.scales {
            Scales::Row => Self::encode_row(numbers, row),
            Scales::Halves => {
                for group in numbers.chunks(self.group) {
                    let scale = self.best_scale(group, f32::from(offset));
                    row.scales.push(scale);
                    let (offset, inverse) = (f32::from(offset), inverse(scale));
                    row.codes.extend(group.iter().map(|&x| self.nearest(x * inverse + offset) as u8));
                }
            }
            Scales::Steps => panic!("{self:?} is read, and never written"),
        }
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
    fn nearest(&self, x: f32) -> f32 {
        const NO_FRACTION: f32 = (1 << 23) as f32;
        x.clamp(0.0, f32::from(self.most())) + NO_FRACTION - NO_FRACTION
    }

    /// A scale for a group, such that a half holds it.
    fn best_scale(&self, group: &[f32], offset: f32) -> f32 {
        let most = f32::from(self.most());
        // The lowest code is one farther from zero than the highest, so the farthest number gets that one.
        let plain = farthest(group) / -offset;
        let near = |part: f32| half::widen(half::round(plain * part));
        let error = |scale: f32| {
            let inverse = inverse(scale);
            let mut sums = [0.0_f32; LANES];
            for numbers in group.chunks(LANES) {
                for (sum, &x) in sums.iter_mut().zip(numbers) {
                    let error = x - scale * (self.nearest(x * inverse + offset) - offset);
                    *sum += error * error;
                }
            }
            sums.iter().sum::<f32>()
        };
        // A larger scale is coarser, a smaller one clips: how much of either pays is found by trying. With many codes there is
        // little to gain.
        let tries: &[f32] = if most > 15.0 { &[1.0] } else { &TRIES };
        let scales = tries.iter().map(|&part| near(part)).filter(|scale| scale.is_finite());
        let best = scales.map(|scale| (error(scale), scale)).min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(f32::NAN, |(_, scale)| scale)
    }
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

/// One row, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodedRow {
    /// A code for each number.
    pub codes: Vec<u8>,
    /// A scale for the row, for each group, or for each [`SUPER`] numbers.
    pub scales: Vec<f32>,
    /// The same of minima, where there are any.
    pub minima: Vec<f32>,
    /// What the scale of each group is multiplied by, with [`Scales::Steps`].
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
            Scales::Row => numbers[0],
            Scales::Halves => numbers[group],
            Scales::Steps => numbers[group * coding.group / SUPER] * f32::from(steps[group]),
        };
        let number = |(at, &code): (usize, &u8)| {
            let group = if coding.scales == Scales::Row { 0 } else { at / coding.group };
            let scale = of_group(&self.scales, &self.scale_steps, group);
            match coding.base {
                Base::Offset(offset) => scale * (f32::from(code) - f32::from(offset)),
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

    #[test]
    fn four_bits_are_never_worse_than_the_plain_scale() {
        let mut random = Random::new(2);
        let mut row = CodedRow::default();
        for _ in 0..100 {
            let numbers: Vec<f32> = (0..32).map(|_| random.normal()).collect();
            Coding::INT4.encode(&numbers, &mut row);
            let error =
                |found: &[f32]| -> f32 { numbers.iter().zip(found).map(|(x, y)| (x - y).powi(2)).sum() };
            let plain = half::widen(half::round(farthest(&numbers) / -8.0));
            let rounded = |x: &f32| (x / plain).round_ties_even().clamp(-8.0, 7.0) * plain;
            let by_plain: Vec<f32> = numbers.iter().map(rounded).collect();
            assert!(error(&row.decode(&Coding::INT4)) <= error(&by_plain) * 1.000_01);
        }
    }

    #[test]
    fn nothing_stays_nothing_and_what_is_too_large_is_told() {
        let mut row = CodedRow::default();
        for coding in [Coding::INT8, Coding::INT4] {
            coding.encode(&[0.0; 40], &mut row);
            assert_eq!(row.decode(&coding), [0.0; 40]);
        }
        Coding::INT4.encode(&[1e30; 32], &mut row);
        assert!(!row.is_finite());
    }
}
