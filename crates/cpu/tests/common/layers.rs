//! A small Transformer built by hand, for tests and measurements of the planner: the real ones are lowered by `model`.
#![allow(dead_code)] // each user needs a part of it

use std::collections::HashMap;

use glassformer_graph::ops::{
    Activate, Activation, Add, Attend, Counting, CrossEntropy, Dropout, Ids, Keys, Linear, Lookup, Norm,
    NormKind, Pairing, Pattern, Pick, Reach, Relative, Rotate, Store, SumRows, Turns, Which, Who,
};
use glassformer_graph::{Builder, Error, Graph, Leaf, PageLayout, Rows, Shape, Side, Slot, Value, grad};
use glassformer_tensor::{Random, Tensor};

const SIDE: Side = Side::Target;

/// What a stack is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All rows at once, looking both ways; post-norm, as BERT.
    Encode,
    /// Row after row, keys and values in pages; with rotated queries and keys.
    Decode,
    /// As `Encode`, with dropout and the gradients of all parameters, which come with each run.
    Train,
}

/// The sizes of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub hidden: usize,
    pub vocabulary: usize,
    pub longest: usize,
    pub purpose: Purpose,
}

impl Stack {
    fn size(&self) -> usize {
        self.width / self.heads
    }

    /// How the pages of its keys and values are laid out.
    pub fn pages(&self) -> PageLayout {
        PageLayout::new(vec![Slot { heads: self.heads, size: self.size() }; self.layers])
    }

    /// The graph.
    pub fn graph(&self) -> Result<Graph, Error> {
        let mut build = Builder::new();
        let tokens = self.parameter(&mut build, "tokens", self.vocabulary, self.width)?;
        let mut x = build.add("embed", Lookup { ids: Ids::Tokens(SIDE) }, &[tokens])?; // [tokens, width]
        if self.purpose != Purpose::Decode {
            let positions = self.parameter(&mut build, "positions", self.longest, self.width)?;
            let ids = Ids::Positions { side: SIDE, offset: 0, counting: Counting::Every };
            let places = build.add("places", Lookup { ids }, &[positions])?;
            x = build.add("placed", Add, &[x, places])?;
        }
        for layer in 0..self.layers {
            build.enter(&format!("{layer}"));
            x = self.layer(&mut build, layer, x)?;
            build.leave();
        }
        let picked = build.add("picked", Pick { side: SIDE }, &[x])?;
        let logits = build.add("logits", Linear, &[picked, tokens])?; // [picked, vocabulary]
        build.output("hidden", x);
        build.output("logits", logits);
        if self.purpose != Purpose::Train {
            return Ok(build.finish());
        }
        let each = build.add("each", CrossEntropy { side: SIDE, smoothing: 0.1 }, &[logits])?;
        let loss = build.add("loss", SumRows, &[each])?;
        build.output("loss", loss);
        let graph = build.finish();
        let names: Vec<String> = graph.leaves(Leaf::Input).map(|(_, info)| info.name.clone()).collect();
        grad::grad(&graph, "loss", &names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn layer(&self, build: &mut Builder, layer: usize, x: Value) -> Result<Value, Error> {
        let (width, hidden) = (self.width, self.hidden);
        let attended = self.attend(build, layer, x)?;
        let mixed = self.linear(build, "mixed", attended, width)?;
        let mixed = self.drop(build, mixed, 2 * layer as u64)?;
        let x = build.add("sum", Add, &[x, mixed])?;
        let x = self.norm(build, "norm", x)?;
        let wide = self.linear(build, "wide", x, hidden)?;
        let wide = build.add("activated", Activate { act: Activation::Gelu }, &[wide])?;
        let fed = self.linear(build, "fed", wide, width)?;
        let fed = self.drop(build, fed, 2 * layer as u64 + 1)?;
        let x = build.add("sum", Add, &[x, fed])?;
        self.norm(build, "norm", x)
    }

    fn attend(&self, build: &mut Builder, layer: usize, x: Value) -> Result<Value, Error> {
        let [q, k, v] = ["query", "key", "value"].map(|name| self.linear(build, name, x, self.width));
        let (mut q, mut k, v) = (q?, k?, v?);
        let rows = Rows::Tokens(SIDE);
        let mut attend = Attend {
            side: SIDE,
            heads: self.heads,
            key_heads: self.heads,
            size: self.size(),
            scale: 1.0 / (self.size() as f32).sqrt(),
            reach: Reach::Both,
            pattern: Pattern::Dense,
            who: Who::Every,
            relative: Relative::None,
            keys: Keys::Rows(rows),
        };
        if self.purpose != Purpose::Decode {
            return build.add("attended", attend, &[q, k, v]);
        }
        let turns = (0..self.size() / 2).map(|i| 100.0_f32.powf(-2.0 * i as f32 / self.size() as f32));
        let rotate = Rotate {
            side: SIDE,
            size: self.size(),
            turning: self.size(),
            pairing: Pairing::Halves,
            turns: Turns::Fixed(turns.collect()),
            magnitude: 1.0,
            direction: glassformer_graph::ops::Direction::Forward,
        };
        q = build.add("query.rotated", rotate.clone(), &[q])?;
        k = build.add("key.rotated", rotate, &[k])?;
        let heads = Slot { heads: self.heads, size: self.size() };
        build.add_all("store", Store { side: SIDE, pages: Which::Cache, slot: layer, heads }, &[k, v])?;
        attend = Attend { reach: Reach::Past, keys: Keys::Pages(Which::Cache, layer), ..attend };
        build.add("attended", attend, &[q])
    }

    fn linear(&self, build: &mut Builder, name: &str, x: Value, out: usize) -> Result<Value, Error> {
        let width = build.shape(x).width;
        let w = self.parameter(build, &format!("{name}.weight"), out, width)?;
        let b = self.parameter(build, &format!("{name}.bias"), 1, out)?;
        build.add(name, Linear, &[x, w, b])
    }

    fn norm(&self, build: &mut Builder, name: &str, x: Value) -> Result<Value, Error> {
        // Both norms of a layer share their weights: one name less, and the gradient has a sum more.
        let gain = self.parameter(build, &format!("{name}.gain"), 1, self.width)?;
        let bias = self.parameter(build, &format!("{name}.bias"), 1, self.width)?;
        build.add(name, Norm { kind: NormKind::Layer, epsilon: 1e-5, parts: 1 }, &[x, gain, bias])
    }

    fn drop(&self, build: &mut Builder, x: Value, site: u64) -> Result<Value, Error> {
        if self.purpose == Purpose::Train {
            build.add("kept", Dropout { rate: 0.1, site }, &[x])
        } else {
            Ok(x)
        }
    }

    fn parameter(&self, build: &mut Builder, name: &str, rows: usize, width: usize) -> Result<Value, Error> {
        let (name, shape) = (build.path(name), Shape::fixed(rows, width));
        if self.purpose == Purpose::Train { build.input(&name, shape) } else { build.weight(&name, shape) }
    }
}

/// Random numbers for every leaf of that kind.
pub fn parameters(graph: &Graph, leaf: Leaf) -> HashMap<String, Tensor> {
    let mut random = Random::new(1);
    graph
        .leaves(leaf)
        .map(|(_, info)| {
            let Rows::Fixed(rows) = info.shape.rows else { panic!("parameters have fixed sizes") };
            let shape = [rows, info.shape.width];
            let scale = 1.0 / (info.shape.width as f32).sqrt();
            let numbers = (0..rows * info.shape.width).map(|_| random.normal() * scale).collect();
            (info.name.clone(), Tensor::new(&shape, numbers).expect("the sizes agree"))
        })
        .collect()
}
