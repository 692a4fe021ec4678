//! The model's formula in each notation, and its sizes in words.

use glassformer_formula::{self as formula, Depth, Mix, print};

use super::{Definition, Formula, Said};
use crate::Text;

/// The formula of a model.
pub(super) fn of(given: &formula::Formula) -> Formula {
    let texts = print::definitions(given);
    let drawn = print::definitions_in(given, print::Notation::Mathml);
    let definition = |(text, mathml): (String, String)| {
        let symbol = text.trim().split([' ', '(']).next().unwrap_or_default().to_owned();
        Definition { symbol, text: Text::same(text), mathml }
    };
    Formula {
        unicode: print::unicode(given),
        latex: print::latex(given),
        mathml: print::mathml_with_ids(given),
        definitions: texts.into_iter().zip(drawn).map(definition).collect(),
    }
}

/// `encoder`, `decoder` or `encoder-decoder`.
pub(super) fn family(given: &formula::Formula) -> &'static str {
    match (&given.source, &given.target) {
        (Some(_), Some(_)) => "encoder-decoder",
        (Some(_), None) => "encoder",
        (None, _) => "decoder",
    }
}

/// The sizes of each stack.
pub(super) fn facts(given: &formula::Formula) -> Vec<Said> {
    let mut facts = Vec::new();
    let sides = [(&given.source, "encoder", "编码器"), (&given.target, "decoder", "解码器")];
    for (side, en, zh) in sides {
        let Some(side) = side else { continue };
        let layers = match side.stack.depth {
            Depth::Layers(layers) | Depth::Groups { layers, .. } => layers,
            Depth::Shared { times } => times,
            Depth::Adaptive { max, .. } => max,
        };
        let heads = side.stack.block.iter().find_map(|sublayer| match &sublayer.mix {
            Mix::Attend(attention) => Some(attention.heads.query),
            Mix::Feed(_) => None,
        });
        let (width, heads) = (side.stack.width, heads.unwrap_or(0));
        facts.push(Said {
            name: Text { en: en.to_owned(), zh: zh.to_owned() },
            text: Text {
                en: format!("{layers} layers · {heads} heads · width {width}"),
                zh: format!("{layers} 层 · {heads} 头 · 宽度 {width}"),
            },
        });
    }
    facts
}
