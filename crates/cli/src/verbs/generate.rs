//! `glassformer generate`: token ids in, token ids out. One of the two raw doors, for anyone who checks us.

use std::time::Instant;

use glassformer::formula::Formula;
use glassformer::tokens::{SpecialText, Tokenizer};
use glassformer::{Decoding, Finish, Generated, Generator, Model, Request, Room, tasks};

use crate::args::Generate as Args;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::outputs::Wrote;
use crate::{ids, load, models};

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    if args.ids.is_none() && args.source_ids.is_none() {
        return super::write::generate(args, console);
    }
    if args.form.read()?.is_some() {
        return Err(Failure::new(
            "--ids: a form is one of texts, and ids have none",
            "give the text itself, or leave out --schema, --json-object, --regex and --grammar",
        ));
    }
    let path = load::path(args.model.given(), console)?;
    let checkpoint = load::checkpoint(&path, console)?;
    let mut decoding = tasks::decoding(&path, &checkpoint)?;
    args.decode.apply(&mut decoding)?;
    decoding.start = args.start.or(decoding.start);
    if let Some(end) = args.end {
        decoding.end = vec![end];
    }
    decoding.logprobs = args.logprobs.then_some(0);
    if let Some(problem) = decoding.check().into_iter().next() {
        return Err(Failure::new(problem.what, problem.hint));
    }
    let model = checkpoint.model;
    let requests = vec![request(args, model.formula(), decoding)?];
    let room = Room::of(model.formula(), &requests, 1);
    let start = Instant::now();
    let prepare = |model: &Model| Generator::new(model, &*console.exact_backend(), room);
    let mut generator = prepare(&model)?;
    if let Some(small) = args.decode.draft_model() {
        let small = load::checkpoint(&models::locate(small, console)?, console)?.model;
        generator = generator.with_draft_model(&prepare(&small)?)?;
    }
    let outputs = generator.run(requests)?.into_iter().next().unwrap_or_default();
    console.detail(|| format!("generated in {:.0?}", start.elapsed()));
    if args.json {
        let tokenizer = tasks::tokenizer(&path).ok();
        return result(&format!("{}\n", json(&outputs, tokenizer.as_ref())));
    }
    for output in &outputs {
        let ids: Vec<String> = output.ids.iter().map(u32::to_string).collect();
        result(&format!("{}\n", ids.join(" ")))?;
        console.note(match output.finish {
            Finish::Eos => "ended by the end token",
            Finish::Length => "ended by --max-new-tokens",
            Finish::Stop => "ended by a stop sequence",
        });
    }
    Ok(())
}

/// What the ids of the command line are: a source, or the beginning of a target.
fn request(args: &Args, formula: &Formula, decoding: Decoding) -> Result<Request, Failure> {
    let parse = |flag: &str, text: Option<&String>| -> Result<Vec<u32>, Failure> {
        text.map_or(Ok(Vec::new()), |text| ids::parse(flag, text))
    };
    let given = parse("--ids", args.ids.as_ref())?;
    let source = parse("--source-ids", args.source_ids.as_ref())?;
    if formula.target.is_none() {
        return Err(Failure::new(
            "this model has no decoder, and only a decoder generates",
            "use `glassformer forward` for what an encoder computes",
        ));
    }
    if formula.source.is_none() {
        if !source.is_empty() {
            return Err(Failure::new(
                "--source-ids: this model has no encoder",
                "give the prompt as --ids and leave --source-ids out",
            ));
        }
        let prompt = args.start.into_iter().chain(given).collect();
        let negative = parse("--negative", args.negative.as_ref())?;
        return Ok(Request { negative, ..Request::prompt(prompt, decoding) });
    }
    if args.negative.is_some() {
        return Err(Failure::new(
            "--negative: this model has an encoder",
            "guidance is for models of a decoder alone",
        ));
    }
    if decoding.start.is_none() {
        return Err(Failure::new(
            "an encoder-decoder begins to write with its start token, and --start is missing",
            "add --start ID",
        ));
    }
    let (source, begin) = if source.is_empty() { (given, Vec::new()) } else { (source, given) };
    Ok(Request::source(source, &begin, decoding)?)
}

/// The results, as the design's raw door promises them; text where the folder has a tokenizer.
fn json(outputs: &[Generated], tokenizer: Option<&Tokenizer>) -> serde_json::Value {
    let output = |generated: &Generated| {
        let text = tokenizer.and_then(|tokenizer| tokenizer.decode(&generated.ids, SpecialText::Skip).ok());
        let Generated { ids, score, finish, logprobs, .. } = generated;
        Wrote { ids, text: text.as_deref(), score: *score, finish: *finish, logprobs }.json()
    };
    serde_json::json!({ "schema": 1, "outputs": outputs.iter().map(output).collect::<Vec<_>>() })
}
