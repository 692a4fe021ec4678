//! What is known of an architecture.

use glassformer_formula::Formula;

use crate::Rule;

/// What a configuration says: the formula, and how its tensors are named.
#[derive(Clone, Debug)]
pub struct Family {
    /// The formula.
    pub formula: Formula,
    /// Where each parameter is.
    pub rules: Vec<Rule>,
    /// What their names may begin with, besides nothing.
    pub prefixes: &'static [&'static str],
    /// Tensors that checkpoints carry and that this model does not use: names that end or, with a `*` at the end, begin so.
    pub skipped: &'static [&'static str],
    /// Tensors that should be the embedding table once more, where a file has them.
    pub copies: &'static [&'static str],
    /// Positions of the source that see all unless the user says otherwise.
    pub global: Vec<usize>,
    /// What a table of sinusoids in a file is for.
    pub sinusoids: Sinusoids,
}

/// What a table of sinusoids in a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sinusoids {
    /// Nothing: they are computed whatever it holds.
    Computed,
    /// It is used, and they are computed where there is none.
    Stored,
}

impl Family {
    /// A family with no prefixes and nothing to skip.
    pub fn new(formula: Formula, rules: Vec<Rule>) -> Self {
        Self {
            formula,
            rules,
            prefixes: &[],
            skipped: &[],
            copies: &[],
            global: Vec::new(),
            sinusoids: Sinusoids::Computed,
        }
    }

    /// Whether the tensor `name` may be left unused.
    pub fn may_skip(&self, name: &str) -> bool {
        let always = ["position_ids", "token_type_ids", "rotary_emb.inv_freq", "masked_bias", "attn.bias"];
        let matches = |skipped: &&str| match skipped.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name.ends_with(*skipped),
        };
        always.iter().chain(self.skipped).any(matches)
    }
}
