//! Going on after an interruption: every later loss has the same bits as if nothing had happened.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Folder, backwards, losses, train};
use glassformer_cpu::Cpu;
use glassformer_tensor::Random;
use glassformer_train::{Changes, Config, Ended, Error, Event, Run};

const STEPS: usize = 80;
/// How often the training is killed before it is left to end.
const KILLS: usize = 12;
const CHILD: &str = "GLASSFORMER_TRAIN_CHILD";
/// From which step on a child dies, and how long after it.
const STEP: &str = "GLASSFORMER_TRAIN_CHILD_STEP";
const MICROSECONDS: &str = "GLASSFORMER_TRAIN_CHILD_MICROSECONDS";

/// A training of this configuration, that begins or goes on.
fn opened(config: &Path, changes: Changes) -> Result<Run, Error> {
    Run::open(Config::open(config).expect("it is right"), &Cpu::new(1), changes, &mut |_| {})
}

/// Not a test of its own: what the next one starts as another process, to kill it.
#[test]
fn a_child_trains() {
    let Some(config) = std::env::var_os(CHILD) else { return };
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (until, more) = (number(STEP), number(MICROSECONDS).unwrap_or(0));
    let end: OnceCell<JoinHandle<()>> = OnceCell::new();
    train(config.as_ref(), |step| {
        if until.is_some_and(|until| step as u64 >= until) {
            end.get_or_init(|| {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(more));
                    std::process::abort() // nothing is tidied up
                })
            });
        }
        false
    });
    // A machine may be so fast that it ends before.
    if let Some(end) = end.into_inner() {
        let _ = end.join();
    }
}

#[test]
fn a_training_that_is_killed_again_and_again_ends_with_the_same_bits() {
    let folder = Folder::new("killed");
    let whole = backwards(&folder.0, "whole", STEPS, "");
    train(&whole, |_| false);
    let expected = losses(&folder.0.join("whole"));
    assert_eq!(expected.iter().filter(|(step, _)| *step == STEPS).count(), 2, "a step and a look");

    let killed = backwards(&folder.0, "killed", STEPS, "");
    let mut random = Random::new(11);
    let child = |kill: Option<(usize, usize)>| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "resume::a_child_trains"]).env(CHILD, &killed);
        if let Some((step, microseconds)) = kill {
            child.env(STEP, step.to_string()).env(MICROSECONDS, microseconds.to_string());
        }
        child.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts")
    };
    for kill in 1..=KILLS {
        // Far enough to come to a checkpoint or two, then anywhere in a step or in writing one.
        let step = kill * STEPS / (KILLS + 2) + random.below(3);
        assert!(!child(Some((step, random.below(3000)))).success(), "it was not killed");
    }
    assert!(child(None).success());
    assert_eq!(losses(&folder.0.join("killed")), expected);
}

