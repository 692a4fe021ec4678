//! The worked example, replayed: what is printed is kept, and whatever changes it has to be looked at.
//!
//! The golden files hold the reference backend's numbers, which are the same on every machine. The CPU's are within their
//! rounding of them, so the last printed digit may differ; `GLASSFORMER_BLESS=1 cargo test` writes the files anew.

use std::path::Path;

use glassformer_cpu::Cpu;
use glassformer_explain::{Judged, Lang, Paint, Terminal, Verdict, Walkthrough, json, worked_example};
use glassformer_graph::Reference;
use glassformer_tensor::{Tolerance, compare};

fn walkthrough() -> Walkthrough {
    worked_example::walkthrough(&Reference).unwrap()
}

fn plain(lang: Lang) -> Terminal {
    Terminal { lang, paint: Paint::Plain, width: 80 }
}

#[track_caller]
pub(super) fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GLASSFORMER_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let line = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert!(
        expected == found,
        "{name} differs from line {:?} on; look at it, then bless it",
        line.map(|l| l + 1)
    );
}

#[test]
fn the_walkthrough_is_the_golden_one_in_both_languages() {
    let walkthrough = walkthrough();
    golden("walkthrough.en.txt", &plain(Lang::English).render(&walkthrough));
    golden("walkthrough.zh.txt", &plain(Lang::Chinese).render(&walkthrough));
}

#[test]
fn the_errata_are_the_golden_ones() {
    golden("errata.txt", &plain(Lang::English).errata(&walkthrough()));
}

#[test]
fn the_cpu_tells_the_same_story() {
    let (reference, cpu) = (walkthrough(), worked_example::walkthrough(&Cpu::new(2)).unwrap());
    assert_eq!(reference.steps.len(), cpu.steps.len());
    for (expected, found) in reference.steps.iter().zip(&cpu.steps) {
        assert_eq!(
            (&expected.section, &expected.text, &expected.facts),
            (&found.section, &found.text, &found.facts)
        );
        for (a, b) in expected.tensors.iter().zip(&found.tensors) {
            assert_eq!((&a.name, &a.shape, &a.labels), (&b.name, &b.shape, &b.labels));
            let difference = compare(&b.numbers, &a.numbers, Tolerance::both(1e-5));
            assert!(difference.is_ok(), "{} in {}: {difference:?}", a.name, expected.section);
        }
        let verdicts = |claims: &[Judged]| claims.iter().map(|judged| judged.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&expected.claims), verdicts(&found.claims));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let wide = |c: char| usize::from(('\u{2E80}'..='\u{FF60}').contains(&c));
    for lang in [Lang::English, Lang::Chinese] {
        for line in plain(lang).render(&walkthrough()).lines() {
            let columns = line.chars().map(|c| 1 + wide(c)).sum::<usize>();
            assert!(columns <= 80, "{columns} columns: {line}");
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let walkthrough = walkthrough();
    let plain = plain(Lang::English).render(&walkthrough);
    let coloured = Terminal { lang: Lang::English, paint: Paint::Colour, width: 80 }.render(&walkthrough);
    assert!(coloured.contains("\x1b["));
    let mut stripped = String::new();
    for part in coloured.split("\x1b[") {
        let text = if stripped.is_empty() { Some(part) } else { part.split_once('m').map(|(_, text)| text) };
        stripped.push_str(text.unwrap_or(part));
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(stripped.split_once('m').unwrap().1), trimmed(&plain));
}

#[test]
fn the_engine_writes_what_the_document_tells() {
    let walkthrough = walkthrough();
    let answer = walkthrough.steps.iter().find(|step| step.section == "6").unwrap();
    assert_eq!(answer.facts[0].text.en, "猫 坐着 <eos>");
}

#[test]
fn each_word_is_the_most_likely_one_of_its_run() {
    let words = ["猫", "坐着", "<eos>"];
    for (step, word) in words.iter().enumerate() {
        let section = format!("5.{}.d", step + 1);
        let walkthrough = walkthrough();
        let step = walkthrough.steps.iter().find(|step| step.section == section).unwrap();
        let shown = step.tensors.iter().find(|shown| shown.name == "probabilities").unwrap();
        let last = &shown.numbers[shown.numbers.len() - 4..];
        let largest = (0..4).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
        assert_eq!(worked_example::TARGET[largest], *word);
    }
}

#[test]
fn what_the_document_gives_went_into_the_model_unchanged() {
    let walkthrough = walkthrough();
    let given = |what: &str| {
        ["Embedding", "Positional", "X_", "W_", "d_", "num_heads"].iter().any(|g| what.starts_with(g))
    };
    let (given, derived): (Vec<_>, Vec<_>) =
        walkthrough.claims().partition(|judged| given(&judged.claim.what));
    assert_eq!(given.len(), 12 + 12 + 12 + 48 + 5);
    assert!(given.iter().all(|judged| judged.verdict == Verdict::Right));
    assert_eq!(derived.len(), 12 + 16 + 3 + 3 + 3 + 12 + 3 + 4);
}

/// Worked out by hand: the row of "cat" times two of the document's matrices.
#[test]
fn the_truth_about_cat_is_what_a_pencil_gives() {
    let walkthrough = walkthrough();
    let truth = |section: &str, what: &str| -> Vec<f32> {
        let about = |judged: &&Judged| judged.claim.section == section && judged.claim.what == what;
        walkthrough.claims().filter(about).map(|judged| (judged.truth * 100.0).round() / 100.0).collect()
    };
    assert_eq!(truth("2.b", "Q_cat"), [3.76, 4.24, 4.72, 5.2]);
    assert_eq!(truth("2.d", "V_cat"), [7.52, 8.48, 9.44, 10.4]);
    assert_eq!(truth("2.d", "Output_cat"), [9.52, 10.88, 12.24, 13.6]);
}

#[test]
fn the_scores_follow_from_the_documents_own_vectors_but_the_softmax_does_not() {
    let walkthrough = walkthrough();
    let own = |what: &str| -> Vec<Verdict> {
        let about = walkthrough.claims().filter(|judged| judged.claim.what.starts_with(what));
        about.filter_map(|judged| judged.given_own.map(|own| own.verdict)).collect()
    };
    assert_eq!(own("ScaledScore"), [Verdict::Right; 3]);
    assert_eq!(own("AttentionWeights"), [Verdict::Wrong; 3]);
    assert_eq!(own("Output_cat"), [Verdict::Wrong; 4]);
}

#[test]
fn every_claim_has_a_name_of_its_own() {
    let mut ids: Vec<String> = worked_example::claims().unwrap().into_iter().map(|claim| claim.id).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), count), (145, 145));
}

