//! ○: the block, again and again, with weights of its own or shared, for a fixed number of times or until each row has had
//! enough.

use glassformer_formula::print::sublayer_names;
use glassformer_formula::{Depth, Position, Reads, Stack, Sublayer, When};
use glassformer_graph::ops::{
    Activate, Activation, Add, AddRow, Fill, Halt, MulColumn, Scale, Sinusoid, Wave,
};
use glassformer_graph::{Rows, Shape, Value};

use crate::Error;
use crate::lower::{At, Lower, Out};
use crate::position::{counting_op, pairing, spread_op};

impl<'f> Lower<'f> {
    /// The rows after all blocks and the final norm.
    pub fn stack(&mut self, at: &At<'f>, x: Value, memory: Option<Value>) -> Result<Value, Error> {
        let x = match at.stack.depth {
            Depth::Layers(layers) => {
                let block = |lower: &mut Self, x, layer: usize| {
                    lower.block(&at.below(&layer.to_string()), layer, x, memory)
                };
                (0..layers).try_fold(x, |x, layer| block(self, x, layer))?
            }
            Depth::Groups { layers, groups } => {
                let block = |lower: &mut Self, x, layer: usize| {
                    let group = layer * groups / layers;
                    lower.block(&at.below(&format!("shared{group}")), layer, x, memory)
                };
                (0..layers).try_fold(x, |x, layer| block(self, x, layer))?
            }
            Depth::Shared { times } => {
                let block = |lower: &mut Self, x, step| {
                    let x = lower.add_step(at, x, step)?;
                    lower.block(&at.below("shared"), step, x, memory)
                };
                (0..times).try_fold(x, |x, step| block(self, x, step))?
            }
            Depth::Adaptive { max, threshold } => self.adaptive(at, x, memory, (max, threshold))?,
        };
        let norm = at.stack.final_norm.as_ref();
        self.scoped(&at.side.to_string(), |lower| lower.norm(at, ("norm", 1), x, norm))
    }

    /// Application number `step` of the block: values are below `side.step`, weights where `at` says.
    fn block(
        &mut self,
        at: &At<'f>,
        step: usize,
        mut x: Value,
        memory: Option<Value>,
    ) -> Result<Value, Error> {
        let block = block_of(at.stack, step);
        let entered = x;
        for (sublayer, name) in block.iter().zip(sublayer_names(block)) {
            let below = at.below(&name);
            let read = match sublayer.reads {
                Reads::Rows => x,
                Reads::Block => entered,
            };
            x = self.scoped(&format!("{}.{step}.{name}", at.side), |lower| {
                lower.sublayer(&below, sublayer, (x, read), memory)
            })?;
        }
        Ok(x)
    }

    /// Positions and the step's own sinusoid, where they are added before every application (Universal Transformer).
    fn add_step(&mut self, at: &At<'f>, x: Value, step: usize) -> Result<Value, Error> {
        let again =
            |position: &&Position| matches!(position, Position::Sinusoidal { when: When::EveryStep, .. });
        let Some(&Position::Sinusoidal { base, layout, spread, offset, counting, .. }) =
            at.stack.position.parts().iter().find(again)
        else {
            return Ok(x);
        };
        let wave = Wave { base, spread: spread_op(spread), pairing: pairing(layout) };
        let counting = counting_op(counting);
        let sinusoid =
            |rows, start| Sinusoid { rows, start, counting, width: at.stack.width, wave, clamp: None };
        self.scoped(&format!("{}.{step}", at.side), |lower| {
            let positions = lower.build.add("positions", sinusoid(Rows::Tokens(at.side), offset), &[])?;
            let time = lower.build.add("time", sinusoid(Rows::Fixed(1), step), &[])?;
            let x = lower.build.add("placed", Add, &[x, positions])?;
            Ok(lower.build.add("timed", AddRow, &[x, time])?)
        })
    }

    /// Adaptive computation time, unrolled to its maximum: a row that has halted gets weight 0 from then on.
    ///
    /// `result ← state · weight + result · (1 − weight)`, as in the listing of the Universal Transformer's paper.
    fn adaptive(
        &mut self,
        at: &At<'f>,
        mut state: Value,
        memory: Option<Value>,
        (max, threshold): (usize, f32),
    ) -> Result<Value, Error> {
        let rows = Rows::Tokens(at.side);
        let zero = |width| Fill { shape: Shape::new(rows, width), value: 0.0 };
        let side = at.side.to_string();
        let mut sum = self.scoped(&side, |lower| Ok(lower.build.add("halted", zero(1), &[])?))?;
        let mut result =
            self.scoped(&side, |lower| Ok(lower.build.add("result", zero(at.stack.width), &[])?))?;
        for step in 0..max {
            state = self.add_step(at, state, step)?;
            let weight;
            (weight, sum) = self.scoped(&format!("{side}.{step}"), |lower| {
                let p = lower.linear(at, "halt", state, Out { width: 1, bias: true })?; // [tokens, 1]
                let p = lower.build.add("halt.p", Activate { act: Activation::Sigmoid }, &[p])?;
                let halt = lower.build.add_all("halt.weight", Halt { threshold }, &[p, sum])?;
                Ok((halt[0], halt[1]))
            })?;
            state = self.block(&at.below("shared"), step, state, memory)?;
            result = self.scoped(&format!("{side}.{step}"), |lower| {
                let new = lower.build.add("weighed", MulColumn, &[state, weight])?;
                let old = lower.build.add("released", MulColumn, &[result, weight])?;
                let old = lower.build.add("negated", Scale::all(-1.0), &[old])?;
                let kept = lower.build.add("kept", Add, &[result, old])?;
                Ok(lower.build.add("result", Add, &[kept, new])?)
            })?;
        }
        Ok(result)
    }
}

/// The block of layer `layer`: the stack's, unless the layer has another.
pub(crate) fn block_of(stack: &Stack, layer: usize) -> &[Sublayer] {
    let other = stack.others.iter().find(|other| other.layers.contains(&layer));
    other.map_or(&stack.block, |other| &other.block)
}
