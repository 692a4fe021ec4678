//! MultiHead: queries, keys and values, what they look at, and where the keys are kept.

use glassformer_formula::print::sublayer_names;
use glassformer_formula::{
    Attention, Depth, Global, Mix, NormSites, Pattern, Position, Reach, Scale, Sharing, Source,
};
use glassformer_graph::ops::{
    Add, Attend, Keys, Pattern as Seen, Reach as ReachOp, Recall, Squeeze, Store, Which, Who,
};
use glassformer_graph::{Leaf, Rows, Shape, Side, Slot, Value};

use crate::Error;
use crate::depth::block_of;
use crate::lower::{At, Lower, Out, Purpose};

impl<'f> Lower<'f> {
    /// `concat(headᵢ) W_O`: the rows x look at the rows `seen`.
    pub fn attend(
        &mut self,
        at: &At<'f>,
        attention: &'f Attention,
        (x, seen): (Value, Value),
    ) -> Result<Value, Error> {
        let rows = (x, seen);
        let heads = match (attention.source, attention.pattern) {
            (Source::Own, Pattern::Sliding { window, global: Global::Separate }) => {
                let seen = Seen::WindowAndGlobal(window);
                let local = self.look(at, attention, rows, (seen, Who::Local))?;
                let below = at.below("global");
                let global = self.scoped("global", |lower| {
                    lower.look(&below, attention, rows, (Seen::Dense, Who::Global))
                })?;
                self.build.add("joined", Add, &[local, global])?
            }
            (Source::Own, Pattern::Sliding { window, global: Global::Shared }) => {
                self.look(at, attention, rows, (Seen::WindowAndGlobal(window), Who::Every))?
            }
            (Source::Own, Pattern::Sliding { window, global: Global::None }) => {
                self.look(at, attention, rows, (Seen::Window(window), Who::Every))?
            }
            (Source::Own, Pattern::Dense | Pattern::LowRank { .. }) => {
                self.look(at, attention, rows, (Seen::Dense, Who::Every))?
            }
            (Source::Memory, _) => self.look(at, attention, rows, (Seen::Dense, Who::Every))?,
        };
        let out = Out { width: at.stack.width, bias: attention.bias.output };
        self.linear(at, "output", heads, out)
    }

    /// The heads, side by side: `[tokens, heads · size]`.
    fn look(
        &mut self,
        at: &At<'f>,
        attention: &'f Attention,
        (x, seen): (Value, Value),
        (pattern, who): (Seen, Who),
    ) -> Result<Value, Error> {
        let heads = attention.heads;
        let query = self.query(at, attention, x)?;
        let own = attention.source == Source::Own;
        let mut inputs = vec![query];
        let keys = if own && self.how.purpose == Purpose::Step {
            let (key, value) = self.keys_and_values(at, attention, x)?;
            let slot = self.next_slot();
            self.store(at.side, Which::Cache, slot, (attention, key, value))?;
            Keys::Pages(Which::Cache, slot)
        } else if !own && self.how.purpose == Purpose::Step {
            Keys::Pages(Which::Crossing, self.crossing_slot(&at.weights))
        } else {
            let (key, value) = self.keys_and_values(at, attention, seen)?;
            let (key, value) = self.squeeze(at, attention, key, value)?;
            inputs.extend([key, value]);
            Keys::Rows(self.build.shape(key).rows)
        };
        let relative = self.relative(at, attention, &mut inputs)?;
        let attend = Attend {
            side: at.side,
            heads: heads.query,
            key_heads: heads.key,
            size: heads.size,
            scale: match attention.scale {
                Scale::RootSize => 1.0 / (heads.size as f32).sqrt(),
                Scale::One => 1.0,
                Scale::By(scale) => scale,
            },
            reach: match attention.reach {
                Reach::Both => ReachOp::Both,
                Reach::Past => ReachOp::Past,
            },
            pattern,
            who,
            relative,
            keys,
        };
        Ok(self.build.add("heads", attend, &inputs)?)
    }

    fn query(&mut self, at: &At<'f>, attention: &'f Attention, x: Value) -> Result<Value, Error> {
        let heads = attention.heads;
        let out = Out { width: heads.query * heads.size, bias: attention.bias.query };
        let q = self.linear(at, "query", x, out)?; // [tokens, heads · size]
        let q = self.norm(at, ("query_norm", heads.query), q, attention.norm.as_ref())?;
        self.rotate(at, attention, "query_rotated", q)
    }

    fn keys_and_values(
        &mut self,
        at: &At<'f>,
        attention: &'f Attention,
        x: Value,
    ) -> Result<(Value, Value), Error> {
        let heads = attention.heads;
        let width = heads.key * heads.size;
        let k = self.linear(at, "key", x, Out { width, bias: attention.bias.key })?; // [keys, key heads · size]
        let k = self.norm(at, ("key_norm", heads.key), k, attention.norm.as_ref())?;
        let k = self.rotate(at, attention, "key_rotated", k)?;
        let v = self.linear(at, "value", x, Out { width, bias: attention.bias.value })?; // [keys, key heads · size]
        Ok((k, v))
    }

