//! I + f: one function for every family.

use glassformer_formula::{Activation as Act, FeedForward, Mix, Source, Sublayer};
use glassformer_graph::Value;
use glassformer_graph::ops::{Activate, Activation, Add, Gate};

use crate::Error;
use crate::lower::{At, Lower, Out};

impl<'f> Lower<'f> {
    /// `output(x + branch(mix(input(read))))`, where `read` is x itself or the block's own input.
    pub fn sublayer(
        &mut self,
        at: &At<'f>,
        sublayer: &'f Sublayer,
        (x, read): (Value, Value),
        memory: Option<Value>,
    ) -> Result<Value, Error> {
        let norm = &sublayer.norm;
        let y = self.norm(at, ("norm_in", 1), read, norm.input.as_ref())?;
        let y = match &sublayer.mix {
            Mix::Attend(attention) => {
                let seen = match attention.source {
                    Source::Own => self.recall(at, norm, (read, y))?,
                    Source::Memory => memory.unwrap_or(y),
                };
                self.attend(at, attention, (y, seen))?
            }
            Mix::Feed(feed) => self.feed(at, feed, y)?,
        };
        let y = self.norm(at, ("norm_branch", 1), y, norm.branch.as_ref())?;
        let y = self.dropout(y)?;
        let y = self.build.add("sum", Add, &[x, y])?;
        self.norm(at, ("norm_out", 1), y, norm.output.as_ref())
    }

    /// Each row by itself: `act(x W₁) W₂`, or `(act(x W_gate) ⊙ x W_up) W_down`.
    fn feed(&mut self, at: &At<'f>, feed: &FeedForward, x: Value) -> Result<Value, Error> {
        let width = self.build.shape(x).width;
        match *feed {
            FeedForward::Plain { hidden, act, bias } => {
                let y = self.linear(at, "up", x, Out { width: hidden, bias })?; // [tokens, hidden]
                let y = self.build.add("hidden", Activate { act: activation(act) }, &[y])?;
                self.linear(at, "down", y, Out { width, bias })
            }
            FeedForward::Gated { hidden, act, bias } => {
                let gate = self.linear(at, "gate", x, Out { width: hidden, bias })?; // [tokens, hidden]
                let up = self.linear(at, "up", x, Out { width: hidden, bias })?; // [tokens, hidden]
                let y = self.build.add("hidden", Gate { act: activation(act) }, &[gate, up])?;
                self.linear(at, "down", y, Out { width, bias })
            }
        }
    }
}

pub(crate) fn activation(act: Act) -> Activation {
    match act {
        Act::Relu => Activation::Relu,
        Act::Gelu => Activation::Gelu,
        Act::GeluTanh => Activation::GeluTanh,
        Act::Silu => Activation::Silu,
        Act::Tanh => Activation::Tanh,
        Act::Sigmoid => Activation::Sigmoid,
    }
}
