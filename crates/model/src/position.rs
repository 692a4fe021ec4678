//! Position enters in exactly three places: added to the input, by rotating queries and keys, added to the scores. Each is a
//! function here, and each matches every kind.

use glassformer_formula::{Attention, Biases, Counting, Pairing, Position, Source, Spread, When};
use glassformer_graph::ops::{
    Add, Counting as CountingOp, Direction, Ids, Lookup, Pairing as PairingOp, Relative, Rotate, Sinusoid,
    Spread as SpreadOp, Wave,
};
use glassformer_graph::{Rows, Shape, Value};

use crate::Error;
use crate::lower::{At, Lower, Out};
use crate::rotary::turns;

pub(crate) fn pairing(layout: Pairing) -> PairingOp {
    match layout {
        Pairing::Interleaved => PairingOp::Interleaved,
        Pairing::Halves => PairingOp::Halves,
    }
}

pub(crate) fn spread_op(spread: Spread) -> SpreadOp {
    match spread {
        Spread::Open => SpreadOp::Open,
        Spread::Closed => SpreadOp::Closed,
    }
}

pub(crate) fn counting_op(counting: Counting) -> CountingOp {
    match counting {
        Counting::Every => CountingOp::Every,
        Counting::But(padding) => CountingOp::But(padding),
    }
}

impl<'f> Lower<'f> {
    /// What position adds to the input. `at` is the side's `embed`.
    pub fn add_position(&mut self, at: &At<'f>, mut x: Value) -> Result<Value, Error> {
        let width = self.build.shape(x).width;
        for position in at.stack.position.parts() {
            let positions = match *position {
                Position::Sinusoidal { base, layout, spread, offset, when: When::Once, counting } => {
                    let wave = Wave { base, spread: spread_op(spread), pairing: pairing(layout) };
                    let (rows, counting) = (Rows::Tokens(at.side), counting_op(counting));
                    let op = Sinusoid { rows, start: offset, counting, width, wave, clamp: None };
                    self.build.add("positions", op, &[])?
                }
                Position::Learned { max, offset, counting } => {
                    let shape = Shape::fixed(max + offset, width);
                    let table = self.parameter(&format!("{}.positions", at.weights), shape)?;
                    let ids = Ids::Positions { side: at.side, offset, counting: counting_op(counting) };
                    self.build.add("placed", Lookup { ids }, &[table])?
                }
                Position::None
                | Position::Sinusoidal { when: When::EveryStep, .. }
                | Position::Rotary(_)
                | Position::Alibi
                | Position::Buckets { .. }
                | Position::TransformerXl { .. }
                | Position::Together(_) => continue,
            };
            x = self.build.add("sum_positions", Add, &[x, positions])?;
        }
        Ok(x)
    }

    /// How position turns queries and keys of the same rows. Those of another side have no positions in common.
    pub fn rotate(
        &mut self,
        at: &At<'f>,
        attention: &Attention,
        name: &str,
        x: Value,
    ) -> Result<Value, Error> {
        let turning = at.stack.position.parts().iter().find_map(|position| match position {
            Position::Rotary(rotary) => Some(attention.rotary.as_ref().unwrap_or(rotary)),
            Position::None
            | Position::Sinusoidal { .. }
            | Position::Learned { .. }
            | Position::Alibi
            | Position::Buckets { .. }
            | Position::TransformerXl { .. }
            | Position::Together(_) => None,
        });
        let Some(rotary) = turning.filter(|_| attention.source == Source::Own) else { return Ok(x) };
        let size = attention.heads.size;
        let turning = rotary.size.unwrap_or(size);
        let (turns, magnitude) = turns(rotary, turning);
        let op = Rotate {
            side: at.side,
            size,
            turning,
            pairing: pairing(rotary.layout),
            turns,
            magnitude,
            direction: Direction::Forward,
        };
        Ok(self.build.add(name, op, &[x])?)
    }

    /// What position adds to the scores; further inputs of the attention are appended to `inputs`.
    pub fn relative(
        &mut self,
        at: &At<'f>,
        attention: &Attention,
        inputs: &mut Vec<Value>,
    ) -> Result<Relative, Error> {
        if attention.source == Source::Memory {
            return Ok(Relative::None);
        }
        let heads = attention.heads;
        for position in at.stack.position.parts() {
            match *position {
                Position::Alibi => return Ok(Relative::Alibi),
                Position::Buckets { count, max_distance } => {
                    let name = format!("{}.position.table", at.side);
                    inputs.push(self.parameter(&name, Shape::fixed(count, heads.query))?);
                    return Ok(Relative::Buckets { max_distance });
                }
                Position::TransformerXl { biases, clamp, .. } => {
                    let distances = self.distances(at, clamp)?;
                    let width = heads.query * heads.size;
                    let owner = match biases {
                        Biases::Layer => at.weights.clone(),
                        Biases::Stack => at.side.to_string(),
                    };
                    inputs.push(self.linear(at, "position", distances, Out { width, bias: false })?);
                    inputs.push(self.parameter(&format!("{owner}.position.u"), Shape::fixed(1, width))?);
                    inputs.push(self.parameter(&format!("{owner}.position.v"), Shape::fixed(1, width))?);
                    return Ok(Relative::TransformerXl);
                }
                Position::None
                | Position::Sinusoidal { .. }
                | Position::Learned { .. }
                | Position::Rotary(_)
                | Position::Together(_) => {}
            }
        }
        Ok(Relative::None)
    }

    /// The sinusoid of every distance, once for the stack.
    fn distances(&mut self, at: &At<'f>, clamp: Option<usize>) -> Result<Value, Error> {
        let name = format!("{}.distances", at.side);
        if let Some(value) = self.build.find(&name) {
            return Ok(value);
        }
        let (rows, width) = (Rows::Distances(at.side), at.stack.width);
        let wave = Wave { base: 10_000.0, spread: SpreadOp::Open, pairing: PairingOp::Halves };
        let op = Sinusoid { rows, start: 0, counting: CountingOp::Every, width, wave, clamp };
        Ok(self.build.add_at(&name, op, &[])?)
    }
}
