//! A run as files: every step holds in `f64` for every architecture, what is changed is found at its step, and files that are cut short
//! or hostile are refused in one sentence.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::{Decoding, EarlyStopping, Forward, Sampling};
use glassformer_explain::record::{JSON, Outcome, TENSORS};
use glassformer_explain::{
    About, Checked, Detail, Ending, Follow, Level, Likely, Record, Recording, Tour, Trace,
};
use glassformer_formula::Head;
use glassformer_tasks::{Generate, TextEncoder, TextGenerator};
use serde_json::{Value, json};

use crate::replay::{fixtures, name, opened};

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tasks").join(name)
}

fn about() -> About {
    About { name: "fixture".to_owned(), precision: "f32".to_owned(), ..About::default() }
}

fn follow(text: &str) -> Follow<'_> {
    Follow { text, second: None, max_new_tokens: 8, detail: Detail::Summary }
}

fn generator(name: &str) -> TextGenerator {
    TextGenerator::open(model(name), Arc::new(Cpu::default())).expect("it opens")
}

/// What the model `name` makes of `text` by `change`d options, at the fullest level.
fn written(name: &str, text: &str, change: impl Fn(&mut Decoding)) -> (TextGenerator, Generate, Recording) {
    let generator = generator(name);
    let follow = follow(text);
    let mut options = follow.usual(&generator);
    options.decoding.max_new_tokens = Some(8);
    change(&mut options.decoding);
    let recording = follow.record_written(&generator, &options, &Cpu::default(), (&about(), Level::Full));
    let recording = recording.expect("it is recorded");
    (generator, options, recording)
}

/// A folder that is empty, and is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("glassformer-record-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// For every architecture and head: what is tapped has the bits of what is not, and each step is its formula.
#[test]
fn every_architecture_is_recorded_as_it_runs() {
    let (mut steps, mut seen, mut wrong) = (0, 0, Vec::new());
    for case in fixtures() {
        let Some((checkpoint, sequence)) = opened(&case) else { continue };
        let (model, cpu) = (&checkpoint.model, Cpu::default());
        let likely = match model.formula().head {
            Head::Words { .. } | Head::Adaptive { .. } => Likely::Softmax,
            Head::Rows | Head::Classes { .. } | Head::Tags { .. } | Head::Spans => Likely::Scores,
        };
        let trace = Trace::likely(model, &cpu, &sequence, likely).expect("it runs");
        let plain = Forward::whole(model, &cpu, std::slice::from_ref(&sequence)).expect("it runs");
        for (output, node) in trace.outputs() {
            let Some(untapped) = plain.output(output).expect("it is there") else { continue };
            let tapped = trace.get(node).expect("it is tapped").tensor;
            let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(tapped.data()), bits(&untapped.numbers), "{}: {output}", name(&case));
        }
        let ending = match model.formula().head {
            Head::Words { .. } | Head::Adaptive { .. } if model.formula().target.is_some() => {
                Ending::Written { answer: "answer", count: 0, beams: 1 }
            }
            Head::Words { .. } | Head::Adaptive { .. } => Ending::Blanks { places: vec![0] },
            Head::Classes { .. } => Ending::Classes { names: &[], likely: Likely::Softmax },
            Head::Tags { .. } => Ending::Tags { names: &[], likely: Likely::Sigmoid },
            Head::Spans => Ending::Span { best: Some((0, 0)) },
            Head::Rows => Ending::Rows,
        };
        let tour =
            Tour { text: "text", sequence, ending, token: &|id| format!("t{id}"), detail: Detail::Summary };
        let recording = tour.record(model, &cpu, (&about(), Level::Full)).expect("it is recorded");
        let checked = Checked::of(&recording, Some(model));
        steps += checked.steps.len();
        seen += 1;
        for step in checked.steps.iter().filter(|step| !matches!(step.outcome, Outcome::Holds(_))) {
            wrong.push(format!("{}: {step:?}", name(&case)));
        }
        wrong.extend(
            checked
                .checks
                .iter()
                .filter(|check| !check.ok)
                .map(|check| format!("{}: {check:?}", name(&case))),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 70 && steps > 2000, "only {steps} steps of {seen} models");
}

