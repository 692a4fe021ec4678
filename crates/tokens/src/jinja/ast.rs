//! What a template says.

use std::sync::Arc;

/// An expression and its line.
#[derive(Debug)]
pub(super) struct Expr {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    /// `[start:stop:step]`
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Arguments),
    /// Without an input: that of a block.
    Filter(Option<Box<Expr>>, String, Arguments),
    Test(Box<Expr>, String, Arguments),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `then if test else otherwise`
    Choice {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// What is given to a call, a filter or a test.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub places: Vec<Expr>,
    pub names: Vec<(String, Expr)>,
    /// `*list`
    pub more_places: Option<Box<Expr>>,
    /// `**dict`
    pub more_names: Option<Box<Expr>>,
}

/// What can be assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    /// An attribute of a namespace.
    Attribute(String, String),
    Tuple(Vec<Target>),
}

/// A statement and its line.
#[derive(Debug)]
pub(super) struct Stmt {
    pub line: usize,
    pub kind: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    Data(String),
    Print(Expr),
    /// The conditions with their bodies, and the rest.
    If(Vec<(Expr, Vec<Stmt>)>, Vec<Stmt>),
    For(Arc<For>),
    Set(Target, Expr),
    /// `{% set x %}…{% endset %}`, with filters.
    SetBlock(Target, Option<Expr>, Vec<Stmt>),
    Macro(Arc<Definition>),
    /// `{% call(args) f() %}…{% endcall %}`
    Call(Expr, Arc<Definition>),
    FilterBlock(Expr, Vec<Stmt>),
    With(Vec<(Target, Expr)>, Vec<Stmt>),
    /// Statements in a scope of their own: `{% generation %}`, `{% block %}`.
    Scope(Vec<Stmt>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub target: Target,
    pub items: Expr,
    pub test: Option<Expr>,
    pub body: Vec<Stmt>,
    pub otherwise: Vec<Stmt>,
    pub recursive: bool,
}

/// A macro: its parameters with defaults, and which of the names that are always there it uses.
#[derive(Debug)]
pub(super) struct Definition {
    pub name: String,
    pub parameters: Vec<(String, Option<Expr>)>,
    pub body: Vec<Stmt>,
    pub uses: Uses,
}

/// The names that a macro may use without declaring them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub caller: bool,
    pub varargs: bool,
    pub kwargs: bool,
}
