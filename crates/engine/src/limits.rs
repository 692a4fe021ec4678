//! What a model can take.

use glassformer_formula::{Formula, Input, Side};

/// How many tokens and positions there are.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// How many tokens the source knows, and the target.
    pub vocabularies: [usize; 2],
    /// How many positions the source has, and the target, where they are learned.
    pub positions: [usize; 2],
    /// How many tokens have scores.
    pub scores: usize,
}

impl Limits {
    pub fn new(formula: &Formula, scores: usize) -> Self {
        let sides = [formula.source.as_ref(), formula.target.as_ref()];
        let vocabulary = |side: Option<&Side>| match side.map(|side| &side.input) {
            Some(Input::Tokens(tokens)) => tokens.vocabulary,
            Some(Input::Patches(_)) | None => 0,
        };
        let positions =
            |side: Option<&Side>| side.and_then(|side| side.stack.position.count()).unwrap_or(usize::MAX);
        Self { vocabularies: sides.map(vocabulary), positions: sides.map(positions), scores }
    }
}