#[test]
fn a_recording_is_read_back_as_it_was_written() {
    let (_, _, recording) = written("story", "Once upon a time", |_| ());
    let folder = Folder::new("round");
    recording.save(&folder.0).expect("it is written");
    let read = Recording::open(&folder.0).expect("it is read");
    let (read, written) = (read, recording);
    assert_eq!(read.numbers, written.numbers);
    let parts = |record: &Record| {
        (record.tokens.clone(), record.sequence.clone(), record.tensors.clone(), record.formula.clone())
    };
    assert_eq!(parts(&read.record), parts(&written.record));
    assert_eq!(read.record.steps.len(), written.record.steps.len());
    for (read, written) in read.record.steps.iter().zip(&written.record.steps) {
        assert_eq!((&read.id, &read.equation, &read.lit), (&written.id, &written.equation, &written.lit));
    }
    let scores = |record: &Record| -> Vec<Option<f32>> {
        let steps = &record.decode.as_ref().expect("tokens were written").steps;
        steps.iter().flat_map(|step| &step.candidates).map(|candidate| candidate.logit).collect()
    };
    assert_eq!(scores(&read.record), scores(&written.record));
}

/// The beams that are told are those of the search: the winner is what is written, and its score has the same bits.
#[test]
fn the_winner_of_the_beams_is_what_is_written() {
    let penalties = [-1.0, 0.0, 0.6, 1.0, 2.0];
    let stops = [EarlyStopping::Likely, EarlyStopping::Full, EarlyStopping::Never];
    for (penalty, early) in penalties.into_iter().flat_map(|penalty| stops.map(|early| (penalty, early))) {
        let (generator, options, recording) = written("languages", "the cat sat on the mat", |decoding| {
            (decoding.beams, decoding.length_penalty, decoding.early_stopping) = (4, penalty, early);
        });
        let plain = Generate { observer: None, ..options };
        let text = "the cat sat on the mat";
        let best =
            generator.generate(&[text], &plain, &mut glassformer_tasks::silent).unwrap().remove(0).remove(0);
        let decode = recording.record.decode.as_ref().expect("tokens were written");
        let beams = decode.beams.as_ref().expect("there are beams");
        let winner = &beams.finished[beams.winner];
        assert_eq!(Some(winner.score.to_bits()), best.score.map(f32::to_bits), "{penalty} {early:?}");
        let mut ids = Vec::new();
        let mut at = Some(winner.node);
        while let Some(node) = at {
            ids.push(beams.nodes[node].token.id);
            at = beams.nodes[node].parent;
        }
        ids.reverse();
        assert_eq!(ids, best.ids, "{penalty} {early:?}");
        let chosen: Vec<u32> = decode.steps.iter().map(|step| step.chosen.id).collect();
        assert_eq!(chosen, best.ids);
        assert!(beams.nodes.iter().any(|node| !node.kept && !node.finished), "some were left behind");
        let checked = Checked::of(&recording, Some(&generator.checkpoint().model));
        assert!(checked.holds(), "{:?} {:?}", checked.first(), checked.checks);
        assert!(recording.record.checks.iter().all(|check| check.ok), "{:?}", recording.record.checks);
    }
}

