//! `glassformer generate`: the most likely token at each step. One of the two raw doors, for anyone who checks us.

use std::time::Instant;

use glassformer::formula::{Formula, Position};
use glassformer::{Finish, Generated, Generator, Request, Room, Stop};

use crate::args::Generate as Args;
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::{ids, load};

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let model = load::model(&args.model, console)?;
    let request = request(args, model.formula())?;
    let stop = Stop { end: args.end, max_new_tokens: args.max_new_tokens as usize };
    let longest = request.prompt.len() + stop.max_new_tokens;
    check_positions(model.formula(), request.prompt.len(), longest)?;
    let room = Room { sequences: 1, source: request.source.len(), target: longest };
    let start = Instant::now();
    let generator = Generator::new(&model, &console.backend(), room)?;
    let outputs = generator.greedy(&[request], stop)?;
    console.detail(|| format!("generated in {:.0?}", start.elapsed()));
    if args.json {
        return result(&format!("{}\n", json(&outputs)));
    }
    for output in &outputs {
        let ids: Vec<String> = output.ids.iter().map(u32::to_string).collect();
        result(&format!("{}\n", ids.join(" ")))?;
        console.note(match output.finish {
            Finish::Eos => "ended by the end token",
            Finish::Length => "ended by --max-new-tokens",
        });
    }
    Ok(())
}

/// What the ids of the command line are: a source, or the beginning of a target.
fn request(args: &Args, formula: &Formula) -> Result<Request, Failure> {
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
    if formula.source.is_none() && !source.is_empty() {
        return Err(Failure::new(
            "--source-ids: this model has no encoder",
            "give the prompt as --ids and leave --source-ids out",
        ));
    }
    if formula.source.is_some() && args.start.is_none() {
        return Err(Failure::new(
            "an encoder-decoder begins to write with its start token, and --start is missing",
            "add --start ID",
        ));
    }
    let (source, begin) = match (formula.source.is_some(), source.is_empty()) {
        (true, true) => (given, Vec::new()),
        (true, false) | (false, _) => (source, given),
    };
    let prompt = args.start.into_iter().chain(begin).collect();
    Ok(Request { source, prompt })
}

/// Refuses a text longer than the table of positions before anything is computed.
fn check_positions(formula: &Formula, prompt: usize, longest: usize) -> Result<(), Failure> {
    let position = formula.target.as_ref().map(|side| &side.stack.position);
    match position {
        Some(Position::Learned { max, .. }) if longest > *max => {
            let room = max.saturating_sub(prompt);
            Err(Failure::new(
                format!("the text may grow to {longest} tokens, and the model has {max} positions"),
                if room == 0 {
                    "shorten the prompt".to_owned()
                } else {
                    format!("use --max-new-tokens {room} or less")
                },
            ))
        }
        _ => Ok(()),
    }
}

/// The results, as the design's raw door promises them. Text needs a tokenizer and a score beams: both come later.
fn json(outputs: &[Generated]) -> serde_json::Value {
    let output = |generated: &Generated| {
        let finish = match generated.finish {
            Finish::Eos => "eos",
            Finish::Length => "length",
        };
        serde_json::json!({ "ids": generated.ids, "text": null, "score": null, "finish": finish })
    };
    serde_json::json!({ "schema": 1, "outputs": outputs.iter().map(output).collect::<Vec<_>>() })
}
