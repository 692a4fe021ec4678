//! A text followed through a model: all that is asked for is told, and every number is the run's.

use glassformer_engine::Sequence;
use glassformer_explain::{
    Detail, Ending, Error, Lang, Likely, Paint, Style, Terminal, Tour, Trace, Walkthrough,
};
use glassformer_formula::named::{Original, Size, bert, gpt2, original, transformer_xl};
use glassformer_formula::{Clusters, Formula, Head, Pool, Pooler};
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

fn tour(source: &[u32], target: &[u32], ending: Ending<'static>, detail: Detail) -> Tour<'static> {
    let sequence = Sequence { source: source.to_vec(), target: target.to_vec(), ..Sequence::default() };
    Tour { text: "text", sequence, ending, token: &name, detail }
}

/// Two tokens were written.
fn walk(model: &Model, source: &[u32], target: &[u32], detail: Detail) -> Walkthrough {
    let ending = Ending::Written { answer: "answer", count: 2, beams: 1 };
    tour(source, target, ending, detail).walk(model, &Reference).expect("it runs")
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
        "step.1",
        "step.2",
        "answer",
    ];
    assert_eq!(sections, expected);
    let layer = Detail::Part { layer: Some(2), head: None, word: None };
    let sections =
        walk(&translator(), &[4, 5, 6], &[0, 7, 1], layer).steps.into_iter().map(|step| step.section);
    let expected = ["source.1.attend", "source.1.feed", "target.1.attend", "target.1.cross", "target.1.feed"];
    assert_eq!(sections.collect::<Vec<_>>(), expected);
}

#[test]
fn a_head_and_a_step_are_told_alone() {
    let told =
        |layer, head, word| walk(&translator(), &[4, 5, 6], &[0, 7, 1], Detail::Part { layer, head, word });
    let head = told(Some(1), Some(2), None);
    let tensors = || head.steps.iter().flat_map(|step| &step.tensors);
    let find = |name: &str| tensors().find(|shown| shown.name == name).expect("it is shown");
    assert_eq!(find("source.0.attend.query").shape, [3, 4], "the columns of one head of two");
    assert_eq!(find("target.0.cross.probs").columns, Some(vec![1]));
    assert!(head.steps.iter().all(|step| !step.section.contains("feed")), "a head is part of an attention");
    let step = told(None, None, Some(2));
    let sections: Vec<&str> = step.steps.iter().map(|step| step.section.as_str()).collect();
    assert!(sections.contains(&"step.2") && !sections.contains(&"step.1"), "{sections:?}");
    let tensors = || step.steps.iter().flat_map(|step| &step.tensors);
    let find = |name: &str| tensors().find(|shown| shown.name == name).expect("it is shown");
    assert_eq!(find("target.1.feed.sum").rows, Some(vec![1]));
    assert_eq!(find("target.1.cross.key").rows, None, "a row asks, and all are asked");
}

#[test]
fn what_there_is_not_is_refused_by_its_number() {
    for (detail, expected) in [
        (Detail::Part { layer: Some(3), head: None, word: None }, "there is no layer 3: there are 2"),
        (Detail::Part { layer: None, head: Some(0), word: None }, "there is no head 0: there are 2"),
        (Detail::Part { layer: None, head: None, word: Some(9) }, "there is no step 9: there are 2"),
    ] {
        let ending = Ending::Written { answer: "answer", count: 2, beams: 1 };
        let walked = tour(&[4, 5, 6], &[0, 7, 1], ending, detail).walk(&translator(), &Reference);
        let error: Error = walked.expect_err("it is refused");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn candidates_are_the_largest_of_the_run() {
    let model = translator();
    let told = walk(&model, &[4, 5, 6], &[0, 7, 1], Detail::All);
    let sequence = Sequence { source: vec![4, 5, 6], target: vec![0, 7], ..Sequence::default() };
    let trace = Trace::run(&model, &Reference, &sequence).expect("it runs");
    let probabilities = trace.get("probabilities").expect("there are some").tensor;
    for (row, word) in ["step.1", "step.2"].iter().enumerate() {
        let step = told.steps.iter().find(|step| step.section == *word).expect("it is told");
        let shown = step.tensors.iter().find(|shown| shown.style == Style::Bars).expect("with candidates");
        let mut all = probabilities.data()[row * 9..(row + 1) * 9].to_vec();
        all.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(shown.numbers[..5], all[..5], "the word that was written may stand behind them");
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
    for word in ["step.1", "step.2"] {
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
    let told = walk(&model, &[], &[4, 5, 6, 7], Detail::All);
    for (lang, word) in [(Lang::English, "Words are written"), (Lang::Chinese, "逐词写出")] {
        let text = Terminal { lang, paint: Paint::Plain, width: 80 }.render(&told);
        assert!(text.contains(word) && text.contains("t6") && !text.contains("ncoder,"), "{text}");
    }
}

/// The first thing that is seen is one screen, whatever the text.
#[test]
fn a_summary_has_at_most_thirty_lines() {
    let size = Size { width: 8, heads: 2, hidden: 16, layers: 1, vocabulary: 9, length: 300 };
    let model = Model::random(gpt2(size), 3).expect("the formula works");
    for (length, written) in [(2, 1), (9, 8), (40, 30), (250, 200), (250, 2)] {
        let target: Vec<u32> = (0..length).map(|k| k % 9).collect();
        let ending = Ending::Written { answer: "answer", count: written, beams: 4 };
        let told = tour(&[], &target, ending, Detail::Summary).walk(&model, &Reference).expect("it runs");
        for (lang, width) in [(Lang::English, 80), (Lang::Chinese, 80), (Lang::English, 40)] {
            let text = Terminal { lang, paint: Paint::Plain, width }.render(&told);
            assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
            assert!(text.contains(if lang == Lang::English { "who looks" } else { "谁看向" }), "{text}");
        }
    }
}

/// An encoder alone was once refused: it has no words to write, but a class, tags, a span or a word for a blank.
#[test]
fn encoders_are_told_by_what_comes_of_the_text() {
    let size = Size { width: 8, heads: 2, hidden: 16, layers: 1, vocabulary: 9, length: 8 };
    let bert = || bert(size);
    let labels: &'static [String] = Box::leak(Box::new(["no".to_owned(), "yes".to_owned()]));
    let first = Pooler::of(Pool::First);
    let cases = [
        (bert(), Ending::Blanks { places: vec![1] }, "t5  t"),
        (
            Formula { pooler: Some(first), head: Head::Classes { count: 2, bias: true }, ..bert() },
            Ending::Classes { names: labels, likely: Likely::Softmax },
            "yes 0.",
        ),
        (
            Formula { head: Head::Tags { count: 2, dense: None }, ..bert() },
            Ending::Tags { names: labels, likely: Likely::Softmax },
            "yes 0.",
        ),
        (Formula { head: Head::Spans, ..bert() }, Ending::Span { best: Some((1, 2)) }, "2 t5"),
    ];
    for (formula, ending, expected) in cases {
        let model = Model::random(formula, 3).expect("the formula works");
        let told = tour(&[4, 5, 6], &[], ending, Detail::All).walk(&model, &Reference).expect("it runs");
        let text = Terminal { lang: Lang::English, paint: Paint::Plain, width: 80 }.render(&told);
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
        assert!(text.contains("logits"), "scores are shown:\n{text}");
    }
}