/// Each rule that was asked for is a stage, and the token that was chosen is one that the last stage lets come.
#[test]
fn every_rule_is_a_stage() {
    let (_, _, recording) = written("story", "Once upon a time", |decoding| {
        decoding.repetition_penalty = 1.3;
        decoding.no_repeat_ngram = 2;
        decoding.min_new_tokens = Some(3);
        let sampling = Sampling::default().temperature(0.7).top_k(10).top_p(0.9).seed(3);
        decoding.sampling = Some(sampling);
    });
    let decode = recording.record.decode.expect("tokens were written");
    assert_eq!(decode.search, "sampled");
    let kinds: Vec<&str> = decode.steps[0].stages.iter().map(|stage| stage.kind.as_str()).collect();
    let rules =
        ["raw", "repetition_penalty", "no_repeat_ngram", "min_length", "temperature", "top_k", "top_p"];
    assert_eq!(kinds, rules);
    for step in &decode.steps {
        let alive: Vec<usize> = step.stages.iter().map(|stage| stage.alive).collect();
        assert!(alive.windows(2).all(|pair| pair[1] <= pair[0]), "{alive:?}");
        let last = step.stages.last().expect("there are stages");
        let chosen =
            last.candidates.iter().find(|candidate| candidate.id == step.chosen.id).expect("it is told");
        assert!(chosen.logit.is_some() && chosen.p > 0.0, "{chosen:?}");
        let first: f64 = step.candidates.iter().map(|candidate| candidate.p).sum();
        assert!(first <= 1.0 + 1e-6 && step.entropy > 0.0 && step.rank >= 1);
        assert!((step.logprob.exp() - step.chosen.p).abs() < 1e-6);
    }
    // Temperature divides every score.
    let step = &decode.steps[0];
    let at = |kind: &str| step.stages.iter().find(|stage| stage.kind == kind).expect("it is a stage");
    for (before, after) in at("min_length").candidates.iter().zip(&at("temperature").candidates) {
        if let (Some(before), Some(after)) = (before.logit, after.logit) {
            assert_eq!((before / 0.7_f64 as f32).to_bits(), after.to_bits());
        }
    }
}

#[test]
fn the_likeliest_token_is_the_one_that_greedy_search_writes() {
    let (generator, options, recording) = written("story", "Once upon a time", |_| ());
    let plain = Generate { observer: None, ..options };
    let best = generator.generate(&["Once upon a time"], &plain, &mut glassformer_tasks::silent).unwrap();
    let decode = recording.record.decode.as_ref().expect("tokens were written");
    assert_eq!(decode.search, "greedy");
    let chosen: Vec<u32> = decode.steps.iter().map(|step| step.chosen.id).collect();
    assert_eq!(chosen, best[0][0].ids);
    assert!(decode.steps.iter().all(|step| step.rank == 1 && step.candidates[0].id == step.chosen.id));
    assert!(recording.record.checks.iter().any(|check| check.name == "cached" && check.ok));
}

/// One number of a trace is changed: its own step is the first that fails.
#[test]
fn a_changed_number_is_found_at_its_step() {
    let (generator, _, recording) = written("languages", "the cat sat", |decoding| decoding.beams = 2);
    let model = &generator.checkpoint().model;
    assert!(Checked::of(&recording, Some(model)).holds());
    let steps: Vec<String> = recording.record.steps.iter().map(|step| step.id.clone()).collect();
    let mut found = 0;
    for id in steps {
        let mut changed = recording.clone();
        let tensor = changed.numbers.get_mut(&id).expect("every value is stored");
        let largest = tensor
            .data()
            .iter()
            .copied()
            .filter(|x| x.is_finite())
            .fold(0.0_f32, |most, x| most.max(x.abs()));
        let middle = tensor.data().len() / 2;
        tensor.data_mut()[middle] = if tensor.data()[middle].is_finite() {
            tensor.data()[middle] + 0.01 * largest.max(0.1)
        } else {
            0.0
        };
        let folder = Folder::new("changed");
        changed.save(&folder.0).expect("it is written");
        let checked = Checked::of(&Recording::open(&folder.0).expect("it is read"), Some(model));
        assert_eq!(checked.first().map(|step| step.id.as_str()), Some(id.as_str()));
        found += 1;
    }
    assert!(found > 40, "only {found} numbers were changed");
}

