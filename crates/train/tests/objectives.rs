//! Every objective against PyTorch: the loss, every gradient, and the curves of fifty steps. `fixtures/objectives/make.py` made
//! the models and the numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use glassformer_cpu::Cpu;
use glassformer_families::{self as families, Layout};
use glassformer_formula::{Pool, Pooler};
use glassformer_graph::{Backend, Batch, Capacity, Reference, Side, Span};
use glassformer_model::{Model, parameters};
use glassformer_tensor::{Tensor, Tolerance, compare};
use glassformer_train::{Inside, LowRank, More, OuterLoss, Own, Rates, Settings, Trainer};
use glassformer_weights::Weights;

struct Fixture {
    name: &'static str,
    case: Weights,
    model: Model,
    /// With what the objective leaves out.
    whole: Model,
    layout: Layout,
}

impl Fixture {
    fn open(name: &'static str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/objectives").join(name);
        let case = Weights::open(path.join("case.safetensors")).expect("the fixture is in the repository");
        let opened = families::open(&path).expect("the model opens");
        let layout = Layout::of_config(opened.config.clone()).expect("its configuration is known");
        let whole = opened.model;
        let mut model = whole.clone();
        if name == "embed" {
            let mut formula = model.formula().clone();
            formula.pooler = Some(Pooler::of(Pool::Mean));
            // The file holds a pooler that a mean does not use.
            let kept = parameters(&formula).unwrap().into_iter();
            let kept = kept.map(|p| (p.name.clone(), model.tensor(&p.name).expect("a weight of the stack")));
            model = Model::new(formula.clone(), Weights::from_tensors(kept.collect::<Vec<_>>())).unwrap();
        }
        Self { name, case, model, whole, layout }
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        self.case.integers(name).unwrap_or_default().into_iter().map(|number| number as u32).collect()
    }

    fn side(&self) -> Side {
        if self.model.formula().target.is_some() { Side::Target } else { Side::Source }
    }

    fn outer(&self) -> Option<OuterLoss> {
        match self.name {
            "answer" => Some(OuterLoss::Spans),
            "embed" => Some(OuterLoss::Pairs { scale: 20.0 }),
            _ => None,
        }
    }

    fn batch(&self) -> Batch<'static> {
        let mut batch = Batch::default();
        let (ids, labels) = (self.numbers("ids"), self.numbers("labels"));
        let (targets, lengths) = (self.numbers("target_ids"), self.numbers("target_lengths"));
        let (mut start, mut target_start) = (0, 0);
        for (number, &length) in self.numbers("lengths").iter().enumerate() {
            let tokens = &ids[start..start + length as usize];
            match self.name {
                "generate" => {
                    batch.target.push(&tokens[..tokens.len() - 1], Span::default());
                    batch.target.labels.extend(&tokens[1..]);
                }
                "translate" => {
                    batch.source.push(tokens, Span::default());
                    let target = &targets[target_start..target_start + lengths[number] as usize];
                    target_start += target.len();
                    let shifted: Vec<u32> =
                        std::iter::once(2).chain(target[..target.len() - 1].iter().copied()).collect();
                    batch.target.push(&shifted, Span { source: number, ..Span::default() });
                    batch.target.labels.extend(target);
                }
                "fill" => {
                    batch.source.picked.push(start as u32 + self.numbers("places")[number]);
                    batch.source.push(tokens, Span::default());
                }
                _ => batch.source.push(tokens, Span::default()),
            }
            start += length as usize;
        }
        let packed = batch.side_mut(self.side());
        if self.name != "fill" {
            packed.pick_all();
        }
        if packed.labels.is_empty() {
            packed.labels = labels;
        }
        if self.outer().is_none() {
            packed.weights = vec![1.0 / packed.labels.len() as f32; packed.labels.len()];
        }
        batch
    }

    fn settings(&self) -> Settings {
        let rates = Rates { beta1: 0.9, beta2: 0.98, epsilon: 1e-8, decay: 0.01 };
        let smoothing = if self.name == "translate" { 0.1 } else { 0.0 };
        Settings { dropout: 0.0, smoothing, rates, clip: Some(1.0) }
    }

    fn trainer(&self, backend: &dyn Backend, more: &More) -> Trainer {
        let more = More { outer: self.outer(), ..more.clone() };
        let capacity = Capacity::of(&self.batch());
        Trainer::with(&self.model, backend, &capacity, &self.settings(), &more).expect("it prepares")
    }
}

const ALL: [&str; 7] = ["generate", "translate", "fill", "classify", "tag", "answer", "embed"];

