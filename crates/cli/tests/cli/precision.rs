//! `--dtype` and `--isa`, on every verb that runs a model.

use glassformer::cpu::lowp::Dot;
use glassformer::tensor::{Tolerance, compare};
use glassformer::{Tensor, Weights};

use super::{Ran, decoder, folder, run, saved};

/// The logits that `forward` writes with these flags, and what it said.
#[track_caller]
fn logits(test: &str, model: &str, flags: &[&str]) -> (Tensor, Ran) {
    let out = folder(&format!("{test}_out")).join("out.safetensors");
    let fixed = ["forward", "--model", model, "--ids", "5 17 9", "--out", out.to_str().unwrap()];
    let ran = run(&[&fixed[..], flags].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    (Weights::open(out).unwrap().get("0.logits").unwrap().to_f32(), ran)
}

#[test]
fn low_precision_is_near_and_said() {
    let (_, model) = saved("dtype", decoder());
    let (exact, _) = logits("dtype", &model, &[]);
    for (dtype, error) in [("auto", 0.0), ("f32", 0.0), ("bf16", 2e-2), ("int8", 5e-2), ("int4", 0.5)] {
        let (found, ran) = logits("dtype", &model, &["--dtype", dtype, "-v"]);
        compare(found.data(), exact.data(), Tolerance { absolute: error, relative: error })
            .unwrap_or_else(|difference| panic!("{dtype}: {difference}"));
        let said = if dtype == "auto" { "f32" } else { dtype };
        assert!(ran.err.contains(&format!("computing in {said} with ")), "{}", ran.err);
        assert_eq!(found.data() == exact.data(), error == 0.0, "{dtype} changes numbers");
    }
}

#[test]
fn each_kind_of_instructions_can_be_forced() {
    let (_, model) = saved("isa", decoder());
    let (integers, _) = logits("isa", &model, &["--dtype", "int8", "--isa", "scalar"]);
    for dot in Dot::available() {
        let flags = ["--dtype", "int8", "--isa", dot.word(), "-v"];
        let (found, ran) = logits("isa", &model, &flags);
        assert!(
            ran.err.contains(&format!("int8 with {dot}, and the rest with {}", dot.isa())),
            "{}",
            ran.err
        );
        compare(found.data(), integers.data(), Tolerance::both(1e-3)).unwrap();
    }
}

#[test]
fn what_the_machine_does_not_have_is_refused() {
    let (_, model) = saved("isa_missing", decoder());
    let forced = |word: &str| run(&["generate", "--model", &model, "--ids", "5", "--isa", word]);
    forced("mmx").refused("[possible values: scalar, neon");
    for dot in Dot::ALL.into_iter().filter(|dot| !dot.is_available()) {
        forced(dot.word()).refused("this machine does not have them; it has scalar");
    }
    run(&["generate", "--model", &model, "--ids", "5", "--dtype", "int3"])
        .refused("[possible values: auto, f32");
}
