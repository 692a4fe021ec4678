//! The verbs that write text: prompts, translations, conversations, scores.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use glassformer::formula::named::{self, Original};
use glassformer::formula::{Counting, Position};
use serde_json::Value;

use super::{command, decoder, finish, folder, run, run_into_closed_pipe, run_with_input, saved};

/// A tiny model that writes, with a tokenizer.
fn model(name: &str) -> String {
    format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(format!("{}/expected.json", model(name))).unwrap()).unwrap()
}

fn outputs(text: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["schema"], 1);
    document["outputs"].as_array().unwrap().clone()
}

#[test]
fn drafts_change_no_result_and_details_tell_how_they_fared() {
    let (story, talk) = (model("story"), model("talk"));
    let text = ["generate", "--model", &story, "--max-new-tokens", "60", "The cat sat. The cat sat. The cat"];
    let ids = ["generate", "--model", &story, "--max-new-tokens", "30", "--ids", "5 6 7 5 6 7 5 6 7"];
    for args in [&text[..], &ids] {
        let wanted = run(&[args, &["--draft", "none"]].concat()).ok();
        for draft in ["lookup", &story] {
            assert_eq!(run(&[args, &["--draft", draft]].concat()).ok(), wanted, "{draft}");
        }
    }
    let told = run(&[&text[..], &["--draft", &story, "-v"]].concat());
    assert!(told.err.contains("tokens were drafted"), "{}", told.err);
    run(&[&text[..], &["--draft", &talk]].concat()).refused("error: draft");
    run(&["translate", "--draft", &talk, "a cat"]).refused_with("--draft MODEL", "--draft lookup");
}

#[test]
fn a_prompt_is_continued_as_text_and_as_json() {
    let story = model("story");
    let wanted = expected("story")["written"][0]["texts"][0].as_str().unwrap().to_owned();
    let args = ["generate", "--model", &story, "--max-new-tokens", "12", "Once upon a time"];
    assert_eq!(run(&args).ok(), format!("{wanted}\n"));
    let json = outputs(&run(&[&args[..], &["--json"]].concat()).ok());
    assert_eq!(
        (json.len(), &json[0]["text"], &json[0]["finish"]),
        (1, &Value::from(wanted), &Value::from("length"))
    );
    assert_eq!(json[0]["ids"].as_array().unwrap().len(), 12);
    let beams = outputs(&run(&[&args[..], &["--json", "--beams", "3", "--returns", "2"]].concat()).ok());
    let texts: Vec<&Value> = beams.iter().map(|output| &output["text"]).collect();
    let wanted = &expected("story")["written"][1]["texts"];
    assert_eq!(texts, [&wanted[0], &wanted[1]]);
    assert!(beams[0]["score"].as_f64() > beams[1]["score"].as_f64());
    let logs = outputs(&run(&[&args[..], &["--json", "--logprobs"]].concat()).ok())[0]["logprobs"].clone();
    assert!(
        logs.as_array().unwrap().iter().all(|log| log.as_f64().unwrap() < 0.0) && logs[11].is_f64(),
        "{logs}"
    );
    // What may not come does not, and what must come last does.
    let ids = json[0]["ids"].as_array().unwrap();
    let (first, third) = (ids[0].to_string(), ids[2].to_string());
    let flags = ["--json", "--suppress", &first, "--bad-words", &third, "--forced-last", "7"];
    let other = outputs(&run(&[&args[..], &flags].concat()).ok())[0]["ids"].clone();
    let other: Vec<String> = other.as_array().unwrap().iter().map(Value::to_string).collect();
    assert!(!other.contains(&first) && !other.contains(&third), "{other:?}");
    assert_eq!(other[11], "7");
}

