//! What crosses between the host and a backend's memory that it cannot see, in a step of training: ids, spans, labels and a step's
//! columns go there, the loss and the length of the gradient come back, whatever the family and the objective.
//!
//! It went wrong once: every step bound all parameters as numbers of the host, and read all gradients.

use std::sync::Arc;

use glassformer_conformance::{Crossed, Opaque};
use glassformer_cpu::Cpu;
use glassformer_formula::named::{self, Original, Size};
use glassformer_formula::{Clusters, Formula};
use glassformer_graph::{Batch, Capacity, Packed, Side, Span};
use glassformer_model::Model;
use glassformer_train::{More, OuterLoss, Settings, Texts, Trainer};

const SIZE: Size = Size { width: 16, heads: 2, hidden: 24, layers: 2, vocabulary: 50, length: 32 };

fn pair() -> Formula {
    let Size { width, heads, hidden, vocabulary, .. } = SIZE;
    named::original(Original {
        width,
        heads,
        hidden,
        source_layers: 1,
        target_layers: 1,
        source_vocabulary: vocabulary,
        target_vocabulary: vocabulary,
    })
}

/// Two sequences on each side that the formula has, with such labels.
fn batch(formula: &Formula, labels: &[u32]) -> Batch<'static> {
    let mut batch = Batch::default();
    for (side, has) in [(Side::Source, formula.source.is_some()), (Side::Target, formula.target.is_some())] {
        if has {
            for source in 0..2 {
                batch.side_mut(side).push(&[5, 7, 9, 11], Span { source, ..Span::default() });
            }
        }
    }
    let side = if formula.target.is_some() { Side::Target } else { Side::Source };
    let packed = batch.side_mut(side);
    packed.pick_all();
    packed.labels = labels.to_vec();
    packed.weights = vec![0.1; labels.len()];
    batch
}

/// Bytes of what a batch says of a side.
fn rows(packed: &Packed) -> u64 {
    let Packed { spans, tokens, types, global, picked, labels, weights } = packed;
    let words = tokens.len() + types.len() + picked.len() + labels.len() + weights.len();
    (spans.len() * size_of::<Span>() + 4 * words + global.len()) as u64
}

/// Steps over one batch, and over two.
fn check(formula: Formula, labels: &[u32], more: &More) {
    let model = Model::random(formula, 3).expect("the formula works");
    let device = Opaque::over(Arc::new(Cpu::new(1)));
    let given = batch(model.formula(), labels);
    let capacity = Capacity {
        target: glassformer_graph::SideCapacity { memory: 64, keys: 64, ..Capacity::of(&given).target },
        ..Capacity::of(&given)
    };
    let mut trainer =
        Trainer::with(&model, &device, &capacity, &Settings::default(), more).expect("it prepares");
    assert!(device.take().kept > 0, "parameters are written once");
    let all = |batch: &Batch<'_>| rows(&batch.source) + rows(&batch.target);
    // Weights of an outer loss are one for each example.
    let most = all(&given) + 4 * given.source.spans.len() as u64;
    for step in 0..3 {
        trainer.step(given.clone(), 1e-3).expect("a step");
        let Crossed { runs, rows, inputs, kept, outputs } = device.take();
        assert!((runs, inputs, outputs) == (1, 16, 8), "{runs} runs, {inputs} bytes there, {outputs} back");
        assert!(rows <= most, "{rows} bytes of ids, spans and labels, of {most}");
        // Zeros are written where a text begins.
        assert!(kept == 0 || step == 0, "{kept} bytes of what is kept");
    }
    trainer.step_over(vec![given.clone(), given.clone()], 1e-3).expect("a step");
    let Crossed { runs, inputs, outputs, kept, .. } = device.take();
    assert_eq!((runs, inputs, outputs, kept), (3, 2 * 4 + 16, 2 * 4 + 4, 0), "two batches, and the update");
}

#[test]
fn a_step_moves_ids_labels_and_the_loss_for_every_family_and_objective() {
    let eight: Vec<u32> = (0..8).collect();
    let plain = More::default();
    check(pair(), &eight, &plain); // translate
    check(named::llama(SIZE, 1), &eight, &plain); // generate
    check(named::bert(SIZE), &eight, &plain); // fill
    check(named::bert_tagger(SIZE, 9), &eight, &plain); // tag
    check(named::bert_classifier(SIZE, 4), &[0, 1], &plain); // classify
    check(
        named::bert_reader(SIZE),
        &[0, 3, 1, 2],
        &More { outer: Some(OuterLoss::Spans), ..More::default() },
    ); // answer
    let pairs = More { outer: Some(OuterLoss::Pairs { scale: 5.0 }), ..More::default() };
    check(named::bert_embedder(SIZE), &[], &pairs); // embed
}

#[test]
fn averages_and_remembered_rows_stay_where_they_are() {
    let eight: Vec<u32> = (0..8).collect();
    check(named::llama(SIZE, 1), &eight, &More { average: Some(0.99), ..More::default() });
    let clusters = Clusters { cuts: vec![20, 30], divisor: 2, width: None };
    let more = More { texts: Texts::GoOn, ..More::default() };
    check(named::transformer_xl(SIZE, clusters), &eight, &more);
}
