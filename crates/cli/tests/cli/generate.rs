//! `glassformer generate`.

use glassformer::{Cpu, Finish, Generator, Request, Room, Stop};
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
    let room = Room { sequences: 1, source: 3, target: 7 };
    let request = Request { source: vec![5, 17, 9], prompt: vec![0] };
    let stop = Stop { end: Some(1), max_new_tokens: 6 };
    let expected = Generator::new(&model, &Cpu::new(1), room).unwrap().greedy(&[request], stop).unwrap();
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
    refuse(&decoder, &["--ids", "5", "--max-new-tokens", "0"]).refused("invalid value '0'");
    refuse(&decoder, &["--ids", "5", "--max-new-tokens", "99999999999"]).refused("invalid value");
    refuse(&decoder, &["--ids", "5", "--end", "-1"]).refused("-1");
    refuse(&decoder, &[]).refused("--ids <IDS>");
}