fn agrees(backend: &dyn Backend, more: &More) {
    for name in ALL {
        let fixture = Fixture::open(name);
        let mut trainer = fixture.trainer(backend, more);
        let loss = trainer.backward(fixture.batch(), &BTreeMap::new()).expect("it runs");
        let expected = fixture.case.get("loss").expect("a loss").values()[0];
        assert!((loss - expected).abs() < 1e-5, "{name}: the loss is {loss}, and PyTorch has {expected}");
        // Gradients under the names of the reference: the way back of how its files are read.
        let shapes: BTreeMap<String, Vec<usize>> =
            parameters(fixture.model.formula()).unwrap().into_iter().map(|p| (p.name, p.shape)).collect();
        let ours = |name: &str| match shapes.get(name) {
            Some(shape) => Tensor::new(shape, trainer.gradient(name)?.to_vec()),
            None => fixture.whole.tensor(name),
        };
        let gradients = fixture.layout.tensors(ours).expect("they can be written");
        let mut compared = 0;
        for (theirs, tensor) in &gradients {
            // A model without a head has no prefix there.
            let bare = theirs.strip_prefix("bert.").unwrap_or(theirs);
            let found = [theirs.as_str(), bare].map(|name| fixture.case.get(&format!("grad.{name}")));
            let Some(expected) = found.into_iter().flatten().next() else {
                // Buffers there, and a pooler that the loss does not reach.
                assert!(
                    theirs == "final_logits_bias" || theirs.contains("pooler"),
                    "{name}: {theirs} is not compared"
                );
                continue;
            };
            compared += 1;
            if let Err(difference) = compare(tensor.data(), &expected.values(), Tolerance::both(1e-5)) {
                panic!("{name} {theirs}: {difference}");
            }
        }
        assert!(compared > 20, "{name}: only {compared} gradients are compared");
    }
}

#[test]
fn losses_and_gradients_of_all_objectives_are_those_of_torch_on_the_reference() {
    agrees(&Reference, &More::default());
}

#[test]
fn losses_and_gradients_of_all_objectives_are_those_of_torch_on_the_cpu() {
    agrees(&Cpu::new(2), &More::default());
}

#[test]
fn layers_that_are_computed_again_give_the_same_bits() {
    for name in ALL {
        let fixture = Fixture::open(name);
        let settings = Settings { dropout: 0.2, ..fixture.settings() };
        let capacity = Capacity::of(&fixture.batch());
        let mut gradients = Vec::new();
        for inside in [Inside::Kept, Inside::Recomputed] {
            let more = More { outer: fixture.outer(), inside, ..More::default() };
            let mut trainer = Trainer::with(&fixture.model, &Cpu::new(2), &capacity, &settings, &more)
                .expect("it prepares");
            trainer.backward(Batch { seed: 9, ..fixture.batch() }, &BTreeMap::new()).expect("it runs");
            let all = fixture.model.names().into_iter().map(|name| {
                let gradient = trainer.gradient(&name).expect("a gradient");
                (name, gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
            });
            gradients.push(all.collect::<Vec<_>>());
        }
        assert_eq!(gradients[0], gradients[1], "{name}");
    }
}

#[test]
fn fifty_steps_follow_torchs_curve() {
    for name in ["generate", "translate"] {
        let fixture = Fixture::open(name);
        // There the bias of the words is a buffer, which does not learn.
        let own = parameters(fixture.model.formula()).unwrap().into_iter();
        let rate = |name: &str| if name == "head.bias" { 0.0 } else { 1.0 };
        let own = own.map(|p| Own { rate: rate(&p.name), decay: 0.01 }).collect();
        let mut trainer = fixture.trainer(&Cpu::new(2), &More { own, ..More::default() });
        let expected = fixture.case.get("curve").expect("a curve").to_f32();
        let mut far = 0.0_f32;
        for (step, expected) in expected.data().iter().enumerate() {
            let loss = trainer.step(fixture.batch(), 2e-3).expect("a step");
            far = far.max((loss - expected).abs());
            assert!(
                (loss - expected).abs() < 1e-3,
                "{name}, step {step}: {loss}, and PyTorch has {expected}"
            );
        }
        println!("{name}: within {far:.1e} of the curve, which ends at {}", expected.data()[49]);
    }
}

#[test]
fn a_step_over_two_batches_is_one_over_both() {
    let fixture = Fixture::open("translate");
    let whole = fixture.batch();
    // The first two sequences and the last two, each weighted by all rows.
    let half = |from: usize| {
        let mut part = Batch::default();
        for number in from..from + 2 {
            let (source, target) = (whole.source.spans[number], whole.target.spans[number]);
            part.source.push(&whole.source.tokens[source.start..source.start + source.len], Span::default());
            let rows = target.start..target.start + target.len;
            part.target
                .push(&whole.target.tokens[rows.clone()], Span { source: number - from, ..Span::default() });
            part.target.labels.extend(&whole.target.labels[rows.clone()]);
            part.target.weights.extend(&whole.target.weights[rows]);
        }
        part.target.pick_all();
        part
    };
    let run = |batches: Vec<Batch<'static>>| {
        let mut trainer = fixture.trainer(&Cpu::new(2), &More { average: Some(0.9), ..More::default() });
        let step = trainer.step_over(batches, 1e-2).expect("a step");
        let weights: Vec<Vec<f32>> =
            trainer.weights().unwrap().iter().map(|weights| weights.to_vec()).collect();
        (step, weights)
    };
    let (one, two) = (run(vec![whole.clone()]), run(vec![half(0), half(2)]));
    assert!((one.0.loss - two.0.loss).abs() < 1e-5 && (one.0.length - two.0.length).abs() < 1e-4);
    let close = one.1.iter().zip(&two.1).all(|(a, b)| compare(a, b, Tolerance::both(1e-3)).is_ok());
    assert!(close, "the weights differ");
}