/// What the manifest says of the search, or the lens, is changed: what must hold does not.
#[test]
fn a_changed_manifest_is_found() {
    let (generator, _, recording) = written("languages", "the cat sat", |decoding| decoding.beams = 2);
    let model = &generator.checkpoint().model;
    for change in 0..5 {
        let mut changed = recording.clone();
        if change == 4 {
            let last = changed.record.lens["readings"].as_array_mut().unwrap().last_mut().unwrap();
            last["cells"][0]["top"][0]["logit"] = json!(0.5);
        }
        let decode = changed.record.decode.as_mut().expect("tokens were written");
        let beams = decode.beams.as_mut().expect("there are beams");
        match change {
            0 => beams.nodes.last_mut().expect("there are some").sum += 0.01,
            1 => beams.finished[0].score -= 10.0,
            2 => beams.length_penalty += 0.5,
            4 => {}
            _ => decode.steps[0].candidates[1].p += 0.01,
        }
        let checked = Checked::of(&changed, Some(model));
        assert!(!checked.holds(), "change {change} was not found");
    }
}

/// What is missing is said to be missing, and is no failure.
#[test]
fn what_a_level_does_not_store_is_left_out() {
    let generator = generator("story");
    let follow = follow("Once upon a time");
    let options = follow.usual(&generator);
    let record = |level| {
        follow
            .record_written(&generator, &options, &Cpu::default(), (&about(), level))
            .expect("it is recorded")
    };
    let [summary, steps, full] = [Level::Summary, Level::Steps, Level::Full].map(record);
    assert!(summary.numbers.is_empty() && !summary.record.steps.is_empty());
    assert!(steps.numbers.len() < full.numbers.len());
    let model = &generator.checkpoint().model;
    let checked = Checked::of(&summary, Some(model));
    assert!(checked.holds() && checked.missing() == checked.steps.len());
    assert_eq!(Checked::of(&full, Some(model)).missing(), 0);
    let without = Checked::of(&full, None);
    assert!(without.holds() && without.missing() > 0 && without.missing() < without.steps.len());
}

#[test]
fn files_that_are_cut_short_or_hostile_are_refused_in_one_sentence() {
    let (_, _, recording) = written("story", "Once upon a time", |_| ());
    let text = recording.json().expect("it has a JSON form");
    let whole: Value = serde_json::from_str(&text).expect("it is JSON");
    let folder = Folder::new("hostile");
    recording.save(&folder.0).expect("it is written");
    let refused = |said: &str, needle: &str| {
        fs::write(folder.0.join(JSON), said).expect("it is written");
        let why = Recording::open(&folder.0).expect_err(needle).to_string();
        assert!(why.contains(needle) && why.contains(JSON) && why.lines().count() == 1, "{needle}: {why}");
        assert!(why.len() < 600, "{why}");
    };
    for cut in [0, 1, text.len() / 3, text.len() / 2, text.len() - 3] {
        let mut cut = cut;
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        refused(&text[..cut], "ends before it is complete");
    }
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = whole.clone();
        change(&mut value);
        value.to_string()
    };
    refused(&changed(&|value| value["schema"] = json!(2)), "version 2");
    refused(&changed(&|value| drop(value.as_object_mut().unwrap().remove("schema"))), "no trace");
    refused("[]", "no trace");
    refused(&"[".repeat(100_000), "cannot be read");
    refused(&changed(&|value| value["steps"] = json!("many")), "cannot be read");
    let stored =
        whole["tensors"].as_array().unwrap().iter().position(|tensor| tensor["stored"] == true).unwrap();
    refused(&changed(&|value| value["tensors"][stored]["shape"] = json!([u64::MAX, u64::MAX])), "has it as");
    refused(&changed(&|value| value["tensors"][stored]["shape"] = json!([-1, 2])), "cannot be read");
    refused(
        &changed(&|value| {
            let twice = value["tensors"][stored].clone();
            value["tensors"].as_array_mut().unwrap().push(twice);
        }),
        "two tensors",
    );
    refused(
        &changed(&|value| value["tensors"][stored]["name"] = json!("a".repeat(5000))),
        "is no tensor of it",
    );
    refused(&changed(&|value| value["steps"][0]["inputs"] = json!(["nothing"])), "is no tensor of it");
    refused(
        &changed(&|value| {
            let name = "elsewhere";
            let mut other = value["tensors"][stored].clone();
            other["name"] = json!(name);
            value["tensors"].as_array_mut().unwrap().push(other);
        }),
        "does not have it",
    );
    // A formula of a file is no program: whatever it says is an error, or a number.
    for line in
        ["F = (((", "F = X · X · X", "F = softmax(X)", "F = W[p + 99999999999]", "F = LN(X), h = 0", ""]
    {
        let said = changed(&|value| {
            for step in value["steps"].as_array_mut().unwrap() {
                step["equation"]["text"] = json!(line);
            }
        });
        fs::write(folder.0.join(JSON), said).expect("it is written");
        let read = Recording::open(&folder.0).expect("its references are good");
        assert!(!Checked::of(&read, None).holds(), "{line}");
    }
    fs::write(folder.0.join(JSON), &text).expect("it is written");
    let numbers = fs::read(folder.0.join(TENSORS)).expect("it is there");
    for cut in [0, 7, 100, numbers.len() / 2, numbers.len() - 1] {
        fs::write(folder.0.join(TENSORS), &numbers[..cut]).expect("it is written");
        let why = Recording::open(&folder.0).expect_err("half a file").to_string();
        assert!(why.contains(TENSORS), "{why}");
    }
    fs::remove_file(folder.0.join(TENSORS)).expect("it goes");
    assert!(Recording::open(&folder.0).is_err());
}

