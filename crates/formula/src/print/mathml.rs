//! One `<math>` element, as browsers display it.

use super::expr::{Expr, Fence, Sign};

/// Whether parts that something can point at have an `id`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    Leave,
    Write,
}

pub(super) fn render(expr: &Expr, ids: Ids) -> String {
    format!(
        "<math xmlns=\"http://www.w3.org/1998/Math/MathML\" display=\"block\">{}</math>",
        piece(expr, ids)
    )
}

/// Exactly one element for every expression, as scripts and fractions need.
fn piece(expr: &Expr, ids: Ids) -> String {
    let piece = |expr: &Expr| piece(expr, ids);
    match expr {
        Expr::Letter(name) => element("mi", &escape(name)),
        Expr::Word(name) => element("mi", &escape(name)),
        Expr::Prose(text) => element("mtext", &escape(text).replace(' ', "\u{a0}")),
        Expr::Number(digits) => element("mn", &escape(digits)),
        Expr::Sign(sign) => signs(*sign),
        Expr::Row(parts) => element("mrow", &parts.iter().map(piece).collect::<String>()),
        Expr::Fence(fence, inner) => {
            let (open, close) = brackets(*fence);
            element("mrow", &format!("{}{}{}", element("mo", open), piece(inner), element("mo", close)))
        }
        Expr::Script { base, below, above } => {
            scripted(piece(base), below.as_deref().map(piece), above.as_deref().map(piece))
        }
        Expr::Over(above, below) => element("mfrac", &(piece(above) + &piece(below))),
        Expr::Root(inner) => element("msqrt", &piece(inner)),
        Expr::Brace(inner, name) => {
            let braced = element("munder", &(piece(inner) + "<mo stretchy=\"true\">⏟</mo>"));
            element("munder", &(braced + &element("mtext", &escape(name))))
        }
        Expr::Marked(_, inner) if ids == Ids::Leave => piece(inner),
        Expr::Marked(id, inner) => format!("<mrow id=\"{}\">{}</mrow>", escape(id), piece(inner)),
    }
}

fn scripted(base: String, below: Option<String>, above: Option<String>) -> String {
    match (below, above) {
        (None, None) => base,
        (Some(below), None) => element("msub", &(base + &below)),
        (None, Some(above)) => element("msup", &(base + &above)),
        (Some(below), Some(above)) => element("msubsup", &(base + &below + &above)),
    }
}

fn signs(sign: Sign) -> String {
    let operator = match sign {
        Sign::Equals => "=",
        Sign::Plus => "+",
        Sign::Minus | Sign::Negative => "−",
        Sign::Dot => "·",
        Sign::After => "∘",
        Sign::Then => "▷",
        Sign::Each => "⊙",
        Sign::Cross => "×",
        Sign::Comma => ",",
        Sign::Semicolon => ";",
        Sign::Colon => ":",
        Sign::Less => "<",
        Sign::In => "∈",
        Sign::AtMost => "≤",
        Sign::More => ">",
        Sign::Ring => "○",
        Sign::Sum => "∑",
        Sign::Dots => "…",
        Sign::Transpose => "⊤",
        Sign::Beside => return "<mspace width=\"0.25em\"/>".to_owned(),
        Sign::Indent => return "<mspace width=\"2em\"/>".to_owned(),
    };
    element("mo", &escape(operator))
}

fn brackets(fence: Fence) -> (&'static str, &'static str) {
    match fence {
        Fence::Round | Fence::Roomy => ("(", ")"),
        Fence::Square | Fence::Index => ("[", "]"),
        Fence::Ceiling => ("⌈", "⌉"),
        Fence::Floor => ("⌊", "⌋"),
        Fence::Bars => ("|", "|"),
        Fence::Set => ("{", "}"),
    }
}

fn element(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