/// Beams tell nothing on the way: `generate` and `chat` once printed an empty line for them.
#[test]
fn the_best_beam_is_shown() {
    let (story, talk) = (model("story"), model("talk"));
    let flags = ["--beams", "3", "--max-new-tokens", "12"];
    let generate = [&["generate", "--model", &story, "Once upon a time"], &flags[..]].concat();
    let wanted = expected("story")["written"][1]["texts"][0].as_str().unwrap().to_owned();
    assert_eq!(run(&generate).ok(), format!("{wanted}\n"));
    let chat = [&["chat", "--model", &talk], &flags[..]].concat();
    let wanted = outputs(&run(&[&chat[..], &["the cat", "--json"]].concat()).ok())[0]["text"].clone();
    let wanted = format!("{}\n", wanted.as_str().unwrap());
    assert_ne!(wanted, "\n");
    assert_eq!(run(&[&chat[..], &["the cat"]].concat()).ok(), wanted);
    assert_eq!(run_with_input(&chat, b"the cat\n").ok(), wanted);
}

#[test]
fn prompts_from_a_stream_keep_their_order() {
    let story = model("story");
    let args = ["generate", "--model", &story, "--max-new-tokens", "4", "--json"];
    let lines = ["The cat", "Once upon a time", "猫坐", "The dog ran"];
    let many = outputs(&run_with_input(&args, lines.join("\n").as_bytes()).ok());
    for (index, line) in lines.iter().enumerate() {
        let alone = outputs(&run(&[&args[..], &[line]].concat()).ok());
        assert_eq!((&many[index]["ids"], &many[index]["prompt"]), (&alone[0]["ids"], &Value::from(index)));
    }
}

/// A second `-` once waited for a lock that the first one held.
#[test]
fn standard_input_is_read_once() {
    let (story, talk) = (model("story"), model("talk"));
    let generate = ["generate", "--model", &story, "--max-new-tokens", "4", "--json"];
    let with = |more: &[&str]| run_with_input(&[&generate[..], more].concat(), b"The cat\nThe dog\n");
    for twice in [["-", "-"].as_slice(), &["-", "--file", "-"], &["--file", "-", "--file", "-"]] {
        with(twice).refused_with("- is given twice", "once");
    }
    let whole = ["summarize", "--model", &model("languages"), "--whole", "-", "-"];
    run_with_input(&whole, b"The cat\n").refused_with("- is given twice", "once");
    let wanted = with(&["-"]).ok();
    assert_eq!(outputs(&wanted).len(), 2);
    assert_eq!(with(&["--file", "-"]).ok(), wanted);
    // Each line is a message of one conversation.
    let chat = ["chat", "--model", &talk, "--max-new-tokens", "10"];
    let said = expected("talk").as_array().unwrap().clone();
    let lines: Vec<&str> = said.iter().map(|said| said["text"].as_str().unwrap()).collect();
    let wanted: Vec<&str> = said.iter().map(|said| said["answer"].as_str().unwrap()).collect();
    let answers = run_with_input(&[&chat[..], &["-"]].concat(), lines.join("\n").as_bytes()).ok();
    assert_eq!(answers, format!("{}\n", wanted.join("\n")));
    run_with_input(&[&chat[..], &["-", "-"]].concat(), b"cat\n").refused_with("- is given twice", "once");
}

#[test]
fn translations_keep_lines_and_name_languages() {
    let languages = model("languages");
    let wanted = expected("languages")["translated"][0].clone();
    let args = ["translate", "--model", &languages, "--from", "en", "--to", "zh", "--max-new-tokens", "12"];
    let text = wanted["text"].as_str().unwrap();
    let lines = run_with_input(&args, format!("{text}\n\n{text}\n").as_bytes()).ok();
    let translation = wanted["translation"].as_str().unwrap();
    assert_eq!(lines, format!("{translation}\n\n{translation}\n"));
    let json = outputs(&run(&[&args[..], &["--json", text]].concat()).ok());
    assert_eq!(json[0]["text"], wanted["translation"]);
    run(&["translate", "--model", &languages, "--to", "Klingon", "cat"])
        .refused_with("Klingon", "it knows en");
    run(&["translate", "--model", &model("story"), "cat"])
        .refused_with("needs a model with an encoder", "show");
}