#[test]
fn what_a_kill_inside_a_checkpoint_leaves_is_passed_over() {
    let folder = Folder::new("inside");
    let whole = backwards(&folder.0, "whole", 12, "");
    train(&whole, |_| false);
    let expected = losses(&folder.0.join("whole"));

    let config = backwards(&folder.0, "broken", 12, "");
    let (ended, _) = train(&config, |step| step == 8);
    assert_eq!(ended, Ended::Stopped);
    let shelf = folder.0.join("broken/checkpoints");
    // Half a checkpoint under its hidden name, and one whose disk has lost the end of a file.
    std::fs::create_dir_all(shelf.join(".step-00000009/training")).unwrap();
    std::fs::write(shelf.join(".step-00000009/model.safetensors"), b"half").unwrap();
    let file = shelf.join("step-00000008/training/state.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 8]).unwrap();

    let (ended, events) = train(&config, |_| false);
    assert_eq!(ended, Ended::Done);
    assert!(events.iter().any(|event| matches!(event, Event::Damaged(steps) if steps == &[8])));
    assert!(events.iter().any(|event| matches!(event, Event::Resumed(step) if *step < 8)));
    assert!(!shelf.join(".step-00000009").exists());
    assert_eq!(losses(&folder.0.join("broken")), expected);
}

#[test]
fn the_last_and_the_best_are_kept() {
    let folder = Folder::new("kept");
    let config = backwards(&folder.0, "out", 30, "");
    let (_, events) = train(&config, |_| false);
    let mut best = events.iter().filter_map(|event| match event {
        Event::Checked { step, best: true, .. } => Some(*step),
        _ => None,
    });
    let best = best.next_back().expect("there is a best one");
    let mut names: Vec<String> = std::fs::read_dir(folder.0.join("out/checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let name = |step: usize| format!("step-{step:08}");
    assert!(names.contains(&name(best)) && names.contains(&name(30)) && names.len() <= 3, "{names:?}");
    let link = std::fs::read_link(folder.0.join("out/model")).unwrap();
    assert_eq!(link.file_name().unwrap().to_str().unwrap(), name(best));
}

#[test]
fn a_changed_configuration_is_refused() {
    let folder = Folder::new("changed");
    let config = backwards(&folder.0, "out", 4, "");
    train(&config, |_| false);
    let config = backwards(&folder.0, "out", 6, "");
    let error = opened(&config, Changes::Refuse).err().expect("it is refused").to_string();
    assert!(error.contains("schedule differs") && error.contains("--changed"), "{error}");
}

/// A batch twice as large makes an epoch of half as many: the place that was come to may be beyond its end.
#[test]
fn a_shorter_epoch_goes_on_with_the_next_one() {
    let folder = Folder::new("shorter");
    train(&backwards(&folder.0, "out", 7, ""), |step| step == 5);
    let config = backwards(&folder.0, "out", 7, "");
    let text = std::fs::read_to_string(&config).unwrap().replace("tokens = 256", "tokens = 4096");
    std::fs::write(&config, text).unwrap();
    let mut run = opened(&config, Changes::Accept).unwrap();
    assert_eq!(run.steps(), (5, 7));
    run.go(&|| false, &mut |_| {}).unwrap();
    assert_eq!(run.steps(), (7, 7));
}

/// What failed before it began has not begun.
#[test]
fn a_configuration_that_did_not_work_can_be_put_right() {
    let folder = Folder::new("wrong");
    let config = backwards(&folder.0, "out", 2, "");
    let right = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        right.replace("model.formula = \"formula.toml\"", "model.formula = \"nowhere.toml\""),
    )
    .unwrap();
    assert!(opened(&config, Changes::Refuse).is_err());
    std::fs::write(&config, right).unwrap();
    train(&config, |_| false);
}

/// A damaged checkpoint is neither gone on from nor kept instead of a good one.
#[test]
fn a_damaged_checkpoint_is_set_aside() {
    let folder = Folder::new("aside");
    let config = backwards(&folder.0, "out", 9, "");
    train(&config, |step| step == 6);
    let checkpoints = folder.0.join("out/checkpoints");
    std::fs::create_dir_all(checkpoints.join("step-00000100")).unwrap();
    std::fs::write(checkpoints.join(".DS_Store"), "not ours").unwrap();
    train(&config, |_| false);
    assert!(checkpoints.join("damaged-00000100").exists() && checkpoints.join("step-00000009").exists());
    assert!(folder.0.join("out/model/model.safetensors").exists());
}

/// Paths were once kept with their detours, and a training begun then was refused.
#[test]
fn a_path_written_another_way_is_no_change() {
    let folder = Folder::new("detour");
    let config = backwards(&folder.0, "out", 4, "");
    let (ended, _) = train(&config, |step| step == 2);
    assert_eq!(ended, Ended::Stopped);
    let kept = folder.0.join("out/config.json");
    let text = std::fs::read_to_string(&kept).expect("what it was begun with");
    assert!(text.contains("data.tsv"));
    std::fs::write(&kept, text.replace("data.tsv", "out/../data.tsv")).expect("it is written");
    let (ended, _) = train(&config, |_| false);
    assert_eq!(ended, Ended::Done);
}

/// The path of the formula was compared, and not what stands there.
#[test]
fn another_formula_in_the_same_file_is_a_change() {
    let folder = Folder::new("other-formula");
    let config = backwards(&folder.0, "out", 4, "");
    train(&config, |step| step == 2);
    let formula = folder.0.join("formula.toml");
    let text = std::fs::read_to_string(&formula).expect("the formula");
    std::fs::write(&formula, format!("# the same\n{text}")).expect("it is written");
    assert!(opened(&config, Changes::Refuse).is_ok(), "what it says is the same");
    std::fs::write(&formula, text.replace("\"relu\"", "\"gelu\"")).expect("it is written");
    let error = opened(&config, Changes::Refuse).err().expect("it is refused").to_string();
    assert!(error.contains("model differs"), "{error}");
}

/// Another relative path to the same files was a change.
#[test]
fn the_same_files_from_elsewhere_are_no_change() {
    let folder = Folder::new("elsewhere");
    let config = backwards(&folder.0, "out", 4, "");
    train(&config, |step| step == 2);
    let up: PathBuf = std::env::current_dir().expect("here").components().skip(1).map(|_| "..").collect();
    let relative = up.join(config.strip_prefix("/").expect("a path from the root"));
    assert!(relative.is_relative() && relative.exists());
    opened(&relative, Changes::Refuse).expect("it is the same");
}

/// A vocabulary of another size was asked for, and the old one kept without a word.
#[test]
fn weights_keep_the_vocabulary_that_they_were_trained_with() {
    let folder = Folder::new("vocabulary");
    let config = backwards(&folder.0, "out", 2, "");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    let with = |kind: &str| {
        std::fs::write(&config, text.replace("kind = \"characters\"", kind)).expect("the configuration");
    };
    with("kind = \"bpe\", size = 300");
    train(&config, |_| false);
    with("kind = \"bpe\", size = 310");
    let error = opened(&config, Changes::Accept).err().expect("it is refused").to_string();
    assert!(error.contains("tokenizer differs"), "{error}");
    // What has not begun may change.
    std::fs::remove_file(folder.0.join("out/config.json")).expect("it was kept");
    std::fs::remove_dir_all(folder.0.join("out/checkpoints")).expect("they were written");
    opened(&config, Changes::Refuse).expect("it is learned anew");
    let learned = std::fs::read_to_string(folder.0.join("out/tokenizer/learned.json")).expect("it says so");
    assert!(learned.contains("310"), "{learned}");
}

/// Ten steps in a row without a number end a training; fewer at its end were passed over in silence.
#[test]
fn a_training_that_ends_without_numbers_says_so() {
    let folder = Folder::new("no-numbers");
    let config = backwards(&folder.0, "out", 4, "");
    let mut run = opened(&config, Changes::Refuse).expect("it can begin");
    run.go(&|| false, &mut |_| {}).expect("it trains");
    assert!(run.is_sound());
    drop(run);
    let config = backwards(&folder.0, "fast", 4, "");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("rate = 5e-3, warmup = 10", "rate = 1e37")).expect("it is written");
    let mut run = opened(&config, Changes::Refuse).expect("it can begin");
    run.go(&|| false, &mut |_| {}).expect("few steps are no failure");
    assert!(!run.is_sound());
}