#[test]
fn a_low_rank_learns_beside_weights_that_stay_and_merges_into_them() {
    let fixture = Fixture::open("generate");
    let names = vec![".query.weight".into(), ".value.weight".into()];
    let low = LowRank { rank: 4, factor: 2.0, names, ..LowRank::default() };
    let more = More { lora: Some(low.clone()), ..More::default() };
    let mut trainer = fixture.trainer(&Cpu::new(2), &more);
    let losses: Vec<f32> = (0..60).map(|_| trainer.step(fixture.batch(), 2e-2).expect("a step")).collect();
    let plain = Fixture::open("generate").case.get("loss").expect("a loss").values()[0];
    assert!((losses[0] - plain).abs() < 1e-5, "at first nothing changes: {} and {plain}", losses[0]);
    assert!(losses[59] < losses[0] - 0.3, "it learns: {} and then {}", losses[0], losses[59]);
    // What was there has stayed, and what is written has the difference in it.
    let names: Vec<String> =
        parameters(fixture.model.formula()).unwrap().into_iter().map(|p| p.name).collect();
    let stayed = trainer.model().unwrap();
    for name in &names {
        assert_eq!(stayed.tensor(name).unwrap().data(), fixture.model.tensor(name).unwrap().data(), "{name}");
    }
    let merged = names.iter().zip(trainer.weights().unwrap()).map(|(name, data)| {
        let shape = fixture.model.tensor(name).unwrap().shape().to_vec();
        (name.clone(), Tensor::new(&shape, data.into_owned()).unwrap())
    });
    let merged = Model::new(fixture.model.formula().clone(), Weights::from_tensors(merged)).unwrap();
    let beside = trainer.backward(fixture.batch(), &BTreeMap::new()).unwrap();
    let mut alone =
        Trainer::new(&merged, &Cpu::new(2), &Capacity::of(&fixture.batch()), &fixture.settings()).unwrap();
    let inside = alone.backward(fixture.batch(), &BTreeMap::new()).unwrap();
    assert!((beside - inside).abs() < 1e-4, "{beside} beside, {inside} merged");
    // And it comes out again.
    let find = |name: &str| trainer.tensor(name).unwrap().data().to_vec();
    let name = "target.0.attend.query.weight";
    let (down, up) = (find(&format!("{name}.down")), find(&format!("{name}.up")));
    let out = LowRank::merge(merged.tensor(name).unwrap().data(), &down, &up, (4, -2.0));
    compare(&out, fixture.model.tensor(name).unwrap().data(), Tolerance::both(1e-5)).expect("unmerged");
}

/// A head learned as a whole wherever there was one, and A was the same for every seed.
#[test]
fn beside_a_low_rank_only_what_is_new_learns() {
    let fixture = Fixture::open("classify");
    let names = vec![".query.weight".to_owned()];
    let low = |seed, whole| LowRank { rank: 2, factor: 1.0, names: names.clone(), seed, whole };
    let trainer = |low| fixture.trainer(&Cpu::new(1), &More { lora: Some(low), ..More::default() });
    let head = "head.weight";
    let moves = |whole: &[&str]| {
        let mut trainer = trainer(low(0, whole.iter().map(|&name| name.to_owned()).collect()));
        trainer.step(fixture.batch(), 1e-2).expect("a step");
        let moved = trainer.model().expect("a model").tensor(head).expect("a head");
        moved.data() != fixture.model.tensor(head).expect("a head").data()
    };
    assert!(!moves(&[]), "a head that was there stays");
    assert!(moves(&[head]), "a new one learns");
    let drawn = |seed| {
        let trainer = trainer(low(seed, Vec::new()));
        let down = trainer.parameters().iter().find(|p| p.name.contains(".weight.down")).expect("an A");
        trainer.tensor(&down.name).expect("its numbers").data().to_vec()
    };
    assert_ne!(drawn(1), drawn(2));
    let high = LowRank { rank: 5000, ..low(0, Vec::new()) };
    let (more, capacity) = (More { lora: Some(high), ..More::default() }, Capacity::of(&fixture.batch()));
    let refused = Trainer::with(&fixture.model, &Cpu::new(1), &capacity, &fixture.settings(), &more);
    assert!(refused.err().expect("too high").to_string().contains("model.lora.rank is 5000"));
}
