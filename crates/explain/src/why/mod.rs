//! Asking why: what a researcher asks of a run.
//!
//! - [`lens`]: what would the model say, if it stopped after a sublayer?
//! - [`heads`]: what does each head look at?
//! - [`attribute`]: which heads, feed-forwards and embeddings wrote a score?
//! - [`gradients`]: which input tokens does a score hang on?
//! - [`sweep`]: what becomes of the answer without a head?
//! - [`Edits`]: what would the model say with other activations?
//!
//! Every answer is about a [`Trace`](crate::Trace) and, where it needs one, a [`Focus`]: a score of the head, or the difference of two
//! ("why X and not Y"). What runs again is the model's own graph, begun in the middle with numbers that the trace holds.

mod apply;
pub(crate) mod asking;
mod attribute;
mod edit;
mod effect;
mod focus;
mod gradients;
mod heads;
mod lens;
mod stack;
mod sweep;

pub use apply::{Others, edited};
pub use asking::{Asked, Questions, Why};
pub use attribute::{Attribution, Neuron, Part, Wrote, attribute};
pub use edit::{Cut, Edit, Edits, From, Stack, With};
pub use effect::{Changed, Effect, effect};
pub use focus::Focus;
pub use gradients::{Gradients, Method, TokenShare, gradients};
pub use heads::{HeadStatistics, INDUCTION_TOKENS, heads};
pub use lens::{Cell, Guess, Lens, LogitLens, Looked, Reading, Scores, lens};
pub use stack::{Attention, Stream, Sublayer, attentions, streams, sublayers};
pub use sweep::{Ablated, Each, Sweep, sweep};