/// Tokens say where they lie in the text, and which words they make.
#[test]
fn tokens_have_their_places_and_words() {
    let encoder = TextEncoder::open(model("fill"), Arc::new(Cpu::default())).expect("it opens");
    let text = "the cat [MASK] on the mat";
    let recording = follow(text)
        .record_read(&encoder, &Cpu::default(), (&about(), Level::Steps))
        .expect("it is recorded");
    assert_eq!(recording.record.answer.kind, "blanks");
    let tokens = &recording.record.tokens.source;
    assert_eq!(tokens.len(), recording.record.sequence.source.len());
    let letters: Vec<char> = text.chars().collect();
    let mut last = 0;
    for token in tokens {
        assert!(token.group == last || token.group == last + 1, "{tokens:?}");
        last = token.group;
        if let (Some([start, end]), Some(bytes), false) = (token.span, &token.bytes, token.special) {
            let spelled: String = letters[start..end].iter().collect();
            assert_eq!(spelled.to_lowercase().as_bytes(), bytes.as_slice(), "{token:?}");
        }
    }
    let checked = Checked::of(&recording, Some(&encoder.checkpoint().model));
    assert!(checked.holds() && checked.missing() == 0, "{:?}", checked.first());
}

/// TransformerLens' names, for who knows them.
#[test]
fn values_have_the_names_of_transformer_lens() {
    let (_, _, story) = written("story", "Once upon a time", |_| ());
    let alias = |recording: &Recording, name: &str| {
        let named = recording.record.tensors.iter().find(|named| named.name == name);
        named.and_then(|named| named.alias.clone()).unwrap_or_else(|| format!("{name} has none"))
    };
    assert_eq!(alias(&story, "target.0.attend.probs"), "blocks.0.attn.hook_pattern");
    assert_eq!(alias(&story, "target.0.attend.heads"), "blocks.0.attn.hook_z");
    assert_eq!(alias(&story, "target.0.feed.sum"), "blocks.0.hook_resid_post");
    let (_, _, pair) = written("languages", "the cat", |_| ());
    assert_eq!(alias(&pair, "source.0.attend.query"), "encoder.0.attn.hook_q");
    assert_eq!(alias(&pair, "target.0.cross.probs"), "decoder.0.cross_attn.hook_pattern");
    let mut aliases: Vec<&String> =
        pair.record.tensors.iter().filter_map(|named| named.alias.as_ref()).collect();
    let count = aliases.len();
    aliases.sort_unstable();
    aliases.dedup();
    assert_eq!(aliases.len(), count, "a name stands for one tensor");
}
