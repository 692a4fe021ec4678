//! What weights are held in, and which of them are exempt from a precision.

use std::sync::Arc;

use glassformer_graph::{Constants, Precision, is_sensitive, is_table};
use glassformer_tensor::{Coding, Scales};

/// What a weight is held in, or a value is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Type {
    /// 32 bits.
    #[default]
    F32,
    /// The upper 16 bits of that.
    Bf16,
    /// Integers of eight bits, and a scale for each row; rows of activations have one for each block.
    Int8,
    /// Four bits, a step for each few of them, and a scale for each row.
    Int4,
    /// As a file has it, in few bits.
    Coded(Coding),
}

/// Tells by its name whether a weight is exempt.
type Exempt = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The precision that a backend is asked for, and which weights are exempt from it.
#[derive(Clone)]
pub struct Rule {
    /// What weights are held in.
    pub precision: Precision,
    /// Whether the weight of this name stays in `f32`; where nobody said, those that are known to be sensitive do.
    pub exempt: Option<Exempt>,
    /// Whether the backend multiplies by weights as files have them in this coding.
    pub supports: fn(Coding) -> bool,
}

/// What a rule needs to know of a weight.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its rows.
    pub outputs: usize,
    /// Their width.
    pub inputs: usize,
    /// What it is stored in, where that is in few bits.
    pub stored: Option<Coding>,
}

impl Rule {
    /// All that it asks about a weight.
    pub fn about<'n>(
        &self,
        weights: &dyn Constants,
        name: &'n str,
        outputs: usize,
        inputs: usize,
    ) -> About<'n> {
        let stored = match self.precision {
            Precision::Stored => weights.coded(name).map(|coded| coded.coding()),
            Precision::F32 | Precision::Bf16 | Precision::Int8 | Precision::Int4 => None,
        };
        About { name, outputs, inputs, stored }
    }

    /// What this weight of products is held in.
    pub fn of(&self, about: About<'_>) -> Type {
        let exempt = match &self.exempt {
            Some(exempt) => exempt(about.name),
            None => self.precision != Precision::Stored && is_sensitive(about.name, about.outputs),
        };
        if exempt {
            return Type::F32;
        }
        match self.precision {
            Precision::F32 => Type::F32,
            Precision::Bf16 => Type::Bf16,
            Precision::Int4 if takes_four_bits(about) => Type::Int4,
            Precision::Int8 | Precision::Int4 => Type::Int8,
            Precision::Stored => match about.stored {
                Some(Coding { scales: Scales::Row, .. }) => Type::Int8,
                Some(Coding { scales: Scales::RowSteps, .. }) => Type::Int4,
                Some(coding) if (self.supports)(coding) => Type::Coded(coding),
                Some(_) | None => Type::F32,
            },
        }
    }

    /// What this table is held in, whose rows are looked up.
    pub fn of_table(&self, about: About<'_>) -> Type {
        match self.of(about) {
            Type::F32 | Type::Bf16 | Type::Int4 => Type::F32,
            held @ (Type::Int8 | Type::Coded(_)) => {
                let is_held = self.precision == Precision::Stored || is_table(about.name);
                if is_held { held } else { Type::F32 }
            }
        }
    }

    /// What a weight of this name is multiplied in where it changes from run to run: the parameter of a model that is
    /// trained. Nothing is known to be sensitive there, and eight bits are too few for all of it.
    pub fn trained(&self, name: &str) -> Option<Type> {
        match self.precision {
            Precision::F32 | Precision::Int8 | Precision::Int4 | Precision::Stored => None,
            Precision::Bf16 => {
                let exempt = self.exempt.as_ref().is_some_and(|exempt| exempt(name));
                (!exempt).then_some(Type::Bf16)
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
