//! How large weights are as products read them.

use glassformer_plan::{About, Type};
use glassformer_tensor::Coding;

use super::Cpu;
use crate::gemm::Packed;
use crate::lowp::{Format, Weight, coded};

impl Cpu {
    /// How many bytes the weight `name` of so many outputs and inputs takes in memory, as products read it; `stored` is what it
    /// is stored in, where that is in few bits.
    pub fn weight_bytes(&self, name: &str, outputs: usize, inputs: usize, stored: Option<Coding>) -> usize {
        let held = self.rule.of(About { name, outputs, inputs, stored });
        let floats = match (held, Format::of(held)) {
            (Type::Coded(coding), _) => coded::Weight::len(coding, inputs, outputs),
            (_, Some(format)) => Weight::len(format, inputs, outputs),
            (_, None) => Packed::len(inputs, outputs),
        };
        4 * floats
    }

    /// What the most of its products multiply in, where that is not `f32`, if this is what most weights are stored in.
    pub fn format(&self, stored: Option<Coding>) -> Option<Format> {
        match self.rule.of(About { name: "", outputs: 0, inputs: 0, stored }) {
            Type::Coded(_) => Some(Format::Int8),
            held => Format::of(held).map(Format::of_rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassformer_graph::Precision;

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
