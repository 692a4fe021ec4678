//! How large weights are as products read them.

use glassformer_tensor::Coding;

use super::Cpu;
use super::precision::{About, Held};
use crate::gemm::Packed;
use crate::lowp::{Format, Weight, coded};

impl Cpu {
    /// How many bytes the weight `name` of so many outputs and inputs takes in memory, as products read it; `stored` is what it
    /// is stored in, where that is in few bits.
    pub fn weight_bytes(&self, name: &str, outputs: usize, inputs: usize, stored: Option<Coding>) -> usize {
        4 * match self.rule.of(About { name, outputs, inputs, stored }) {
            Held::Wide => Packed::len(inputs, outputs),
            Held::Narrow(format) => Weight::len(format, inputs, outputs),
            Held::Coded(coding) => coded::Weight::len(coding, inputs, outputs),
        }
    }

    /// What the most of its products multiply in, where that is not `f32`, if this is what most weights are stored in.
    pub fn format(&self, stored: Option<Coding>) -> Option<Format> {
        match self.rule.of(About { name: "", outputs: 0, inputs: 0, stored }) {
            Held::Wide => None,
            Held::Narrow(format) => Some(format.of_rows()),
            Held::Coded(_) => Some(Format::Int8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    #[test]
    fn low_precision_weights_take_fewer_bytes_and_small_heads_do_not() {
        let bytes = |precision, name| Cpu::new(1).with_precision(precision).weight_bytes(name, 64, 128, None);
        assert_eq!(bytes(Precision::F32, "source.0.feed.up"), 4 * 64 * 128);
        assert_eq!(bytes(Precision::Bf16, "source.0.feed.up"), 2 * 64 * 128);
        assert_eq!(bytes(Precision::Int8, "source.0.feed.up"), 64 * 128 + 8 * 64);
        assert_eq!(bytes(Precision::Int8, "head.classes"), 4 * 64 * 128);
        assert_eq!(bytes(Precision::Int4, "source.0.feed.up"), 64 * 128 / 2 + 64 * 128 / 32 + 8 * 64);
    }
}