#[test]
fn json_holds_every_step_with_its_numbers_and_verdicts() {
    let walkthrough = walkthrough();
    let text = json::render(&walkthrough).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["score"]["total"], 145);
    let steps = value["steps"].as_array().unwrap();
    assert_eq!(steps.len(), walkthrough.steps.len());
    for tensor in steps.iter().flat_map(|step| step["tensors"].as_array().unwrap()) {
        let count: u64 =
            tensor["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product();
        assert_eq!(tensor["numbers"].as_array().unwrap().len() as u64, count, "{}", tensor["name"]);
        assert_eq!(tensor["labels"].as_array().unwrap().len(), tensor["shape"].as_array().unwrap().len());
    }
    let query = steps
        .iter()
        .flat_map(|step| step["claims"].as_array().unwrap())
        .find(|c| c["id"] == "2.b.Q_cat.1")
        .unwrap();
    assert_eq!((query["printed"].as_str(), query["verdict"].as_str()), (Some("5.5"), Some("wrong")));
    assert_eq!(query["element"], serde_json::json!([1, 0]));
}

#[test]
fn masked_scores_are_null_in_json() {
    let text = json::render(&walkthrough()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let step = value["steps"].as_array().unwrap().iter().find(|step| step["section"] == "5.2.b").unwrap();
    let scores =
        step["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "target.0.attend.scores").unwrap();
    assert!(scores["numbers"][1].is_null() && scores["numbers"][0].is_number());
}

#[test]
fn every_sentence_is_said_in_both_languages() {
    let walkthrough = walkthrough();
    let chinese = |text: &str| text.chars().any(|c| ('\u{4E00}'..='\u{9FFF}').contains(&c));
    for step in &walkthrough.steps {
        let formula = |text: &glassformer_explain::Text| text.en.starts_with("Y = ");
        for text in step.text.iter().filter(|text| !formula(text)).chain([&step.title]).chain(&step.chapter) {
            assert!(chinese(&text.zh), "{}: {}", step.section, text.zh);
            assert!(!text.en.is_empty() && !text.en.contains('{') && !text.zh.contains('{'), "{}", text.en);
        }
    }
}