    /// The rows y with the memory of earlier segments before them, where positions are Transformer-XL's. What is remembered are
    /// the rows `read` before their norm; zeros of a start are normed like any others.
    pub fn recall(
        &mut self,
        at: &At<'f>,
        norm: &NormSites,
        (read, y): (Value, Value),
    ) -> Result<Value, Error> {
        let remembers = |position: &Position| matches!(position, Position::TransformerXl { .. });
        if self.how.purpose == Purpose::Step || !at.stack.position.parts().iter().any(remembers) {
            return Ok(y);
        }
        let name = self.build.path("memory");
        let shape = Shape::new(Rows::Memory(at.side), self.build.shape(read).width);
        // What a state keeps, it remembers too.
        let memory = match self.how.parameters {
            Leaf::Kept => self.build.kept(&name, shape)?,
            Leaf::Weight | Leaf::Input => self.build.input(&name, shape)?,
        };
        self.build.output(&self.build.path("remember"), read);
        let recalled = self.build.add("recalled", Recall { side: at.side }, &[memory, read])?;
        self.scoped("recalled", |lower| lower.norm(at, ("norm_in", 1), recalled, norm.input.as_ref()))
    }

    /// Keys and values squeezed into few rows, where the pattern is low rank.
    fn squeeze(
        &mut self,
        at: &At<'f>,
        attention: &'f Attention,
        key: Value,
        value: Value,
    ) -> Result<(Value, Value), Error> {
        let Pattern::LowRank { rank, length, sharing } = attention.pattern else { return Ok((key, value)) };
        let (of_key, of_value) = match sharing {
            Sharing::Heads => {
                (format!("{}.squeeze.key", at.weights), format!("{}.squeeze.value", at.weights))
            }
            Sharing::KeyValue => (format!("{}.squeeze", at.weights), format!("{}.squeeze", at.weights)),
            Sharing::Layers => (format!("{}.squeeze", at.side), format!("{}.squeeze", at.side)),
        };
        let op = Squeeze { side: at.side };
        let e = self.parameter(&of_key, Shape::fixed(rank, length))?;
        let key = self.build.add("key_squeezed", op, &[key, e])?; // [sequences · rank, key heads · size]
        let e = self.parameter(&of_value, Shape::fixed(rank, length))?;
        let value = self.build.add("value_squeezed", op, &[value, e])?;
        Ok((key, value))
    }

    fn store(
        &mut self,
        side: Side,
        pages: Which,
        slot: usize,
        (attention, key, value): (&Attention, Value, Value),
    ) -> Result<(), Error> {
        let heads = Slot { heads: attention.heads.key, size: attention.heads.size };
        self.build.add_all("store", Store { side, pages, slot, heads }, &[key, value])?;
        Ok(())
    }

    /// The keys and values of every cross-attention, computed once for each source and stored.
    pub fn store_crossings(&mut self, memory: Value) -> Result<(), Error> {
        let Some(target) = &self.formula.target else { return Ok(()) };
        for (slot, (weights, attention)) in self.crossings().into_iter().enumerate() {
            let at = At { side: Side::Source, stack: &target.stack, weights };
            self.scoped(&at.weights.clone(), |lower| {
                let (key, value) = lower.keys_and_values(&at, attention, memory)?;
                lower.store(Side::Source, Which::Crossing, slot, (attention, key, value))
            })?;
        }
        Ok(())
    }

    /// Every cross-attention of the target with where its weights' names begin; shared layers have one.
    fn crossings(&self) -> Vec<(String, &'f Attention)> {
        let Some(target) = &self.formula.target else { return Vec::new() };
        let layers: Vec<String> = match target.stack.depth {
            Depth::Layers(layers) => (0..layers).map(|layer| layer.to_string()).collect(),
            Depth::Groups { groups, .. } => (0..groups).map(|group| format!("shared{group}")).collect(),
            Depth::Shared { .. } | Depth::Adaptive { .. } => vec!["shared".to_owned()],
        };
        let mut crossings = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            let block = block_of(&target.stack, index);
            for (sublayer, name) in block.iter().zip(sublayer_names(block)) {
                if let Mix::Attend(attention) = &sublayer.mix
                    && attention.source == Source::Memory
                {
                    crossings.push((format!("{}.{layer}.{name}", Side::Target), attention));
                }
            }
        }
        crossings
    }

    fn crossing_slot(&self, weights: &str) -> usize {
        self.crossings().iter().position(|(known, _)| known == weights).unwrap_or(0)
    }
}
