//! A line as `MathML`: what a browser draws of `S = Q · Kᵀ / √48, h = 6, j ≤ i`.

use super::parse::{self, Expr};

/// The line `text` as one `<math>` element; as plain text where it is none of this notation.
pub fn mathml(text: &str) -> String {
    let mut parts = parse::split(text, ',').into_iter();
    let first = parts.next().unwrap_or_default();
    // A wave's line says at the left which column it is.
    let right = if text.contains("sin θ") { None } else { parse::line(text).ok().map(|(expr, _)| expr) };
    let equation = match (first.split_once(" = "), right) {
        (Some((left, _)), Some(expr)) => row(&[symbol(left), operator("="), piece(&expr, 0)].concat()),
        _ => words(&first),
    };
    let conditions = parts.map(|part| operator(",") + "<mspace width=\"0.6em\"/>" + &words(&part));
    let inside = equation + &conditions.collect::<String>();
    format!(
        "<math xmlns=\"http://www.w3.org/1998/Math/MathML\" display=\"block\"><mrow>{inside}</mrow></math>"
    )
}

/// A name with its index and its primes: `W_Q`, `X₀`, `Q′`.
pub fn symbol(name: &str) -> String {
    let is_index = |c: char| c == '_' || ('₀'..='₉').contains(&c);
    let (name, primes) = name.split_at(name.trim_end_matches(['′', '″', '‴']).len());
    let (base, index) = name.split_at(name.find(is_index).unwrap_or(name.len()));
    let digit = |c: char| char::from_digit((c as u32).wrapping_sub('₀' as u32), 10).unwrap_or(c);
    let index: String = index.trim_start_matches('_').chars().map(digit).collect();
    let base = element("mi", base);
    let index = index.split('_').filter(|part| !part.is_empty()).map(number_or_name).collect::<String>();
    match (index.is_empty(), primes.is_empty()) {
        (true, true) => base,
        (false, true) => format!("<msub>{base}{}</msub>", row(&index)),
        (true, false) => format!("<msup>{base}{}</msup>", operator(primes)),
        (false, false) => format!("<msubsup>{base}{}{}</msubsup>", row(&index), operator(primes)),
    }
}

/// How tightly a sign binds.
fn binds(expr: &Expr) -> u8 {
    match expr {
        Expr::Add(..) | Expr::Subtract(..) => 1,
        Expr::Product(..) | Expr::Each(..) | Expr::Negative(..) => 2,
        Expr::Number(_)
        | Expr::Length
        | Expr::Symbol(_)
        | Expr::Transposed(_)
        | Expr::Index(..)
        | Expr::Call(..)
        | Expr::Beside(_)
        | Expr::Below(_)
        | Expr::Divide(..)
        | Expr::Root(_)
        | Expr::Distance => 3,
    }
}

/// Exactly one element, in brackets where it binds less than what stands around it.
fn piece(expr: &Expr, around: u8) -> String {
    let two = |a: &Expr, sign: &str, b: &Expr, own: u8| {
        row(&[piece(a, own), operator(sign), piece(b, own + u8::from(sign == "−"))].concat())
    };
    let list = |all: &[Expr], mark: &str| {
        let parts: Vec<String> = all.iter().map(|part| piece(part, 0)).collect();
        parts.join(&operator(mark))
    };
    let inner = match expr {
        Expr::Number(x) => element("mn", &x.to_string()),
        Expr::Length => element("mi", "n"),
        Expr::Symbol(name) => symbol(name),
        Expr::Transposed(inside) => format!("<msup>{}{}</msup>", piece(inside, 3), operator("⊤")),
        Expr::Index(of, place) => row(&[piece(of, 3), fence("[", &words(place), "]")].concat()),
        Expr::Call(name, inside) => row(&[symbol(name), fence("(", &list(inside, ","), ")")].concat()),
        Expr::Beside(all) => fence("[", &list(all, ","), "]"),
        Expr::Below(all) => fence("[", &list(all, ";"), "]"),
        Expr::Add(a, b) => two(a, "+", b, 1),
        Expr::Subtract(a, b) => two(a, "−", b, 1),
        Expr::Product(a, b) => two(a, "·", b, 2),
        Expr::Each(a, b) => two(a, "⊙", b, 2),
        Expr::Divide(a, b) => format!("<mfrac>{}{}</mfrac>", piece(a, 0), piece(b, 0)),
        Expr::Negative(x) => row(&[operator("−"), piece(x, 2)].concat()),
        Expr::Root(x) => format!("<msqrt>{}</msqrt>", piece(x, 0)),
        Expr::Distance => {
            row(&[operator("|"), element("mi", "i"), operator("−"), element("mi", "j"), operator("|")]
                .concat())
        }
    };
    if binds(expr) < around { fence("(", &inner, ")") } else { inner }
}

