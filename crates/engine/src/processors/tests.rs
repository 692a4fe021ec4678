//! Every rule against the reference implementation; `fixtures/generation/processors.py` made the rows.

use serde_json::Value;

use super::softmax::{guided, log_softmax, probabilities};
use super::{Rules, Scratch, penalties};
use crate::{Decoding, Sampling};

fn cases() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/generation/processors.json");
    let text = std::fs::read_to_string(path).expect("the fixtures are in the repository");
    serde_json::from_str(&text).expect("it is JSON")
}

fn ids(value: &Value) -> Vec<u32> {
    let one = |id: &Value| id.as_u64().expect("an id") as u32;
    value.as_array().map_or_else(|| vec![one(value)], |ids| ids.iter().map(one).collect())
}

fn row(value: &Value) -> Vec<f32> {
    let number = |x: &Value| x.as_f64().map_or(f32::NEG_INFINITY, |x| x as f32);
    value.as_array().expect("a row").iter().map(number).collect()
}

/// The options by the reference's names.
fn decoding(case: &Value) -> Decoding {
    let mut decoding = Decoding { end: ids(&case["ends"]), ..Decoding::default() };
    let mut sampling = Sampling { top_k: 0, ..Sampling::default() };
    for (key, value) in case["options"].as_object().expect("options") {
        let number = value.as_f64().unwrap_or_default();
        let whole = value.as_u64().unwrap_or_default() as usize;
        match key.as_str() {
            "repetition_penalty" => decoding.repetition_penalty = number,
            "encoder_repetition_penalty" => decoding.encoder_repetition_penalty = number,
            "no_repeat_ngram_size" => decoding.no_repeat_ngram = whole,
            "encoder_no_repeat_ngram_size" => decoding.encoder_no_repeat_ngram = whole,
            "bad_words_ids" => decoding.bad_words = value.as_array().expect("runs").iter().map(ids).collect(),
            "sequence_bias" => {
                let pair = |pair: &Value| (ids(&pair[0]), pair[1].as_f64().expect("a bias") as f32);
                decoding.sequence_bias = value.as_array().expect("pairs").iter().map(pair).collect();
            }
            "min_length" => decoding.min_length = whole,
            "min_new_tokens" => decoding.min_new_tokens = Some(whole),
            "max_length" => decoding.max_length = Some(whole),
            "forced_bos_token_id" => decoding.forced_first = Some(whole as u32),
            "forced_eos_token_id" => decoding.forced_last = ids(value),
            "remove_invalid_values" => decoding.remove_invalid = true,
            "exponential_decay_length_penalty" => {
                decoding.length_decay =
                    Some((ids(&value[0])[0] as usize, value[1].as_f64().expect("a factor")));
            }
            "suppress_tokens" => decoding.suppress = ids(value),
            "begin_suppress_tokens" => decoding.begin_suppress = ids(value),
            "renormalize_logits" => decoding.renormalize = true,
            "num_beams" => decoding.beams = whole,
            "do_sample" => {}
            "temperature" => sampling.temperature = number,
            "top_k" => sampling.top_k = whole,
            "top_p" => sampling.top_p = number,
            "min_p" => sampling.min_p = number,
            "typical_p" => sampling.typical_p = number,
            "epsilon_cutoff" => sampling.epsilon = number,
            "eta_cutoff" => sampling.eta = number,
            "top_h" => sampling.top_h = Some(number),
            other => panic!("{other} is not known here"),
        }
    }
    decoding.sampling = case["options"].get("do_sample").map(|_| sampling);
    decoding
}

/// Whether two tokens that can be drawn have the same score.
fn tied(row: &[f32]) -> bool {
    let mut finite: Vec<f32> = row.iter().copied().filter(|x| x.is_finite()).collect();
    finite.sort_by(f32::total_cmp);
    finite.windows(2).any(|pair| pair[0] == pair[1])
}

#[test]
fn every_rule_does_what_the_reference_does() {
    let (mut failed, cases) = (Vec::new(), cases());
    assert!(cases.len() > 300, "only {} cases", cases.len());
    let mut scratch = Scratch::default();
    for (number, case) in cases.iter().enumerate() {
        let decoding = decoding(case);
        let (history, source) = (ids(&case["history"]), ids(&case["source"]));
        let prompt = case["prompt"].as_u64().expect("a number") as usize;
        let longest = decoding.max_length.unwrap_or(usize::MAX);
        let rules = Rules { decoding: &decoding, source: &source, prompt, longest };
        let mut found = row(&case["row"]);
        rules.apply((&history, &[]), &mut found, &mut scratch, &mut |_, _| ());
        rules.filter(&mut found, &mut scratch, &mut |_, _| ());
        rules.finish(&mut found, &mut |_, _| ());
        let mut expected = row(&case["outcome"]);
        if tied(&row(&case["row"])) {
            // Which of equal tokens the reference keeps depends on how its sort was compiled; how many does not.
            found.sort_by(f32::total_cmp);
            expected.sort_by(f32::total_cmp);
        }
        let close = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        if !found.iter().zip(&expected).all(close) {
            failed.push(format!("{number}: {}\n{found:?}\n{expected:?}", case["options"]));
        }
    }
    assert!(failed.is_empty(), "{} of {} differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn what_is_alive_is_what_can_be_drawn() {
    let mut scratch = Scratch::default();
    for case in cases().iter().filter(|case| case["options"].get("do_sample").is_some()) {
        let decoding = decoding(case);
        let (history, source) = (ids(&case["history"]), ids(&case["source"]));
        let rules = Rules { decoding: &decoding, source: &source, prompt: 3, longest: 99 };
        let mut found = row(&case["row"]);
        rules.apply((&history, &[]), &mut found, &mut scratch, &mut |_, _| ());
        rules.filter(&mut found, &mut scratch, &mut |_, _| ());
        let alive: Vec<u32> =
            (0..).zip(&found).filter(|(_, x)| **x > f32::NEG_INFINITY).map(|(i, _)| i).collect();
        assert_eq!(alive, scratch.alive, "{}", case["options"]);
        probabilities(&found, &scratch.alive, &mut scratch.numbers);
        let sum: f32 = scratch.numbers.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5);
    }
}