#[test]
fn a_whole_file_is_one_text_to_summarise() {
    let path = folder("writing_summary").join("article.txt");
    fs::write(&path, "The cat sat.\nThe dog ran.\n").unwrap();
    let (languages, path) = (model("languages"), path.to_str().unwrap().to_owned());
    let args = ["summarize", "--model", &languages, "--max-new-tokens", "5", "--json", "--file", &path];
    assert_eq!(outputs(&run(&args).ok()).len(), 2);
    assert_eq!(outputs(&run(&[&args[..], &["--whole"]].concat()).ok()).len(), 1);
}

#[test]
fn a_conversation_goes_on_over_lines_and_forgets_when_told() {
    let talk = model("talk");
    let wanted = expected("talk");
    let answer = |index: usize| wanted[index]["answer"].as_str().unwrap().to_owned();
    let said = |index: usize| wanted[index]["text"].as_str().unwrap().to_owned();
    let args = ["chat", "--model", &talk, "--max-new-tokens", "10"];
    let lines = format!("{}\n\n{}\n/reset\n{}\n/nonsense\n/quit\nnever said\n", said(0), said(1), said(0));
    let ran = run_with_input(&args, lines.as_bytes());
    assert!(ran.err.contains("/nonsense is no command"), "{}", ran.err);
    assert_eq!(ran.ok(), format!("{}\n{}\n{}\n", answer(0), answer(1), answer(0)));
    let arguments = run(&[&args[..], &[&said(0), &said(1)]].concat()).ok();
    assert_eq!(arguments, format!("{}\n{}\n", answer(0), answer(1)));
    let json = outputs(&run(&[&args[..], &["--json", &said(0)]].concat()).ok());
    assert_eq!(json[0]["ids"], wanted[0]["ids"]);
    let other = run(&[&args[..], &["--system", "You are a dog.", &said(0)]].concat()).ok();
    assert_ne!(other, format!("{}\n", answer(0)));
    // A message that is too long is told, and the conversation goes on.
    let long = format!("{}\n{}\n", "cat ".repeat(600), said(0));
    let ran = run_with_input(&args, long.as_bytes());
    assert!(ran.err.contains("reads 512 at most") && ran.err.contains("/reset"), "{}", ran.err);
    assert_eq!(ran.ok(), format!("{}\n", answer(0)));
    let ran = run(&[&args[..], &["cat ".repeat(600).as_str()]].concat());
    ran.refused_with("reads 512 at most", "say less");
    assert!(!ran.err.contains("--truncate"), "chat has no such flag: {}", ran.err);
    run(&["chat", "--model", &model("story"), "hello"]).refused_with("a chat template", "show");
}

/// Both once ended in a panic.
#[test]
fn a_search_that_keeps_nothing_is_refused() {
    let (languages, talk) = (model("languages"), model("talk"));
    let flags = ["--beams", "2", "the cat", "--length-penalty"];
    let summarize = [&["summarize", "--model", &languages], &flags[..]].concat();
    assert_ne!(run(&[&summarize[..], &["-5"]].concat()).ok(), "\n");
    run(&[&summarize[..], &["-300"]].concat()).refused_with("length_penalty -300", "nearer to 0");
    let chat = [&["chat", "--model", &talk], &flags[..]].concat();
    run(&[&chat[..], &["-300"]].concat()).refused_with("length_penalty -300", "nearer to 0");
}

