//! `glassformer bench`.

use serde_json::{Value, json};

use super::{decoder, encoder, encoder_decoder, run, run_with_input, saved};

#[track_caller]
fn measured(model: &str, args: &[&str]) -> Value {
    let fixed = ["bench", "--model", model, "--rounds", "2", "--json"];
    serde_json::from_str(&run(&[&fixed[..], args].concat()).ok()).unwrap()
}

#[test]
fn a_decoder_is_measured_reading_and_writing() {
    let (_, model) = saved("bench_decoder", decoder());
    let found = measured(&model, &["--length", "6", "--new", "5", "--batch", "2"]);
    let outputs = found["outputs"].as_array().unwrap();
    let names: Vec<&str> = outputs.iter().map(|output| output["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["prefill", "decode"]);
    assert_eq!((&outputs[0]["tokens"], &outputs[1]["tokens"]), (&json!(12), &json!(10)));
    for output in outputs {
        assert_eq!(output["seconds"].as_array().unwrap().len(), 2);
        for positive in ["median", "tokens_per_second", "operations", "bytes", "gflops", "gigabytes"] {
            assert!(output[positive].as_f64().unwrap() > 0.0, "{positive}");
        }
    }
    assert!(outputs[1]["bytes"].as_f64() > outputs[0]["bytes"].as_f64(), "five passes read more than one");
}

#[test]
fn an_encoder_reads_texts_of_many_lengths() {
    let (_, model) = saved("bench_encoder", encoder());
    let found = measured(&model, &["--length", "2-9", "--batch", "4"]);
    let output = &found["outputs"][0];
    assert_eq!((&output["workload"], &output["texts"]), (&json!("encode"), &json!(64)));
    let tokens = output["tokens"].as_u64().unwrap();
    assert!((2 * 64..9 * 64).contains(&tokens), "{tokens}");
    for wrong in ["0", "9-5", "x", "5-", "99999999"] {
        run(&["bench", "--model", &model, "--length", wrong]).refused("--length");
    }
    let refused = run(&["bench", "--model", &model, "--workload", "decode"]);
    refused.refused_with("does not decode", "measure encode");
}

#[test]
fn whoever_asks_is_answered_line_by_line() {
    let (_, model) = saved("bench_ask", encoder_decoder());
    let good = r#"{"workload":"translate","batch":2,"shortest":3,"new":4,"beams":2,"repeat":3}"#;
    let input = format!("{good}\nnonsense\n{{\"workload\":\"decode\"}}\n{good}\n");
    let text = run_with_input(&["bench", "--ask", "--model", &model], input.as_bytes()).ok();
    let mut answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.remove(0), json!({ "ready": true }));
    assert_eq!(answers.len(), 4);
    for answer in [&answers[0], &answers[3]] {
        assert_eq!(answer["tokens"], 8);
        assert_eq!(answer["seconds"].as_array().unwrap().len(), 3);
    }
    assert!(answers[1]["error"].as_str().unwrap().contains("not JSON"));
    assert!(answers[2]["error"].as_str().unwrap().contains("does not decode"));
}
