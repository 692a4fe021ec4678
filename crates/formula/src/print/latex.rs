//! LaTeX for math mode, in document 1's manner: names in `\text`, growing brackets, braces below.

use super::expr::{Expr, Fence, Sign};

pub(super) fn render(expr: &Expr) -> String {
    let spaced = piece(expr);
    spaced.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn piece(expr: &Expr) -> String {
    match expr {
        Expr::Letter(name) => letter(name),
        Expr::Word(name) => word(name),
        Expr::Prose(text) => text_in(text),
        Expr::Number(digits) => digits.clone(),
        Expr::Sign(sign) => signs(*sign).to_owned(),
        Expr::Row(parts) => parts.iter().fold(String::new(), |row, part| beside(row, &piece(part))),
        Expr::Fence(fence, inner) => fenced(*fence, inner),
        Expr::Script { base, below, above } => {
            let below = below.as_ref().map(|below| script('_', below)).unwrap_or_default();
            let above = above.as_ref().map(|above| script('^', above)).unwrap_or_default();
            format!("{}{below}{above}", piece(base))
        }
        Expr::Over(above, below) => format!("\\frac{{{}}}{{{}}}", piece(above), piece(below)),
        Expr::Root(inner) => format!("\\sqrt{{{}}}", piece(inner)),
        Expr::Marked(_, inner) => piece(inner),
        Expr::Brace(inner, name) => format!("\\underbrace{{ {} }}_{{\\text{{{name}}}}} ", piece(inner)),
    }
}

fn letter(name: &str) -> String {
    match name {
        "α" => "\\alpha",
        "γ" => "\\gamma",
        "β" => "\\beta",
        "θ" => "\\theta",
        "μ" => "\\mu",
        "π" => "\\pi",
        "φ" => "\\varphi",
        "σ" => "\\sigma",
        "Φ" => "\\Phi",
        "∞" => "\\infty",
        plain => plain,
    }
    .to_owned()
}

/// A name; its primes stand outside of the text.
fn word(name: &str) -> String {
    if matches!(name, "sin" | "cos" | "ln" | "max" | "tanh") {
        return format!("\\{name}");
    }
    let plain = name.trim_end_matches('′');
    let primes = name[plain.len()..].chars().count();
    format!("{}{}", text_in(plain), "'".repeat(primes))
}

/// Words of text mode, where `<` and `>` would come out as Spanish punctuation.
fn text_in(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\textbackslash{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '…' => escaped.push_str("\\dots{}"),
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => escaped.extend(['\\', character]),
            plain => escaped.push(plain),
        }
    }
    format!("\\text{{{escaped}}}")
}

fn signs(sign: Sign) -> &'static str {
    match sign {
        Sign::Equals => " = ",
        Sign::Plus => " + ",
        Sign::Minus => " - ",
        Sign::Negative => "-",
        Sign::Dot => " \\cdot ",
        Sign::After => " \\circ ",
        Sign::Then => " \\triangleright ",
        Sign::Each => " \\odot ",
        Sign::Cross => " \\times ",
        Sign::Comma => ",\\; ",
        Sign::Semicolon => " ;\\; ",
        Sign::Colon => " : ",
        Sign::Beside => " \\, ",
        Sign::Less => " < ",
        Sign::AtMost => " \\le ",
        Sign::More => " > ",
        Sign::In => " \\in ",
        Sign::Ring => "\\bigcirc",
        Sign::Sum => "\\sum",
        Sign::Dots => "\\dots",
        Sign::Transpose => "\\top",
        Sign::Indent => "\\quad ",
    }
}

fn fenced(fence: Fence, inner: &Expr) -> String {
    let body = piece(inner);
    let small = body.chars().all(char::is_alphanumeric);
    match fence {
        Fence::Round if small => format!("({body})"),
        Fence::Round | Fence::Roomy => format!("\\left( {body} \\right)"),
        Fence::Square => format!(" \\left[ {body} \\right]"),
        Fence::Index => format!("[{body}]"),
        Fence::Ceiling => format!("\\lceil {body} \\rceil"),
        Fence::Floor => format!("\\lfloor {body} \\rfloor"),
        Fence::Set => format!("\\{{{body}\\}}"),
        Fence::Bars => format!("\\left| {body} \\right|"),
    }
}

/// The scripts that document 1 leaves without braces are single letters: `W_o`.
fn script(mark: char, inner: &Expr) -> String {
    let body = piece(inner).replace(" = ", "=").replace(" < ", "<");
    match inner {
        Expr::Letter(_) if body.len() == 1 => format!("{mark}{body}"),
        _ => format!("{mark}{{{body}}}"),
    }
}

/// Two pieces in a row; a command needs a space before a letter.
fn beside(mut row: String, part: &str) -> String {
    let command = row.rsplit('\\').next().filter(|_| row.contains('\\')).unwrap_or(" ");
    let open = !command.is_empty() && command.chars().all(|character| character.is_ascii_alphabetic());
    if open && part.starts_with(|character: char| character.is_ascii_alphabetic()) {
        row.push(' ');
    }
    row.push_str(part);
    row
}
