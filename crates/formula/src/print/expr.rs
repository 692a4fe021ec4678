//! The tree that the three notations share: what is written, not how.

/// A piece of mathematics.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    /// A variable: x, W, γ.
    Letter(&'static str),
    /// The name of an operator: LN, softmax.
    Word(String),
    /// A few words of English between mathematics, with the spaces around them.
    Prose(String),
    /// Digits.
    Number(String),
    /// An operator between things.
    Sign(Sign),
    /// Things side by side.
    Row(Vec<Expr>),
    /// Something in brackets.
    Fence(Fence, Box<Expr>),
    /// Something with an index, an exponent or both.
    Script { base: Box<Expr>, below: Option<Box<Expr>>, above: Option<Box<Expr>> },
    /// A fraction.
    Over(Box<Expr>, Box<Expr>),
    /// A square root.
    Root(Box<Expr>),
    /// A part with its name below; plain text leaves the name out.
    Brace(Box<Expr>, &'static str),
    /// A part that something can point at; see [`super::mathml_with_ids`].
    Marked(String, Box<Expr>),
}

/// An operator between things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Equals,
    Plus,
    Minus,
    /// A minus without a left side.
    Negative,
    /// ·
    Dot,
    /// ∘: the right side first.
    After,
    /// ▷: the left side first.
    Then,
    /// ⊙: number by number.
    Each,
    /// × between sizes.
    Cross,
    Comma,
    /// Between a block and another.
    Semicolon,
    /// "is of the size".
    Colon,
    /// A product without a sign.
    Beside,
    Less,
    AtMost,
    More,
    /// ∈
    In,
    /// ○: composition of many.
    Ring,
    Sum,
    Dots,
    Transpose,
    /// The line belongs to the one before it.
    Indent,
}

/// A pair of brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fence {
    /// (x)
    Round,
    /// ( x ), around the whole
    Roomy,
    /// [ x ], around a block
    Square,
    /// [x], an index or a remark
    Index,
    /// ⌈x⌉
    Ceiling,
    /// ⌊x⌋
    Floor,
    /// |x|
    Bars,
    /// {x}
    Set,
}

impl From<Sign> for Expr {
    fn from(sign: Sign) -> Self {
        Self::Sign(sign)
    }
}

/// One character is a variable, more are a name.
impl From<&'static str> for Expr {
    fn from(name: &'static str) -> Self {
        if name.chars().count() == 1 { Self::Letter(name) } else { Self::Word(name.to_owned()) }
    }
}

impl From<usize> for Expr {
    fn from(number: usize) -> Self {
        Self::Number(number.to_string())
    }
}

/// Things side by side, each a piece, a sign, a name or a number.
macro_rules! row {
    ($($part:expr),* $(,)?) => { $crate::print::expr::Expr::Row(vec![$($crate::print::expr::Expr::from($part)),*]) };
}
pub(super) use row;

pub(super) fn sub(base: impl Into<Expr>, below: impl Into<Expr>) -> Expr {
    Expr::Script { base: Box::new(base.into()), below: Some(Box::new(below.into())), above: None }
}

pub(super) fn sup(base: impl Into<Expr>, above: impl Into<Expr>) -> Expr {
    Expr::Script { base: Box::new(base.into()), below: None, above: Some(Box::new(above.into())) }
}

pub(super) fn sub_sup(base: impl Into<Expr>, below: impl Into<Expr>, above: impl Into<Expr>) -> Expr {
    let (below, above) = (Some(Box::new(below.into())), Some(Box::new(above.into())));
    Expr::Script { base: Box::new(base.into()), below, above }
}

pub(super) fn transposed(base: impl Into<Expr>) -> Expr {
    sup(base, Sign::Transpose)
}

pub(super) fn over(above: impl Into<Expr>, below: impl Into<Expr>) -> Expr {
    Expr::Over(Box::new(above.into()), Box::new(below.into()))
}

pub(super) fn root(inner: impl Into<Expr>) -> Expr {
    Expr::Root(Box::new(inner.into()))
}

pub(super) fn fence(fence: Fence, inner: impl Into<Expr>) -> Expr {
    Expr::Fence(fence, Box::new(inner.into()))
}

pub(super) fn round(inner: impl Into<Expr>) -> Expr {
    fence(Fence::Round, inner)
}

/// `function(argument)`
pub(super) fn call(function: impl Into<Expr>, argument: impl Into<Expr>) -> Expr {
    row![function.into(), round(argument)]
}

/// `table[index]`
pub(super) fn at(table: impl Into<Expr>, index: impl Into<Expr>) -> Expr {
    row![table.into(), fence(Fence::Index, index)]
}

/// What something can point at by `id`.
pub(super) fn marked(id: impl Into<String>, inner: impl Into<Expr>) -> Expr {
    Expr::Marked(id.into(), Box::new(inner.into()))
}

pub(super) fn prose(words: impl Into<String>) -> Expr {
    Expr::Prose(words.into())
}

/// Parts with a sign between each two.
pub(super) fn joined(parts: impl IntoIterator<Item = Expr>, sign: Sign) -> Expr {
    let mut row = Vec::new();
    for part in parts {
        if !row.is_empty() {
            row.push(sign.into());
        }
        row.push(part);
    }
    Expr::Row(row)
}

/// A number as its own type prints it shortest; far from 1 it is written with a power of ten.
pub(super) fn float(number: impl std::fmt::LowerExp + std::fmt::Display) -> Expr {
    let shortest = format!("{number:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return Expr::Number(shortest) };
    let power = exponent.parse().unwrap_or(0);
    if (-3..=6).contains(&power) {
        return Expr::Number(number.to_string());
    }
    let exponent = match exponent.strip_prefix('-') {
        Some(digits) => row![Sign::Negative, Expr::Number(digits.to_owned())],
        None => Expr::Number(exponent.to_owned()),
    };
    let power = sup(10, exponent);
    if digits == "1" { power } else { row![Expr::Number(digits.to_owned()), Sign::Dot, power] }
}
