//! Numbers stored in blocks: a few bits each, with scales shared by a block. The types are GGUF's, and one is our own.
//!
//! Every type is a layout of bytes and one formula; both stand in the doc comment of its function, which takes a block apart.
//! The formulas are two, and evaluated in `f32`, operation by operation as the reference (ggml, and its Python twin `gguf`)
//! writes them down, so the numbers are the reference's bit for bit.

use glassformer_tensor::{Base, Bits, CodedRow, Coding, SUPER, Scales};

mod grid;
mod long;
mod short;

/// A type of number that is stored in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quant {
    /// 32 numbers of 4 bits around zero, one scale.
    Q4_0,
    /// 32 numbers of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 numbers of 5 bits around zero, one scale.
    Q5_0,
    /// 32 numbers of 5 bits, a scale and a minimum.
    Q5_1,
    /// 32 numbers of 8 bits, one scale.
    Q8_0,
    /// 256 numbers of 2 bits; each 16 have a scale and a minimum of 4 bits.
    Q2K,
    /// 256 numbers of 3 bits around zero; each 16 have a scale of 6 bits.
    Q3K,
    /// 256 numbers of 4 bits; each 32 have a scale and a minimum of 6 bits.
    Q4K,
    /// 256 numbers of 5 bits; each 32 have a scale and a minimum of 6 bits.
    Q5K,
    /// 256 numbers of 6 bits around zero; each 16 have a scale of 8 bits.
    Q6K,
    /// 256 numbers as 32 points of a grid of 256, with signs; each 32 have a scale of 4 bits.
    Iq2Xxs,
    /// Ours: 32 numbers of 4 bits around zero; each 16 have a step of 4 bits. What a row is multiplied by stands elsewhere.
    Int4,
}

impl Quant {
    /// Every type.
    pub const ALL: [Self; 12] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq2Xxs,
        Self::Int4,
    ];

    /// Its name, in GGUF where it is one of those.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2K => "Q2_K",
            Self::Q3K => "Q3_K",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::Iq2Xxs => "IQ2_XXS",
            Self::Int4 => "int4",
        }
    }

    /// The type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quant| quant.name() == name)
    }

    /// Numbers in a block.
    pub fn numbers(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::Int4 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K | Self::Iq2Xxs => 256,
        }
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        match self {
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::Iq2Xxs => 66,
            Self::Int4 => 17,
        }
    }

    /// How its numbers are written, whatever the layout of its bytes.
    pub fn coding(self) -> Coding {
        let halves = |bits, base| Coding { bits, group: 32, base, scales: Scales::Halves };
        let steps = |bits, group, base| Coding { bits, group, base, scales: Scales::Steps };
        match self {
            Self::Q4_0 => halves(Bits::Four, Base::Offset(8)),
            Self::Q4_1 => halves(Bits::Four, Base::Minimum),
            Self::Q5_0 => halves(Bits::Six, Base::Offset(16)),
            Self::Q5_1 => halves(Bits::Six, Base::Minimum),
            Self::Q8_0 => halves(Bits::Eight, Base::Offset(128)),
            Self::Q2K => steps(Bits::Four, 16, Base::Minimum),
            Self::Q3K => steps(Bits::Four, 16, Base::Offset(4)),
            Self::Q4K => steps(Bits::Four, 32, Base::Minimum),
            Self::Q5K => steps(Bits::Six, 32, Base::Minimum),
            Self::Q6K => steps(Bits::Six, 16, Base::Offset(32)),
            Self::Iq2Xxs => steps(Bits::Eight, 32, Base::Offset(128)),
            Self::Int4 => Coding::INT4,
        }
    }

    /// Whole blocks, taken apart one by one. Bytes after the last whole block are not looked at.
    fn each(self, blocks: &[u8], take: impl FnMut(&Parts)) {
        match self {
            Self::Q4_0 => each(blocks, short::q4_0, take),
            Self::Q4_1 => each(blocks, short::q4_1, take),
            Self::Q5_0 => each(blocks, short::q5_0, take),
            Self::Q5_1 => each(blocks, short::q5_1, take),
            Self::Q8_0 => each(blocks, short::q8_0, take),
            Self::Q2K => each(blocks, long::q2_k, take),
            Self::Q3K => each(blocks, long::q3_k, take),
            Self::Q4K => each(blocks, long::q4_k, take),
            Self::Q5K => each(blocks, long::q5_k, take),
            Self::Q6K => each(blocks, long::q6_k, take),
            Self::Iq2Xxs => each(blocks, grid::iq2_xxs, take),
            Self::Int4 => each(blocks, short::int4, take),
        }
    }

    /// The numbers of whole blocks as `f32`. Bytes after the last whole block are not looked at.
    pub fn widen(self, blocks: &[u8]) -> Vec<f32> {
        let coding = self.coding();
        let mut numbers = Vec::with_capacity(blocks.len() / self.bytes() * self.numbers());
        self.each(blocks, |parts| {
            for (group, codes) in parts.codes[..self.numbers()].chunks_exact(coding.group).enumerate() {
                let scale = parts.scale * f32::from(parts.scale_steps[group]);
                match coding.base {
                    Base::Offset(offset) => {
                        let offset = f32::from(offset);
                        numbers.extend(codes.iter().map(|&code| scale * (f32::from(code) - offset)));
                    }
                    Base::Minimum => {
                        let minimum = parts.minimum * f32::from(parts.minimum_steps[group]);
                        numbers.extend(codes.iter().map(|&code| scale * f32::from(code) - minimum));
                    }
                }
            }
        });
        numbers
    }

    /// Appends the codes and scales of whole blocks to `row`, as [`Quant::coding`] says.
    pub(crate) fn take_apart(self, blocks: &[u8], row: &mut CodedRow) {
        if self == Self::Int4 {
            return int4_apart(blocks, row);
        }
        let coding = self.coding();
        let groups = self.numbers() / coding.group;
        row.codes.reserve(blocks.len() / self.bytes() * self.numbers());
        self.each(blocks, |parts| {
            // A copy of so many bytes is a few moves, and one of any number a call.
            match parts.codes.first_chunk::<32>() {
                Some(codes) if self.numbers() == 32 => row.codes.extend_from_slice(codes),
                _ => row.codes.extend_from_slice(&parts.codes),
            }
            row.scales.push(parts.scale);
            if coding.scales == Scales::Steps {
                row.scale_steps.extend_from_slice(&parts.scale_steps[..groups]);
            }
            if coding.base == Base::Minimum {
                row.minima.push(parts.minimum);
                if coding.scales == Scales::Steps {
                    row.minimum_steps.extend_from_slice(&parts.minimum_steps[..groups]);
                }
            }
        });
    }
}