#[test]
fn texts_are_scored_token_by_token() {
    let story = model("story");
    let wanted = &expected("story")["scored"][0];
    let text = wanted["text"].as_str().unwrap();
    let json = outputs(&run(&["score", "--model", &story, "--json", text]).ok());
    let logs: Vec<f64> = wanted["logs"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let total: f64 = logs.iter().sum();
    assert!((json[0]["log_likelihood"].as_f64().unwrap() - total).abs() < 1e-3);
    assert_eq!(json[0]["tokens"].as_array().unwrap().len(), logs.len());
    let lines = run(&["score", "--model", &story, "--tokens", text]).ok();
    assert_eq!(lines.lines().count(), 1 + logs.len(), "{lines}");
    let pair = run(&["score", "--model", &model("languages"), "--pairs", "The cat sat.\t猫坐着。"]).ok();
    assert!(pair.contains("tokens"), "{pair}");
    run(&["score", "--model", &model("languages"), "cat"]).refused_with("reads a source", "tab");
}

#[test]
fn bad_wishes_are_refused_before_anything_is_written() {
    let story = model("story");
    let ask = |more: &[&str]| run(&[&["generate", "--model", &story, "The cat"], more].concat());
    for (flags, why) in [
        (&["--temperature", "NaN"][..], "temperature"),
        (&["--temperature", "-1"], "temperature"),
        (&["--top-p", "0"], "top_p"),
        (&["--beams", "0"], "beams"),
        (&["--beams", "1000000"], "beams"),
        (&["--max-new-tokens", "1000000000"], "max-new-tokens"),
    ] {
        let ran = ask(flags);
        assert_eq!(ran.code, Some(2), "{flags:?}: {}", ran.err);
        assert!(ran.err.replace('_', "-").contains(&why.replace('_', "-")), "{flags:?}: {}", ran.err);
    }
    run(&["generate", "--model", &story, ""]).refused_with("nothing in it", "give a text");
    let long = ["generate", "--model", &story, &"cat ".repeat(90)];
    run(&long).refused_with("the model reads 64 at most", "--truncate");
    assert_ne!(run(&[&long[..], &["--truncate"]].concat()).ok(), "\n");
    run(&["explain", "--model", &story, &"cat ".repeat(90)]).refused_with("64 at most", "a shorter text");
    run(&["generate", "--model", &model("fill"), "cat"]).refused_with("needs a model with a decoder", "show");
    let ran = run_into_closed_pipe(&["generate", "--model", &story, "The cat"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    // Hardly any temperature is none: scores divided by it once were no numbers.
    let cold = ask(&["--max-new-tokens", "6", "--temperature", "1e-40"]).ok();
    assert_eq!(cold, ask(&["--max-new-tokens", "6", "--temperature", "0"]).ok());
    let beams = ["--max-new-tokens", "6", "--beams", "2", "--temperature"];
    let [cold, none] = ["1e-40", "0"].map(|x| ask(&[&beams[..], &[x]].concat()).ok());
    assert_eq!(cold, none);
}

#[test]
fn an_encoder_decoder_writes_as_far_as_it_has_positions() {
    let mut formula = named::original(Original {
        width: 8,
        heads: 2,
        hidden: 16,
        source_layers: 1,
        target_layers: 1,
        source_vocabulary: 320,
        target_vocabulary: 320,
    });
    let target = formula.target.as_mut().unwrap();
    target.stack.position = Position::Learned { max: 40, offset: 0, counting: Counting::Every };
    let (_, here) = saved("writing_positions", formula);
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(format!("{}/{name}", model("languages")), format!("{here}/{name}")).unwrap();
    }
    let args = ["generate", "--model", &here, "--json", "--start", "2", "--suppress", "2", "The cat"];
    for more in [&[][..], &["--max-new-tokens", "1000"]] {
        let ids = outputs(&run(&[&args[..], more].concat()).ok())[0]["ids"].clone();
        assert_eq!(ids.as_array().unwrap().len(), 39, "of 40 positions the start token has one");
    }
}

/// A conversation into a full disk once ended as if all were well.
#[test]
#[cfg(target_os = "linux")]
fn answers_that_cannot_be_written_are_a_failure() {
    let input = folder("writing_full").join("said.txt");
    fs::write(&input, "the cat\nthe dog\n").unwrap();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut chat = command(&["chat", "--model", &model("talk"), "--max-new-tokens", "4"]);
    let output = chat.stdin(fs::File::open(&input).unwrap()).stdout(full()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot write the result"), "{err}");
}

/// All of these were once accepted, and did nothing.
#[test]
fn flags_that_would_do_nothing_are_refused() {
    let (story, languages, talk) = (model("story"), model("languages"), model("talk"));
    let several = ["--beams", "3", "--returns", "3", "The cat"];
    for verb in [["translate", &languages], ["summarize", &languages], ["chat", &talk]] {
        run(&[&[verb[0], "--model", verb[1]], &several[..]].concat()).refused_with("--returns 3", "generate");
    }
    run(&["translate", "--returns", "2", "Hello"]).refused_with("--returns 2", "generate");
    run(&["generate", "--model", &story, "--prefix", "once", "The cat"]).refused_with("prefix", "prompt");
    let ids = ["generate", "--model", &languages, "--source-ids", "5"];
    run(&[&ids[..], &["The cat"]].concat()).refused("cannot be used with");
    run(&[&ids[..], &["--file", "texts.txt"]].concat()).refused("cannot be used with");
    run(&["score", "--model", &languages, "--pairs", "no tab"])
        .refused_with("text 1: there is no tab", "tab");
    let texts = ["one\tpair", "no tab here"];
    run(&["classify", "--model", &model("classes"), "--pairs", texts[0], texts[1]])
        .refused_with("text 2: there is no tab", "--pairs");
}

#[test]
fn a_training_takes_instructions_from_the_command_and_precision_from_its_configuration() {
    let (_, here) = saved("writing_train", decoder());
    let here = Path::new(&here);
    fs::write(here.join("text.txt"), "the cat sat on the mat\n".repeat(40)).unwrap();
    let config = "out = \"run\"\nobjective = \"generate\"\nmodel.formula = \"formula.toml\"\n\
                  tokenizer.kind = \"characters\"\n[data]\ntrain = [{ path = \"text.txt\" }]\nheld_out = 0.1\n\
                  length = 12\n[batch]\ntokens = 64\n[schedule]\nsteps = 1\nrate = 1e-3\n";
    let path = here.join("train.toml");
    fs::write(&path, config).unwrap();
    let train = ["train", path.to_str().unwrap()];
    run(&[&train[..], &["--dtype", "bf16"]].concat()).refused_with("--dtype", "precision = \"bf16\"");
    let ran = run(&[&train[..], &["--isa", "scalar", "-v"]].concat());
    assert!(ran.err.contains("f32 with scalar"), "{}", ran.err);
    ran.ok();
}

#[test]
fn translating_needs_no_model() {
    assert_eq!(run(&["translate", "Hello", "😀", ""]).ok(), "你好\n😀\n\n");
    assert_eq!(run_with_input(&["translate"], b"Hello\n\nGood morning\n").ok(), "你好\n\n早上好\n");
    let json = outputs(&run(&["translate", "--model", "en-zh", "--json", "Hello"]).ok());
    assert_eq!(json[0]["text"], "你好");
}

/// A line from a pipe once waited until 256 were there, or the input ended.
#[test]
fn a_line_is_translated_before_the_next_one_comes() {
    let mut child = command(&["translate"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let (send, lines) = mpsc::channel();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|read| read > 0)
            && send.send(std::mem::take(&mut line)).is_ok()
        {}
    });
    for (text, translation) in [("Hello\n", "你好\n"), ("\n", "\n"), ("Good morning\r\n", "早上好\n")] {
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
        assert_eq!(lines.recv_timeout(Duration::from_secs(60)).as_deref(), Ok(translation));
    }
    input.write_all(b"Hello\nHello").unwrap(); // the last one has no end
    drop(input);
    let rest: String = lines.iter().collect();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("你好\n你好\n", Some(0)));
}

/// `--temperature` once drew the same text each time.
#[test]
fn texts_are_drawn_anew_unless_a_seed_is_given() {
    let (story, talk) = (model("story"), model("talk"));
    let flags = ["--temperature", "5", "--top-k", "0", "--max-new-tokens", "20"];
    for verb in [["generate", "--model", &story, "The cat"], ["chat", "--model", &talk, "the cat"]] {
        let draw = |more: &[&str]| run(&[&verb[..], &flags, more].concat());
        assert_ne!(draw(&[]).ok(), draw(&[]).ok());
        let told = draw(&["-v"]);
        let seed = told
            .err
            .split_once("--seed ")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .unwrap()
            .to_owned();
        assert_eq!(draw(&["--seed", &seed]).ok(), told.ok());
    }
    // Ids are for who checks numbers: they are drawn the same each time.
    let ids = [&["generate", "--model", &story, "--ids", "5 6"], &flags[..]].concat();
    assert_eq!(run(&ids).ok(), run(&ids).ok());
    let greedy = run(&["generate", "--model", &story, "The cat", "--max-new-tokens", "4", "-v"]);
    assert!(!greedy.err.contains("--seed"), "{}", greedy.err);
}

/// What is asked again after `/reset` is drawn again, and the same seed repeats the whole conversation.
#[test]
fn each_answer_of_a_conversation_is_drawn_for_itself() {
    let flags = ["--temperature", "5", "--top-k", "0", "--max-new-tokens", "20", "--seed", "3"];
    let talk = model("talk");
    let args = [&["chat", &talk], &flags[..]].concat();
    let said = run_with_input(&args, b"the cat\n/reset\nthe cat\n").ok();
    assert_eq!(run_with_input(&args, b"the cat\n/reset\nthe cat\n").ok(), said);
    let lines: Vec<&str> = said.lines().collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    assert_ne!(first, second);
}

/// `--to de` once gave Chinese.
#[test]
fn languages_that_a_model_does_not_know_are_refused() {
    assert_eq!(run(&["translate", "--from", "en", "--to", "Chinese", "Hello"]).ok(), "你好\n");
    for flags in [["--to", "de"], ["--to", "zh-Hant"], ["--from", "zh"], ["--from", "Klingon"]] {
        run(&["translate", flags[0], flags[1], "Hello"]).refused_with(flags[1], "en into zh");
    }
}

/// The model that the program carries as a folder, with this `tokenizer_config.json`.
fn pair(name: &str, tokenizer: &str) -> String {
    let here = folder(name);
    let carried = Path::new(env!("CARGO_MANIFEST_DIR")).join("../translator/model");
    for file in fs::read_dir(carried).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), here.join(file.file_name())).unwrap();
    }
    fs::write(here.join("tokenizer_config.json"), tokenizer).unwrap();
    here.to_str().unwrap().to_owned()
}

