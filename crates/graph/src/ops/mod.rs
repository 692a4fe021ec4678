//! The operations, a file each: maths, shape rule, gradient, reference and cases.
//!
//! The list below is the only one. An operation that lacks a gradient, a reference or cases does not compile.

use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, Value, World};

/// All about one operation.
pub trait Operation: Clone + std::fmt::Debug + PartialEq {
    /// What further outputs are called; the first one has the node's name.
    const OUTPUTS: &'static [&'static str] = &["out"];

    /// The shapes of its outputs, or why its inputs do not fit.
    ///
    /// # Errors
    /// What does not fit.
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String>;

    /// Appends the nodes that carry the outputs' gradients back to the inputs.
    ///
    /// # Errors
    /// If a node does not fit, which is a mistake here.
    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error>;

    /// Its equation, in `f64`.
    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array>;

    /// What it demands of a batch beyond its shapes.
    fn limits(&self, at: &At<'_>, limits: &mut Limits);

    /// Counts the work that no implementation of it can leave out.
    fn work(&self, at: &At<'_>, tally: &mut Tally<'_>);

    /// Samples of it, as data, for every backend and for finite differences.
    fn cases() -> Vec<Case>;
}

/// Where a gradient is taken: a node's inputs, outputs, and what flows back into the outputs.
#[derive(Debug)]
pub struct Site<'a> {
    /// The node's inputs.
    pub inputs: &'a [Value],
    /// The node's outputs.
    pub outputs: &'a [Value],
    /// The gradient of each output, where one flows back.
    pub upstream: &'a [Option<Value>],
}

impl Site<'_> {
    /// The gradient of the first output, by far the most common need.
    ///
    /// # Panics
    /// If none flows back: the pass does not ask then.
    pub fn dy(&self) -> Value {
        self.upstream[0].expect("the pass asks only where a gradient flows back")
    }
}

/// What an operation's gradient is.
#[derive(Debug)]
pub enum Gradient {
    /// One value for each input, or nothing where none is needed.
    Inputs(Vec<Option<Value>>),
    /// There is none, and this is why.
    None(NoGradient),
}

/// Why an operation has no gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGradient {
    /// It is a gradient itself; second derivatives are not needed.
    IsGradient,
    /// It reads no numbers, only positions or constants.
    ReadsNothing,
    /// It only shows what another operation does.
    OnlyShows,
    /// It stores keys and values for later runs; training never does.
    Stores,
    /// It is what an optimiser does with gradients.
    Optimises,
    /// It counts.
    Counts,
    /// It keeps rows for the next run, through which nothing flows back.
    Remembers,
}

impl NoGradient {
    /// The reason, for people.
    pub fn why(self) -> &'static str {
        match self {
            Self::IsGradient => "it is a gradient itself, and second derivatives are not needed",
            Self::ReadsNothing => "it reads no numbers",
            Self::OnlyShows => "it only shows what another operation does",
            Self::Stores => "it stores keys and values, which training never does",
            Self::Optimises => "it is what an optimiser does with gradients",
            Self::Counts => "it counts",
            Self::Remembers => "it keeps rows for the next run, through which nothing flows back",
        }
    }
}