fn fence(open: &str, inner: &str, close: &str) -> String {
    let bracket = |sign: &str| format!("<mo stretchy=\"false\">{sign}</mo>");
    row(&[bracket(open), row(inner), bracket(close)].concat())
}

fn row(inner: &str) -> String {
    format!("<mrow>{inner}</mrow>")
}

fn operator(sign: &str) -> String {
    element("mo", sign)
}

fn number_or_name(part: &str) -> String {
    let is_number = part.starts_with(|c: char| c.is_ascii_digit());
    element(if is_number { "mn" } else { "mi" }, part)
}

fn element(name: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    format!("<{name}>{text}</{name}>")
}

/// What is no formula of values: conditions, indices, waves. Names, numbers and signs in their order.
fn words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let is_name =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '′' | '″' | '‴' | '₀'..='₉' | 'ᵢ' | 'ⱼ');
        let taken = if is_digit(c) {
            rest.find(|c: char| !is_digit(c) && c != 'e').unwrap_or(rest.len())
        } else if is_name(c) {
            rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let part = &rest[..taken];
        out += &match c {
            ' ' => String::new(),
            _ if is_digit(c) => element("mn", part),
            _ if is_name(c) => indexed(part),
            _ => operator(part),
        };
        rest = &rest[taken..];
    }
    row(&out)
}

/// `gᵢ` as g with the index i.
fn indexed(name: &str) -> String {
    for (mark, index) in [('ᵢ', "i"), ('ⱼ', "j")] {
        if let Some(base) = name.strip_suffix(mark) {
            return format!("<msub>{}{}</msub>", element("mi", base), element("mi", index));
        }
    }
    symbol(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_fractions_roots_and_indices() {
        let line = mathml("S = Q · Kᵀ / √48 + W_B[bucket₁₂₈(j − i)], h = 6, j ≤ i");
        let fraction = "<mfrac><mrow><mi>Q</mi><mo>·</mo><msup><mi>K</mi><mo>⊤</mo></msup></mrow><msqrt><mn>48</mn></msqrt></mfrac>";
        assert!(line.contains(fraction), "{line}");
        assert!(line.contains("<msub><mi>W</mi><mrow><mi>B</mi></mrow></msub>"), "{line}");
        assert!(line.contains("<mi>j</mi><mo>≤</mo><mi>i</mi>"), "{line}");
        for text in ["P[p, 2i] = sin θ, P[p, 2i + 1] = cos θ, θ = p / 10000^(2i / 512)", "<script>", ""] {
            let line = mathml(text);
            assert!(line.starts_with("<math") && !line.contains("<script"), "{line}");
        }
    }

    #[test]
    fn brackets_stay_where_they_are_needed() {
        let line = mathml("F = (A + B) · C − (D − E)");
        assert_eq!(line.matches("(</mo>").count(), 2, "{line}");
        assert_eq!(symbol("Q′"), "<msup><mi>Q</mi><mo>′</mo></msup>");
        assert_eq!(symbol("X₁₂"), "<msub><mi>X</mi><mrow><mn>12</mn></mrow></msub>");
    }
}
