//! Which products run on low-precision numbers.

use std::fmt;
use std::sync::Arc;

use glassformer_graph::{Constants, is_sensitive, is_table};
use glassformer_tensor::{Coding, Scales};

use crate::lowp::{Format, coded};

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

/// What one weight is held in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// `f32`.
    Wide,
    Narrow(Format),
    Coded(Coding),
}

/// Tells by its name whether a weight stays as it is.
type Wide = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The precision of a backend, and which weights are exempt from it.
#[derive(Clone, Default)]
pub(super) struct Rule {
    pub precision: Precision,
    /// Whether the weight of this name stays as it is; where nobody said, those that are known to be sensitive do.
    pub wide: Option<Wide>,
}

/// What a rule needs to know of a weight.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub name: &'a str,
    pub outputs: usize,
    pub inputs: usize,
    /// What it is stored in, where that is in few bits.
    pub stored: Option<Coding>,
}

impl Rule {
    /// What this weight of products is held in.
    pub fn of(&self, about: About<'_>) -> Held {
        let wide = match &self.wide {
            Some(wide) => wide(about.name),
            None => self.precision != Precision::Stored && is_sensitive(about.name, about.outputs),
        };
        if wide {
            return Held::Wide;
        }
        match self.precision {
            Precision::F32 => Held::Wide,
            Precision::Bf16 => Held::Narrow(Format::Bf16),
            Precision::Int4 if takes_four_bits(about) => Held::Narrow(Format::Int4),
            Precision::Int8 | Precision::Int4 => Held::Narrow(Format::Int8),
            Precision::Stored => match about.stored {
                Some(Coding { scales: Scales::Row, .. }) => Held::Narrow(Format::Int8),
                Some(Coding { scales: Scales::RowSteps, .. }) => Held::Narrow(Format::Int4),
                Some(coding) if coded::is_supported(coding) => Held::Coded(coding),
                Some(_) | None => Held::Wide,
            },
        }
    }

    /// What this table is held in, whose rows are looked up.
    pub fn of_table(&self, about: About<'_>) -> Held {
        match self.of(about) {
            Held::Wide | Held::Narrow(Format::Bf16 | Format::Int4) => Held::Wide,
            held @ (Held::Narrow(Format::Int8) | Held::Coded(_)) => {
                let narrow = self.precision == Precision::Stored || is_table(about.name);
                if narrow { held } else { Held::Wide }
            }
        }
    }

    /// What a weight of this name is multiplied in where it changes from run to run: the parameter of a model that is
    /// trained. Nothing is known to be sensitive there, and eight bits are too few for all of it.
    pub fn trained(&self, name: &str) -> Option<Format> {
        match self.precision {
            Precision::F32 | Precision::Int8 | Precision::Int4 | Precision::Stored => None,
            Precision::Bf16 => {
                let wide = self.wide.as_ref().is_some_and(|wide| wide(name));
                (!wide).then_some(Format::Bf16)
            }
        }
    }
}

/// Whether four bits are enough for a weight: not for what words are scored by and looked up in, and not where its rows are not
/// whole groups, which files cannot hold.
fn takes_four_bits(about: About<'_>) -> bool {
    let words = about.name.starts_with("head.") || is_table(about.name);
    !words && about.inputs.is_multiple_of(Coding::INT4_BLOCK)
}

/// A rule, and the weights that it is asked about.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a> {
    pub rule: &'a Rule,
    pub weights: &'a dyn Constants,
    /// Whether attentions are multiplied on tiles, whatever the weights are stored in.
    pub tiles: bool,
}

impl Choice<'_> {
    /// The weight of this name, with what it is stored in where that matters.
    pub fn about<'n>(&self, name: &'n str, outputs: usize, inputs: usize) -> About<'n> {
        let stored = match self.rule.precision {
            Precision::Stored => self.weights.coded(name).map(|coded| coded.coding()),
            Precision::F32 | Precision::Bf16 | Precision::Int8 | Precision::Int4 => None,
        };
        About { name, outputs, inputs, stored }
    }
}