macro_rules! ops {
    // `$dollar` is the sign itself, for the macro that this one makes.
    ($dollar:tt $($module:ident: $name:ident),* $(,)?) => {
        $(mod $module; pub use $module::*;)*

        /// Any operation.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($name), "`](crate::ops::", stringify!($name), ").")] $name($name),)*
        }

        impl Op {
            /// Its name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($module),)* }
            }

            /// See [`Operation::OUTPUTS`].
            pub fn outputs(&self) -> &'static [&'static str] {
                match self { $(Self::$name(_) => $name::OUTPUTS,)* }
            }

            /// See [`Operation::shape`].
            ///
            /// # Errors
            /// What does not fit.
            pub fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
                match self { $(Self::$name(op) => op.shape(inputs),)* }
            }

            /// See [`Operation::gradient`].
            ///
            /// # Errors
            /// If a node does not fit, which is a mistake in the operation.
            pub fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
                match self { $(Self::$name(op) => op.gradient(at, build),)* }
            }

            /// See [`Operation::reference`].
            pub fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
                match self { $(Self::$name(op) => op.reference(inputs, world),)* }
            }

            /// See [`Operation::limits`].
            pub fn limits(&self, at: &At<'_>, limits: &mut Limits) {
                match self { $(Self::$name(op) => op.limits(at, limits),)* }
            }

            /// See [`Operation::work`].
            pub fn work(&self, at: &At<'_>, tally: &mut Tally<'_>) {
                match self { $(Self::$name(op) => op.work(at, tally),)* }
            }

            /// The cases of every operation.
            pub fn cases() -> Vec<Case> {
                let mut all = Vec::new();
                $(all.extend($name::cases());)*
                all
            }
        }

        $(impl From<$name> for Op { fn from(op: $name) -> Self { Self::$name(op) } })*

        /// `each_op!(op, it => expression)`: the expression where `it` is the operation inside of `op`, whichever that is. So a
        /// backend can ask a trait of its own that it has for every operation.
        #[macro_export]
        macro_rules! each_op {
            ($dollar op:expr, $dollar it:ident => $dollar then:expr) => {
                match $dollar op { $($crate::Op::$name($dollar it) => $dollar then,)* }
            };
        }
    };
}

ops! { $
    // Rows from nothing, and from tables.
    fill: Fill,
    sinusoid: Sinusoid,
    lookup: Lookup,
    lookup_grad: LookupGrad,
    // Products.
    linear: Linear,
    linear_input_grad: LinearInputGrad,
    linear_weight_grad: LinearWeightGrad,
    // Number by number, and across rows or columns.
    add: Add,
    mul: Mul,
    scale: Scale,
    add_row: AddRow,
    sum_rows: SumRows,
    repeat_row: RepeatRow,
    mul_column: MulColumn,
    dot_columns: DotColumns,
    activate: Activate,
    activate_grad: ActivateGrad,
    gate: Gate,
    gate_grad: GateGrad,
    dropout: Dropout,
    // Along a row.
    norm: Norm,
    norm_grad: NormGrad,
    softmax: Softmax,
    softmax_grad: SoftmaxGrad,
    adaptive: Adaptive,
    adaptive_grad: AdaptiveGrad,
    rotate: Rotate,
    // Between the rows of a sequence.
    attend: Attend,
    attend_grad: AttendGrad,
    attend_show: AttendShow,
    store: Store,
    squeeze: Squeeze,
    squeeze_grad: SqueezeGrad,
    recall: Recall,
    recall_grad: RecallGrad,
    lead: Lead,
    lead_grad: LeadGrad,
    pool: Pool,
    pool_grad: PoolGrad,
    // Which rows count.
    pick: Pick,
    pick_grad: PickGrad,
    halt: Halt,
    halt_grad: HaltGrad,
    cross_entropy: CrossEntropy,
    cross_entropy_grad: CrossEntropyGrad,
    span_loss: SpanLoss,
    span_loss_grad: SpanLossGrad,
    pair_loss: PairLoss,
    pair_loss_grad: PairLossGrad,
    correct: Correct,
    // From step to step.
    sum_squares: SumSquares,
    accumulate: Accumulate,
    adamw: AdamW,
    remember: Remember,
}

/// Demands that there are `count` inputs.
fn arity(inputs: &[Shape], count: usize) -> Result<(), String> {
    if inputs.len() == count { Ok(()) } else { Err(format!("takes {count} inputs, not {}", inputs.len())) }
}

/// Demands that `found` is `expected`.
fn same(what: &str, found: Shape, expected: Shape) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found} where {expected} is needed")) }
}