#[test]
fn a_large_vocabulary_is_filtered_like_a_small_one() {
    // The pieces in which top-p sorts, and the selection of a large k, only begin beyond 256 tokens.
    let score = |i: u32| (f64::from(i.wrapping_mul(2_654_435_761) % 10_007) / 1000.0).sin() as f32;
    let row: Vec<f32> = (0..5000).map(score).collect();
    let mut sorted: Vec<u32> = (0..5000).collect();
    sorted.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(b.cmp(&a)));
    let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
    for (top_k, top_p) in [(0, 0.3), (0, 0.97), (1000, 1.0), (1000, 0.5), (4999, 0.9999)] {
        let decoding = Decoding {
            sampling: Some(Sampling { top_k, top_p, ..Sampling::default() }),
            ..Decoding::default()
        };
        let rules = Rules { decoding: &decoding, source: &[], prompt: 0, longest: 99 };
        let (mut found, mut scratch) = (row.clone(), Scratch::default());
        rules.filter(&mut found, &mut scratch, &mut |_, _| ());
        let first = if top_k == 0 { 5000 } else { top_k };
        let bound = row[sorted[first - 1] as usize];
        let first: Vec<u32> = sorted.iter().copied().filter(|&i| row[i as usize] >= bound).collect();
        let kept: f64 = first.iter().map(|&i| f64::from(row[i as usize]).exp()).sum();
        let mut above = 0.0;
        let mut expected: Vec<u32> = Vec::new();
        for &i in &first {
            if top_p < 1.0 && (kept - above) / kept <= 1.0 - top_p && !expected.is_empty() {
                break;
            }
            above += f64::from(row[i as usize]).exp();
            expected.push(i);
        }
        assert!(kept <= total);
        expected.sort_unstable();
        assert_eq!(scratch.alive.len(), expected.len(), "top_k {top_k}, top_p {top_p}");
        assert_eq!(scratch.alive, expected);
    }
}

#[test]
fn presence_counts_once_and_frequency_each_time() {
    let mut row = vec![1.0; 5];
    penalties::occurrence(&[3, 1, 3, 3], (0.5, 0.25), &mut row, &mut Vec::new());
    assert_eq!(row, [1.0, 0.25, 1.0, -0.25, 1.0]);
}

#[test]
fn groups_are_pushed_away_for_each_beam_that_chose_a_token() {
    let mut row = vec![0.0; 4];
    penalties::diversity(&[2, 1, 2], 0.5, &mut row);
    assert_eq!(row, [0.0, -0.5, -1.0, 0.0]);
}

#[test]
fn ids_beyond_the_vocabulary_are_passed_over() {
    let decoding = Decoding {
        end: vec![50_256],
        min_length: 9,
        suppress: vec![99],
        repetition_penalty: 2.0,
        ..Decoding::default()
    };
    let rules = Rules { decoding: &decoding, source: &[], prompt: 1, longest: 9 };
    let mut row = vec![1.0; 4];
    rules.apply((&[77, 2], &[]), &mut row, &mut Scratch::default(), &mut |_, _| ());
    assert_eq!(row, [1.0, 1.0, 0.5, 1.0]);
}

/// Greedy, with beams or drawn: what a token is chosen from are these numbers. `fixtures/generation/guidance.py` made them.
#[test]
fn guided_scores_are_the_references() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/generation/guided.json");
    let text = std::fs::read_to_string(path).expect("the fixtures are in the repository");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("it is JSON");
    assert!(cases.len() > 5, "only {} cases", cases.len());
    for case in &cases {
        let mut found = row(&case["row"]);
        log_softmax(&mut found);
        guided(case["scale"].as_f64().expect("a number"), &row(&case["compared"]), &mut found);
        for (found, expected) in found.iter().zip(row(&case["outcome"])) {
            let near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(near, "{found} instead of {expected} at {}", case["scale"]);
        }
    }
}
