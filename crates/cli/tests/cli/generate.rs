//! `glassformer generate`.

use glassformer::{Cpu, Decoding, Finish, Generator, Request, Room};
use serde_json::{Value, json};

use super::{decoder, encoder, encoder_decoder, run, saved};

#[track_caller]
fn generate(model: &str, args: &[&str]) -> Value {
    let text = run(&[&["generate", "--model", model, "--json"], args].concat()).ok();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_encoder_decoder_writes_what_its_generator_writes() {
    let (model, folder) = saved("generate_pair", encoder_decoder());
    let decoding = Decoding { start: Some(0), ..Decoding::greedy(Some(1), 6) };
    let request = Request::source(vec![5, 17, 9], &[], decoding).unwrap();
    let generator = Generator::new(&model, &Cpu::new(1), Room::new(1, 3, 7)).unwrap();
    let expected = generator.best(vec![request]).unwrap();
    let finish = if expected[0].finish == Finish::Eos { "eos" } else { "length" };
    let found =
        generate(&folder, &["--ids", "5 17 9", "--start", "0", "--end", "1", "--max-new-tokens", "6"]);
    let output = json!({ "ids": expected[0].ids, "text": null, "score": null, "finish": finish });
    assert_eq!(found, json!({ "schema": 1, "outputs": [output] }));
}

#[test]
fn a_target_can_be_begun_for_the_model() {
    let (_, model) = saved("generate_begun", encoder_decoder());
    let whole = generate(&model, &["--ids", "5 17", "--start", "0", "--max-new-tokens", "4"]);
    let ids: Vec<u64> =
        whole["outputs"][0]["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    let begun = format!("{} {}", ids[0], ids[1]);
    let args = ["--source-ids", "5 17", "--ids", &begun, "--start", "0", "--max-new-tokens", "2"];
    assert_eq!(generate(&model, &args)["outputs"][0]["ids"], json!(ids[2..]));
}

#[test]
fn a_decoder_continues_its_prompt() {
    let (_, model) = saved("generate_decoder", decoder());
    let found = generate(&model, &["--ids", "5 17 9", "--max-new-tokens", "4"]);
    assert_eq!(found["outputs"][0]["ids"].as_array().unwrap().len(), 4);
    assert_eq!(found["outputs"][0]["finish"], "length");
    let ran = run(&["generate", "--model", &model, "--ids", "5 17 9", "--max-new-tokens", "4"]);
    assert_eq!(ran.err, "ended by --max-new-tokens\n");
    let printed = ran.ok();
    let ids: Vec<u64> = printed.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert_eq!(found["outputs"][0]["ids"], json!(ids));
}

#[test]
fn the_end_token_ends_the_text() {
    let (_, model) = saved("generate_end", decoder());
    let free = generate(&model, &["--ids", "5 17 9", "--max-new-tokens", "3"]);
    let first = free["outputs"][0]["ids"][0].to_string();
    let ended = generate(&model, &["--ids", "5 17 9", "--max-new-tokens", "3", "--end", &first]);
    assert_eq!(ended["outputs"][0]["finish"], "eos");
    assert_eq!(ended["outputs"][0]["ids"].as_array().unwrap().len(), 1);
}

/// What the command prints for every golden of a checkpoint equals what the reference generated.
#[test]
fn folders_of_a_model_hub_generate_what_the_reference_generates() {
    for case in ["bart", "marian", "llama-tied", "t5"] {
        let folder = format!("{}/../../fixtures/hf/{case}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(format!("{folder}/generate.json")).unwrap();
        let goldens: Value = serde_json::from_str(&text).unwrap();
        for golden in goldens.as_array().unwrap().iter().step_by(3) {
            let ids: Vec<String> = golden["ids"].as_array().unwrap().iter().map(Value::to_string).collect();
            let mut args = vec!["--ids".to_owned(), ids.join(" ")];
            let flags = [
                ("max_new_tokens", "--max-new-tokens"),
                ("min_new_tokens", "--min-new-tokens"),
                ("num_beams", "--beams"),
                ("length_penalty", "--length-penalty"),
                ("early_stopping", "--early-stopping"),
                ("num_return_sequences", "--returns"),
                ("repetition_penalty", "--repetition-penalty"),
                ("no_repeat_ngram_size", "--no-repeat-ngram"),
            ];
            let options = golden["options"].as_object().unwrap();
            if options.keys().any(|key| flags.iter().all(|(name, _)| name != key)) {
                continue;
            }
            for (name, flag) in flags {
                if let Some(value) = options.get(name) {
                    args.extend([flag.to_owned(), value.as_str().map_or(value.to_string(), str::to_owned)]);
                }
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let found = generate(&folder, &args);
            let (found, expected) =
                (found["outputs"].as_array().unwrap(), golden["outputs"].as_array().unwrap());
            assert_eq!(found.len(), expected.len(), "{case} {options:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(found["ids"], expected["ids"], "{case} {options:?}");
                assert_eq!(found["finish"], expected["finish"], "{case} {options:?}");
                match (found["score"].as_f64(), expected["score"].as_f64()) {
                    (Some(a), Some(b)) => assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{a} {b}"),
                    (a, b) => assert_eq!(a, b, "{case} {options:?}"),
                }
            }
        }
    }
}

#[test]
fn a_seed_draws_the_same_text_again() {
    let (_, model) = saved("generate_sampled", decoder());
    let draw = |seed: &str| {
        generate(
            &model,
            &["--ids", "5 17", "--temperature", "2", "--top-k", "0", "--seed", seed, "--returns", "3"],
        )
    };
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7"), draw("8"));
    assert_eq!(draw("7")["outputs"].as_array().unwrap().len(), 3);
    assert_eq!(draw("7")["outputs"][0]["score"], Value::Null);
    // Without a length: as many as there are positions for.
    assert_eq!(draw("7")["outputs"][0]["ids"].as_array().unwrap().len(), 10);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let (_, decoder) = saved("generate_bad_decoder", decoder());
    let (_, encoder) = saved("generate_bad_encoder", encoder());
    let (_, pair) = saved("generate_bad_pair", encoder_decoder());
    let refuse = |model: &str, args: &[&str]| run(&[&["generate", "--model", model], args].concat());
    refuse(&pair, &["--ids", "5"]).refused_with("--start is missing", "--start ID");
    refuse(&pair, &["--ids", "5", "--start", "99"]).refused_with("id 99", "vocabulary");
    refuse(&pair, &["--ids", "20", "--start", "0"]).refused_with("id 20", "vocabulary");
    refuse(&encoder, &["--ids", "5"]).refused_with("no decoder", "forward");
    refuse(&decoder, &["--ids", "5", "--source-ids", "5"]).refused_with("no encoder", "--ids");
    refuse(&decoder, &["--ids", ""]).refused_with("--ids lists no numbers", "--ids");
    refuse(&decoder, &["--ids", "5 17", "--max-new-tokens", "11"])
        .refused_with("12 positions", "--max-new-tokens 10 or less");
    refuse(&decoder, &["--ids", "5", "--max-new-tokens", "0"])
        .refused_with("--max-new-tokens is 0", "from 1 to 1048576");
    refuse(&decoder, &["--ids", "5", "--max-new-tokens", "99999999999"])
        .refused("--max-new-tokens is 99999999999");
    refuse(&decoder, &["--ids", "5", "--end", "-1"]).refused("-1");
    refuse(&decoder, &["--ids", "5", "--temperature", "NaN"]).refused_with("temperature is NaN", "above 0");
    refuse(&decoder, &["--ids", "5", "--temperature", "-1"]).refused_with("temperature is -1", "above 0");
    refuse(&decoder, &["--ids", "5", "--top-p", "0"]).refused_with("top_p is 0", "up to 1");
    refuse(&decoder, &["--ids", "5", "--beams", "0"]).refused_with("beams is 0", "1024");
    refuse(&decoder, &["--ids", "5", "--beams", "1000000"]).refused_with("beams is 1000000", "1024");
    refuse(&decoder, &["--ids", "5", "--returns", "2"]).refused_with("2 sequences", "sample");
    refuse(&decoder, &[]).refused_with("no tokenizer", "--ids");
}