/// Many translate one language into one, have no tokens for them, and do not say which.
#[test]
fn languages_that_a_folder_does_not_say_are_refused() {
    let model = pair("writing_silent", r#"{"eos_token": "</s>"}"#);
    let translate = ["translate", "--model", &model, "Hello"];
    assert_eq!(run(&translate).ok(), "你好\n");
    for flags in [["--to", "de"], ["--from", "de"]] {
        run(&[&translate[..], &flags].concat()).refused_with("no tokens for languages", "leave out");
    }
}

/// Most say which ones, and who names those is right.
#[test]
fn languages_that_a_folder_says_it_translates_are_accepted() {
    let model = pair("writing_pair", r#"{"eos_token": "</s>", "source_lang": "en", "target_lang": "zho"}"#);
    let translate = ["translate", "--model", &model, "Hello"];
    assert_eq!(run(&[&translate[..], &["--from", "en", "--to", "zh"]].concat()).ok(), "你好\n");
    for (flags, why) in [(["--to", "de"], "writes"), (["--from", "zh"], "reads")] {
        run(&[&translate[..], &flags].concat()).refused_with(why, "en into zho");
    }
}

/// In `examples/`, where a folder `en-zh` holds what the model was trained by, translating once failed.
#[test]
fn a_folder_named_as_the_carried_model_is_meant_where_it_holds_one() {
    let here = folder("writing_shadow");
    let own = here.join("en-zh");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("formula.toml"), "").unwrap();
    let run = |args: &[&str]| finish(command(args).current_dir(&here));
    let named = ["translate", "--max-new-tokens", "4", "Hello", "--model", "en-zh"];
    assert_eq!(run(&["translate", "Hello"]).ok(), "你好\n");
    assert_eq!(run(&named).ok(), "你好\n");
    for file in fs::read_dir(model("languages")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), own.join(file.file_name())).unwrap();
    }
    fs::remove_file(own.join("formula.toml")).unwrap();
    assert_eq!(run(&["translate", "Hello"]).ok(), "你好\n");
    assert_ne!(run(&named).ok(), "你好\n");
}
