//! The engine against PyTorch: outputs, every gradient, ten optimiser steps. `fixtures/torch/make.py` made the numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use glassformer_cpu::Cpu;
use glassformer_formula::{
    Activation, Attention, Counting, Depth, FeedForward, Formula, Head, Heads, Input, InputScale, Mix, Norm,
    NormSites, Pairing, Pattern, Position, ProjectionBias, Reach, Reads, Scale, Side, Source, Spread, Stack,
    Sublayer, Table, Tokens, When,
};
use glassformer_graph::{Backend, Batch, Capacity, Packed, Reference, Span};
use glassformer_model::{Model, parameters};
use glassformer_tensor::{Tensor, Tolerance, compare};
use glassformer_train::{Rates, Settings, Trainer};
use glassformer_weights::Weights;

/// A fixture, with its names translated.
struct Fixture {
    weights: Weights,
}

impl Fixture {
    fn open(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/torch").join(name);
        Self {
            weights: Weights::open(path.with_extension("safetensors"))
                .expect("the fixture is in the repository"),
        }
    }

    fn setting(&self, key: &str) -> &str {
        self.weights.metadata().get(key).map_or("", String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> T {
        self.setting(key).parse().unwrap_or_else(|_| panic!("{key} is not a number"))
    }

    fn tensor(&self, name: &str) -> Tensor {
        self.weights.get(name).unwrap_or_else(|| panic!("the fixture has no {name}")).to_f32()
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        self.weights.integers(name).unwrap_or_default().into_iter().map(|id| id as u32).collect()
    }

    /// Our parameter `name` among tensors of one `kind` (`param`, `grad`, `after`).
    fn ours(&self, kind: &str, name: &str) -> Tensor {
        let (theirs, part) = theirs(name, self.setting("case"));
        let tensor = self.tensor(&format!("{kind}.{theirs}"));
        let Some(part) = part else { return tensor };
        // q, k and v are thirds of one matrix there.
        let third = tensor.data().len() / 3;
        let mut shape = tensor.shape().to_vec();
        shape[0] /= 3;
        Tensor::new(&shape, tensor.data()[part * third..(part + 1) * third].to_vec()).expect("a third")
    }

    fn formula(&self) -> Formula {
        let case = self.setting("case");
        let two = case.starts_with("transformer");
        let vocabulary = |key| if two { self.number(key) } else { self.number("source_vocab") };
        let first = self.side(Reach::Both, false, vocabulary("source_vocab"));
        match case {
            _ if two => Formula {
                source: Some(first),
                target: Some(self.side(Reach::Past, true, vocabulary("target_vocab"))),
                pooler: None,
                head: words(false, true),
            },
            "causal_lm" => Formula {
                source: None,
                target: Some(self.side(Reach::Past, false, vocabulary("source_vocab"))),
                pooler: None,
                head: words(true, false),
            },
            _ => Formula { source: Some(first), target: None, pooler: None, head: words(false, true) },
        }
    }

    fn side(&self, reach: Reach, cross: bool, vocabulary: usize) -> Side {
        let (width, heads): (usize, usize) = (self.number("width"), self.number("heads"));
        let norm = Some(Norm::Layer { epsilon: self.number("norm_eps"), bias: true });
        let sites = match self.setting("norm_first") {
            "true" => NormSites { input: norm, ..NormSites::default() },
            _ => NormSites { output: norm, ..NormSites::default() },
        };
        let attend = |source, reach| {
            Mix::Attend(Attention {
                source,
                reach,
                pattern: Pattern::Dense,
                heads: Heads { query: heads, key: heads, size: width / heads },
                scale: Scale::RootSize,
                bias: ProjectionBias::ALL,
                norm: None,
                rotary: None,
            })
        };
        let act = if self.setting("activation") == "gelu" { Activation::Gelu } else { Activation::Relu };
        let mut mixes = vec![attend(Source::Own, reach)];
        if cross {
            mixes.push(attend(Source::Memory, Reach::Both));
        }
        mixes.push(Mix::Feed(FeedForward::Plain { hidden: self.number("hidden"), act, bias: true }));
        let layers = self.setting("layers").parse().unwrap_or(2);
        let position = match self.setting("positions") {
            "sinusoidal" => Position::Sinusoidal {
                base: 10_000.0,
                layout: Pairing::Interleaved,
                spread: Spread::Open,
                offset: 0,
                when: When::Once,
                counting: Counting::Every,
            },
            "learned" => {
                Position::Learned { max: self.number("max_positions"), offset: 0, counting: Counting::Every }
            }
            _ => Position::None,
        };
        let scaled = self.setting("positions") == "sinusoidal";
        Side {
            input: Input::Tokens(Tokens {
                vocabulary,
                table: Table::Own,
                width: None,
                clusters: None,
                scale: if scaled { InputScale::RootWidth } else { InputScale::One },
                types: None,
                norm: None,
            }),
            stack: Stack {
                width,
                depth: Depth::Layers(layers),
                position,
                block: mixes
                    .into_iter()
                    .map(|mix| Sublayer { mix, reads: Reads::Rows, norm: sites })
                    .collect(),
                others: Vec::new(),
                final_norm: if self.setting("final_norm") == "true" { norm } else { None },
            },
        }
    }

    fn batch(&self) -> Batch<'static> {
        let mut batch = Batch::default();
        let fill = |packed: &mut Packed, ids: &str, list: &str| {
            let (ids, mut start) = (self.ids(ids), 0);
            for (source, len) in self.ids(list).into_iter().enumerate() {
                packed.push(&ids[start..start + len as usize], Span { source, ..Span::default() });
                start += len as usize;
            }
        };
        let case = self.setting("case");
        if case == "causal_lm" {
            fill(&mut batch.target, "source_ids", "source_lengths");
        } else {
            fill(&mut batch.source, "source_ids", "source_lengths");
            fill(&mut batch.target, "target_ids", "target_lengths");
        }
        let last = if batch.target.rows() > 0 { &mut batch.target } else { &mut batch.source };
        last.pick_all();
        last.labels = self.ids("labels");
        last.weights = vec![1.0 / last.rows() as f32; last.rows()];
        batch
    }
}

/// PyTorch's name of our parameter, and which third of it where q, k and v are one matrix.
fn theirs(name: &str, case: &str) -> (String, Option<usize>) {
    let two = case.starts_with("transformer");
    match name {
        "source.embed.tokens" if two => return ("source_embedding.weight".into(), None),
        "target.embed.tokens" if two => return ("target_embedding.weight".into(), None),
        "source.embed.tokens" | "target.embed.tokens" => return ("embedding.weight".into(), None),
        "target.embed.positions" => return ("position_embedding.weight".into(), None),
        "head.weight" | "head.bias" => return (name.into(), None),
        _ => {}
    }
    let (side, rest) = name.split_once('.').expect("a path");
    let stack = match (case, side) {
        ("encoder_layer", _) => "layer".to_owned(),
        (_, "source") if two => "transformer.encoder".to_owned(),
        (_, _) if two => "transformer.decoder".to_owned(),
        _ => "encoder".to_owned(),
    };
    if let Some(end) = rest.strip_prefix("norm.") {
        return (format!("{stack}.norm.{}", weight_or_bias(end)), None);
    }
    let (layer, rest) = rest.split_once('.').expect("a layer");
    let prefix = if case == "encoder_layer" { stack } else { format!("{stack}.layers.{layer}") };
    let decoder = two && side == "target";
    let mut parts = rest.rsplitn(2, '.');
    let (end, middle) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let attention = |sub: &str| if sub == "cross" { "multihead_attn" } else { "self_attn" };
    let (sub, what) = middle.split_once('.').expect("a sublayer");
    let third = ["query", "key", "value"].iter().position(|&k| k == what);
    if let Some(third) = third {
        return (format!("{prefix}.{}.in_proj_{end}", attention(sub)), Some(third));
    }
    let theirs = match (sub, what) {
        ("attend" | "cross", "output") => format!("{}.out_proj.{end}", attention(sub)),
        ("attend", _) => format!("norm1.{}", weight_or_bias(end)),
        ("cross", _) => format!("norm2.{}", weight_or_bias(end)),
        ("feed", "up") if case == "encoder_layer" => format!("ffn.0.{end}"),
        ("feed", "down") if case == "encoder_layer" => format!("ffn.2.{end}"),
        ("feed", "up") => format!("linear1.{end}"),
        ("feed", "down") => format!("linear2.{end}"),
        _ => format!("norm{}.{}", if decoder { 3 } else { 2 }, weight_or_bias(end)),
    };
    (format!("{prefix}.{theirs}"), None)
}

fn weight_or_bias(end: &str) -> &str {
    if end == "gain" { "weight" } else { end }
}

fn words(tied: bool, bias: bool) -> Head {
    Head::Words { tied, bias, dense: None, scale: None }
}

const CASES: [&str; 7] = [
    "encoder_layer",
    "encoder_stack_gelu_pre",
    "transformer_post_relu",
    "transformer_post_gelu",
    "transformer_pre_relu",
    "transformer_pre_gelu",
    "causal_lm",
];

fn close(what: &str, found: &[f32], expected: &Tensor, bound: f32) {
    if let Err(difference) = compare(found, expected.data(), Tolerance::both(bound)) {
        panic!("{what}: {difference}");
    }
}

fn agrees_with_torch(backend: &dyn Backend) {
    for case in CASES {
        let fixture = Fixture::open(case);
        let formula = fixture.formula();
        let names = parameters(&formula).expect("the formula works");
        let tensors = names.iter().map(|p| (p.name.clone(), fixture.ours("param", &p.name)));
        let model = Model::new(formula, Weights::from_tensors(tensors)).expect("every parameter is there");
        let rates = Rates {
            beta1: fixture.number("beta1"),
            beta2: fixture.number("beta2"),
            epsilon: fixture.number("eps"),
            decay: fixture.number("weight_decay"),
        };
        let settings = Settings { dropout: 0.0, smoothing: fixture.number("smoothing"), rates, clip: None };
        let batch = fixture.batch();
        let mut trainer =
            Trainer::new(&model, backend, &Capacity::of(&batch), &settings).expect("it can be prepared");

        let loss = trainer.backward(batch.clone(), &BTreeMap::new()).expect("it runs");
        let output = |name: &str| trainer.output(name).unwrap_or_else(|| panic!("no output {name}")).to_vec();
        close(&format!("{case} hidden"), &output("hidden"), &fixture.tensor("hidden"), 1e-5);
        close(&format!("{case} logits"), &output("logits"), &fixture.tensor("logits"), 1e-5);
        if case.starts_with("transformer") {
            close(&format!("{case} source"), &output("source"), &fixture.tensor("memory"), 1e-5);
        }
        close(&format!("{case} loss"), &[loss], &fixture.tensor("loss"), 1e-5);
        for parameter in &names {
            let name = &parameter.name;
            let gradient = trainer.gradient(name).expect("every parameter has one");
            close(&format!("{case} grad {name}"), &gradient, &fixture.ours("grad", name), 1e-5);
        }

        let rate = fixture.number("lr");
        let losses: Vec<f32> = (0..10).map(|_| trainer.step(batch.clone(), rate).expect("a step")).collect();
        close(&format!("{case} losses"), &losses, &fixture.tensor("losses"), 1e-5);
        let after = trainer.model().expect("it still fits");
        // The true gradient of a key's bias is zero; what is left is noise, which Adam blows up to full steps.
        for parameter in names.iter().filter(|p| !p.name.ends_with(".key.bias")) {
            let name = &parameter.name;
            let found = after.tensor(name).expect("it is there");
            close(&format!("{case} after {name}"), found.data(), &fixture.ours("after", name), 1e-4);
        }
    }
}

#[test]
fn the_reference_agrees_with_torch() {
    agrees_with_torch(&Reference);
}

#[test]
fn the_cpu_agrees_with_torch() {
    agrees_with_torch(&Cpu::default());
}
