//! A walk through a model with any text: all of it is told, and every number is the run's.

use glassformer_engine::Sequence;
use glassformer_explain::{Detail, Lang, Paint, Style, Terminal, Tour, Trace, Walkthrough};
use glassformer_formula::Clusters;
use glassformer_formula::named::{Original, Size, gpt2, original, transformer_xl};
use glassformer_graph::Reference;
use glassformer_model::Model;

fn translator() -> Model {
    let formula = original(Original {
        width: 8,
        heads: 2,
        hidden: 16,
        source_layers: 2,
        target_layers: 2,
        source_vocabulary: 9,
        target_vocabulary: 9,
    });
    Model::random(formula, 3).expect("the formula works")
}

fn name(id: u32) -> String {
    format!("t{id}")
}

fn walk(model: &Model, source: &[u32], target: &[u32], detail: Detail) -> Walkthrough {
    let tour = Tour {
        text: "text",
        answer: "answer",
        source: source.to_vec(),
        target: target.to_vec(),
        written: 2,
        beams: 1,
        token: &name,
        detail,
    };
    tour.walk(model, &Reference).expect("it runs")
}

#[test]
fn every_layer_and_every_word_is_told() {
    let all = walk(&translator(), &[4, 5, 6], &[0, 7, 1], Detail::All);
    let sections: Vec<&str> = all.steps.iter().map(|step| step.section.as_str()).collect();
    let expected = [
        "tokens",
        "formula",
        "source.embed",
        "source.0.attend",
        "source.0.feed",
        "source.1.attend",
        "source.1.feed",
        "target.embed",
        "target.0.attend",
        "target.0.cross",
        "target.0.feed",
        "target.1.attend",
        "target.1.cross",
        "target.1.feed",
        "word 1",
        "word 2",
        "answer",
    ];
    assert_eq!(sections, expected);
    let first = walk(&translator(), &[4, 5, 6], &[0, 7, 1], Detail::First);
    let count = |told: &Walkthrough| told.steps.iter().map(|step| step.tensors.len()).sum::<usize>();
    assert!(count(&first) < count(&all));
}

#[test]
fn candidates_are_the_largest_of_the_run() {
    let model = translator();
    let told = walk(&model, &[4, 5, 6], &[0, 7, 1], Detail::All);
    let sequence = Sequence { source: vec![4, 5, 6], target: vec![0, 7], ..Sequence::default() };
    let trace = Trace::run(&model, &Reference, &sequence).expect("it runs");
    let probabilities = trace.get("probabilities").expect("there are some").tensor;
    for (row, word) in ["word 1", "word 2"].iter().enumerate() {
        let step = told.steps.iter().find(|step| step.section == *word).expect("it is told");
        let shown = step.tensors.iter().find(|shown| shown.style == Style::Bars).expect("with candidates");
        let mut all = probabilities.data()[row * 9..(row + 1) * 9].to_vec();
        all.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(shown.numbers, all[..5]);
        let looks = step.tensors.iter().find(|shown| shown.name == "target.1.cross.probs").expect("it looks");
        assert_eq!(looks.shape, [2, 3], "heads and words of the source");
        let sums = looks.numbers.chunks(3).map(|row| row.iter().sum::<f32>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-5));
    }
}

/// A head in clusters was once taken for one that scores no words.
#[test]
fn an_adaptive_softmax_has_candidates_too() {
    let size = Size { width: 8, heads: 2, hidden: 16, layers: 1, vocabulary: 9, length: 8 };
    let clusters = Clusters { cuts: vec![3, 6], divisor: 2, width: None };
    let model = Model::random(transformer_xl(size, clusters), 3).expect("the formula works");
    let told = walk(&model, &[], &[4, 5, 6, 7], Detail::All);
    for word in ["word 1", "word 2"] {
        let step = told.steps.iter().find(|step| step.section == word).expect("it is told");
        let shown = step.tensors.iter().find(|shown| shown.style == Style::Bars).expect("with candidates");
        let sum: f32 = shown.numbers.iter().sum();
        assert!(shown.numbers.iter().all(|p| *p > 0.0) && sum < 1.0, "{:?}", shown.numbers);
    }
}

#[test]
fn a_decoder_alone_is_told_too_and_both_languages_are_written() {
    let size = Size { width: 8, heads: 2, hidden: 16, layers: 1, vocabulary: 9, length: 8 };
    let model = Model::random(gpt2(size), 3).expect("the formula works");
    let told = walk(&model, &[], &[4, 5, 6, 7], Detail::First);
    for (lang, word) in [(Lang::English, "Words are written"), (Lang::Chinese, "逐词写出")] {
        let text = Terminal { lang, paint: Paint::Plain, width: 80 }.render(&told);
        assert!(text.contains(word) && text.contains("t6") && !text.contains("encoder"), "{text}");
    }
}
