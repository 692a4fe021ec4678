//! Numbers stored in blocks: a few bits each, with scales shared by a block. The types are GGUF's.
//!
//! Every type is a layout of bytes and one formula; both stand in the doc comment of its function. The formulas are
//! evaluated in `f32`, operation by operation as the reference (ggml, and its Python twin `gguf`) writes them down, so the
//! numbers are the reference's bit for bit.

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
}

impl Quant {
    /// Every type.
    pub const ALL: [Self; 11] = [
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
    ];

    /// Its name in GGUF.
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
        }
    }

    /// Numbers in a block.
    pub fn numbers(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
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
        }
    }

    /// The numbers of whole blocks as `f32`. Bytes after the last whole block are not looked at.
    pub fn widen(self, blocks: &[u8]) -> Vec<f32> {
        match self {
            Self::Q4_0 => each(blocks, short::q4_0),
            Self::Q4_1 => each(blocks, short::q4_1),
            Self::Q5_0 => each(blocks, short::q5_0),
            Self::Q5_1 => each(blocks, short::q5_1),
            Self::Q8_0 => each(blocks, short::q8_0),
            Self::Q2K => each(blocks, long::q2_k),
            Self::Q3K => each(blocks, long::q3_k),
            Self::Q4K => each(blocks, long::q4_k),
            Self::Q5K => each(blocks, long::q5_k),
            Self::Q6K => each(blocks, long::q6_k),
            Self::Iq2Xxs => each(blocks, grid::iq2_xxs),
        }
    }
}

/// A function from a block to its numbers, over all blocks.
fn each<const BYTES: usize, const NUMBERS: usize>(
    blocks: &[u8],
    widen: impl Fn(&[u8; BYTES], &mut [f32; NUMBERS]),
) -> Vec<f32> {
    let blocks = blocks.as_chunks::<BYTES>().0;
    let mut numbers = vec![0.0; blocks.len() * NUMBERS];
    for (block, numbers) in blocks.iter().zip(numbers.as_chunks_mut::<NUMBERS>().0) {
        widen(block, numbers);
    }
    numbers
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
}
