//! Plain text with mathematical characters, on one line.

use super::expr::{Expr, Fence, Sign};

pub(super) fn render(expr: &Expr) -> String {
    match expr {
        Expr::Letter(name) => (*name).to_owned(),
        Expr::Word(text) | Expr::Prose(text) | Expr::Number(text) => text.clone(),
        Expr::Sign(sign) => signs(*sign).to_owned(),
        Expr::Row(parts) => parts.iter().map(render).collect(),
        Expr::Fence(fence, inner) => {
            let (open, close) = brackets(*fence);
            format!("{open}{}{close}", render(inner))
        }
        Expr::Script { base, below, above } => {
            let below = below.as_ref().map(|below| subscript(below)).unwrap_or_default();
            let above = above.as_ref().map(|above| superscript(above)).unwrap_or_default();
            format!("{}{below}{above}", render(base))
        }
        Expr::Over(above, below) => format!("{}/{}", tight(above, &['+', '−']), tight(below, &[' ', '/'])),
        Expr::Root(inner) => format!("√{}", tight(inner, &[' ', '/'])),
        Expr::Brace(inner, _) | Expr::Marked(_, inner) => render(inner),
    }
}

fn signs(sign: Sign) -> &'static str {
    match sign {
        Sign::Equals => " = ",
        Sign::Plus => " + ",
        Sign::Minus => " − ",
        Sign::Negative => "−",
        Sign::Dot => " · ",
        Sign::After => " ∘ ",
        Sign::Then => " ▷ ",
        Sign::Each => " ⊙ ",
        Sign::Cross => " × ",
        Sign::Comma => ", ",
        Sign::Semicolon => " ; ",
        Sign::Colon => " : ",
        Sign::Beside => " ",
        Sign::Less => " < ",
        Sign::AtMost => " ≤ ",
        Sign::More => " > ",
        Sign::In => " ∈ ",
        Sign::Ring => "○",
        Sign::Sum => "Σ",
        Sign::Dots => "…",
        Sign::Transpose => "⊤",
        Sign::Indent => "  ",
    }
}

fn brackets(fence: Fence) -> (&'static str, &'static str) {
    match fence {
        Fence::Round => ("(", ")"),
        Fence::Roomy => ("( ", " )"),
        Fence::Square => ("[ ", " ]"),
        Fence::Index => ("[", "]"),
        Fence::Ceiling => ("⌈", "⌉"),
        Fence::Floor => ("⌊", "⌋"),
        Fence::Bars => ("|", "|"),
        Fence::Set => ("{", "}"),
    }
}

/// In brackets if one of `loose` would let it fall apart next to a fraction's bar or below a root.
fn tight(expr: &Expr, loose: &[char]) -> String {
    let text = render(expr);
    let mut depth = 0_usize;
    for character in text.chars() {
        if "([⌈⌊{".contains(character) {
            depth += 1;
        } else if ")]⌉⌋}".contains(character) {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && loose.contains(&character) {
            return format!("({text})");
        }
    }
    text
}

/// Real subscripts where Unicode has them; a name, which it could only spell in part, stands after an underscore.
fn subscript(expr: &Expr) -> String {
    let text = render(expr);
    let small = match expr {
        Expr::Word(_) | Expr::Prose(_) => None,
        _ => text.chars().filter(|character| *character != ' ').map(lowered).collect::<Option<String>>(),
    };
    small.unwrap_or_else(|| format!("_{}", text.replace(' ', "")))
}

fn superscript(expr: &Expr) -> String {
    let text = render(expr);
    let small: Option<String> = text.chars().filter(|character| *character != ' ').map(raised).collect();
    small.unwrap_or_else(|| {
        if text.chars().all(char::is_alphanumeric) { format!("^{text}") } else { format!("^({text})") }
    })
}

fn lowered(character: char) -> Option<char> {
    let pairs = "0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊−₋=₌(₍)₎aₐeₑhₕiᵢjⱼkₖlₗmₘnₙoₒpₚrᵣsₛtₜuᵤvᵥxₓ";
    lookup(pairs, character)
}

fn raised(character: char) -> Option<char> {
    lookup("0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺−⁻=⁼(⁽)⁾gᵍiⁱnⁿ⊤ᵀ", character)
}

/// The character after `wanted` in a text of pairs.
fn lookup(pairs: &str, wanted: char) -> Option<char> {
    let keys = pairs.chars().step_by(2);
    keys.zip(pairs.chars().skip(1).step_by(2)).find(|(key, _)| *key == wanted).map(|(_, small)| small)
}