/// The same of [`Quant::Int4`]. Whoever starts in four bits waits for this, so codes are written to where they belong at once.
fn int4_apart(blocks: &[u8], row: &mut CodedRow) {
    let blocks = blocks.as_chunks().0;
    let (codes, steps) = (row.codes.len(), row.scale_steps.len());
    row.codes.resize(codes + blocks.len() * Coding::INT4_BLOCK, 0);
    row.scale_steps.resize(steps + blocks.len() * 2, 0);
    let (codes, steps) = (row.codes[codes..].as_chunks_mut().0, row.scale_steps[steps..].as_chunks_mut().0);
    for ((block, codes), steps) in blocks.iter().zip(codes).zip(steps) {
        (*codes, *steps) = short::int4_block(block);
    }
}

/// Appends a row of [`Coding::INT4`] as blocks of [`Quant::Int4`].
///
/// # Panics
/// If the row is not one of whole blocks.
pub fn put_together(row: &CodedRow, bytes: &mut Vec<u8>) {
    let (codes, rest) = row.codes.as_chunks::<{ Coding::INT4_BLOCK }>();
    let (steps, odd) = row.scale_steps.as_chunks::<2>();
    assert!(rest.is_empty() && odd.is_empty() && codes.len() == steps.len(), "codes of whole blocks");
    for (codes, steps) in codes.iter().zip(steps) {
        bytes.extend((0..16).map(|i| codes[i] | codes[i + 16] << 4));
        bytes.push(steps[0].cast_unsigned() | steps[1].cast_unsigned() << 4);
    }
}

/// A block, taken apart: codes, and a scale and a minimum for each group, which are the block's times a small integer.
struct Parts {
    codes: [u8; SUPER],
    scale: f32,
    minimum: f32,
    scale_steps: [i8; SUPER / 16],
    minimum_steps: [i8; SUPER / 16],
}

impl Parts {
    /// The block is one group.
    fn one_scale(&mut self, scale: f32) {
        (self.scale, self.scale_steps[0]) = (scale, 1);
    }

    fn one_minimum(&mut self, minimum: f32) {
        (self.minimum, self.minimum_steps[0]) = (minimum, 1);
    }
}

/// A function that takes a block apart, over all blocks.
fn each<const BYTES: usize>(
    blocks: &[u8],
    apart: impl Fn(&[u8; BYTES], &mut Parts),
    mut take: impl FnMut(&Parts),
) {
    let (scale_steps, minimum_steps) = ([0; SUPER / 16], [0; SUPER / 16]);
    let mut parts = Parts { codes: [0; SUPER], scale: 0.0, minimum: 0.0, scale_steps, minimum_steps };
    for block in blocks.as_chunks::<BYTES>().0 {
        apart(block, &mut parts);
        take(&parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_widens_blocks_of_its_own_size() {
        for quant in Quant::ALL {
            let (bytes, numbers) = (quant.bytes(), quant.numbers());
            assert_eq!(quant.widen(&vec![0; bytes]).len(), numbers, "{}", quant.name());
            assert_eq!(quant.widen(&vec![0; 3 * bytes + bytes - 1]).len(), 3 * numbers, "{}", quant.name());
        }
    }

    #[test]
    fn what_is_put_together_comes_apart_as_it_was() {
        let mut random = glassformer_tensor::Random::new(2);
        let numbers: Vec<f32> = (0..512).map(|_| random.normal()).collect();
        let (mut row, mut again, mut bytes) = (CodedRow::default(), CodedRow::default(), Vec::new());
        Coding::INT4.encode(&numbers, &mut row);
        put_together(&row, &mut bytes);
        assert_eq!(bytes.len(), 512 / Quant::Int4.numbers() * Quant::Int4.bytes());
        Quant::Int4.take_apart(&bytes, &mut again);
        again.scales.push(row.scales[0]);
        assert_eq!(row, again);
    }

    #[test]
    fn what_is_taken_apart_is_worth_the_same() {
        let mut random = glassformer_tensor::Random::new(1);
        for quant in Quant::ALL {
            // Halves with small exponents, so that no number is beyond counting.
            let blocks: Vec<u8> = (0..4 * quant.bytes()).map(|_| random.below(256) as u8 & 0x3f).collect();
            let mut row = CodedRow::default();
            quant.take_apart(&blocks, &mut row);
            if quant == Quant::Int4 {
                row.scales.push(1.0);
            }
            assert!(row.codes.iter().all(|&code| code <= quant.coding().most()), "{}", quant.name());
            assert_eq!(row.decode(&quant.coding()), quant.widen(&blocks), "{}", quant.name());
        }
    }
}
