//! How exact a backend is asked to be.

use std::fmt;

/// What the weights of a model are held and multiplied in.
///
/// Products get narrower, and with integers the tables of words, which heads share. Norms and sums stay in `f32`. Where anything is
/// narrow, keys and values are kept in `bf16`, terms of a softmax are within 8e-5 and a GELU is within 2e-4: less than narrow
/// weights change anyway. In a training graph, whose weights are inputs, `bf16` is also what gradients are
/// multiplied in; fewer bits are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// All in `f32`.
    #[default]
    F32,
    /// Weights and activations rounded to `bf16`, sums in `f32`.
    Bf16,
    /// Eight bits: a scale for each output of a weight, and for each block of a row of activations as it comes, of 1,024 numbers at most.
    Int8,
    /// Four bits: a scale for each output of a weight, and a step for each 16 numbers of it. Activations, heads over vocabularies and
    /// tables of words are as with [`Precision::Int8`].
    Int4,
    /// What is stored in few bits stays so, and is multiplied by activations in eight bits; weights that are not, in `f32`.
    Stored,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Stored => "the bits of the file",
        })
    }
}
