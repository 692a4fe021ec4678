//! What a stack is made of, and where it stands in the formula.

use crate::types::{Attention, Mix, Stack, Sublayer};

/// The blocks of a stack, with their paths below it: `block`, `others[0].block`, …
pub(super) fn blocks(stack: &Stack) -> impl Iterator<Item = (String, &[Sublayer])> {
    let others = stack.others.iter().enumerate();
    let others = others.map(|(index, other)| (format!("others[{index}].block"), &other.block[..]));
    [("block".to_owned(), &stack.block[..])].into_iter().chain(others)
}

/// The attentions of all blocks, with their sublayers' paths below the stack: `block[0]`.
pub(super) fn attentions(stack: &Stack) -> impl Iterator<Item = (String, &Attention)> {
    blocks(stack).flat_map(|(path, block)| {
        block.iter().enumerate().filter_map(move |(index, sublayer)| match &sublayer.mix {
            Mix::Attend(attention) => Some((format!("{path}[{index}]"), attention)),
            Mix::Feed(_) => None,
        })
    })
}
