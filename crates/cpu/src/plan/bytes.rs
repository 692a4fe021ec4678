//! How large weights are as products read them.

use super::Cpu;
use crate::gemm::Packed;
use crate::narrow::{Format, Weight};

impl Cpu {
    /// How many bytes the weight `name` of so many outputs and inputs takes in memory, as products read it.
    pub fn weight_bytes(&self, name: &str, outputs: usize, inputs: usize) -> usize {
        4 * match self.choice.of(name, outputs) {
            None => Packed::len(inputs, outputs),
            Some(format) => Weight::len(format, inputs, outputs),
        }
    }

    /// What the most of its products multiply in, where that is not `f32`.
    pub fn format(&self) -> Option<Format> {
        self.choice.of("", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    #[test]
    fn narrow_weights_take_fewer_bytes_and_small_heads_do_not() {
        let bytes = |precision, name| Cpu::new(1).with_precision(precision).weight_bytes(name, 64, 128);
        assert_eq!(bytes(Precision::F32, "source.0.feed.up"), 4 * 64 * 128);
        assert_eq!(bytes(Precision::Bf16, "source.0.feed.up"), 2 * 64 * 128);
        assert_eq!(bytes(Precision::Int8, "source.0.feed.up"), 64 * 128 + 8 * 64);
        assert_eq!(bytes(Precision::Int8, "head.classes"), 4 * 64 * 128);
    }
}
