//! What a request must be before it may wait: whatever is wrong is said at once, and of that request alone.

use glassformer_graph::PAGE;

use crate::generate::{Prepared, Reading};
use crate::{Error, Request};

/// What is wrong, and what to do.
type Refusal = (String, String);

fn refuse<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, Refusal> {
    Err((what.into(), hint.into()))
}

/// Refuses `given`, which would be request number `request`, if it cannot be answered.
pub(crate) fn admit(prepared: &Prepared, request: usize, given: &Request) -> Result<(), Error> {
    let checks = [options, sides, guidance, constraint, lengths, ids, memory];
    for check in checks {
        check(prepared, given).map_err(|(what, hint)| Error::Request { request, what, hint })?;
    }
    Ok(())
}

fn options(_: &Prepared, given: &Request) -> Result<(), Refusal> {
    let problems = given.decoding.check();
    let Some(first) = problems.first() else { return Ok(()) };
    let all: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
    refuse(all.join("; "), first.hint.clone())
}

fn sides(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    if given.prompt.is_empty() {
        return refuse("its prompt is empty", "begin with the start token");
    }
    match given.source_rows(&prepared.formula) {
        Ok(_) => Ok(()),
        Err(what) => refuse(what, "give a source exactly where the model has an encoder"),
    }
}

/// A guided sequence is compared with one without the prompt. For encoder-decoders the reference fails (T5, Marian), or lets the
/// encoder read what the decoder wrote (BART), so they are refused. Both sequences are read up to their last token first.
fn guidance(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    if !given.decoding.is_guided() {
        return match given.negative.len() {
            0 => Ok(()),
            _ => {
                refuse("its negative prompt changes nothing with a guidance of 1", "give a guidance above 1")
            }
        };
    }
    if prepared.encode.is_some() {
        return refuse("guidance is for decoders alone, and this model has an encoder", "leave guidance out");
    }
    match prepared.reading {
        Reading::Pieces => Ok(()),
        Reading::AsWritten => refuse(
            "guidance reads a prompt in pieces, which changes what this model makes of it",
            "leave guidance out",
        ),
    }
}

/// A text of a form ends when the form is complete, and it says so by an end token.
fn constraint(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    let ends = given.decoding.end.iter().any(|&end| (end as usize) < prepared.limits.scores);
    if given.constraint.is_some() && !ends {
        return refuse(
            "a text of a form ends with an end token, and this model has none",
            "give an end token",
        );
    }
    Ok(())
}

/// How many rows its source has.
fn source(prepared: &Prepared, given: &Request) -> usize {
    given.source_rows(&prepared.formula).unwrap_or(0)
}

fn lengths(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    let (prompt, room) = (given.prompt.len(), prepared.room);
    let source = source(prepared, given);
    if source > room.source {
        return refuse(
            format!("its source has {source} tokens, the room is {}", room.source),
            "shorten it or prepare more room",
        );
    }
    let [source_positions, positions] = prepared.limits.positions;
    if source > source_positions {
        return refuse(
            format!("its source has {source} tokens, and the model has {source_positions} positions"),
            "shorten it",
        );
    }
    let longest = given.decoding.longest(prompt);
    if prompt >= longest {
        return refuse(
            format!("its prompt has {prompt} tokens, and {longest} are all that it may grow to"),
            "shorten the prompt or allow more tokens",
        );
    }
    let compared = given.negative().len().saturating_add(longest - prompt);
    if !given.negative().is_empty() && compared > positions.min(room.target) {
        return refuse(
            format!(
                "behind its negative prompt it may grow to {compared} tokens, and there are {positions} positions"
            ),
            "shorten the negative prompt, or ask for fewer tokens",
        );
    }
    if longest > positions {
        return refuse(
            format!("the text may grow to {longest} tokens, and the model has {positions} positions"),
            match positions.saturating_sub(prompt) {
                0 => "shorten the prompt".to_owned(),
                room => format!("use --max-new-tokens {room} or less"),
            },
        );
    }
    if longest > room.target {
        return refuse(
            format!("it may grow to {longest} tokens, the room is {}", room.target),
            "ask for less",
        );
    }
    Ok(())
}

fn ids(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    let [source, target] = prepared.limits.vocabularies;
    let lists = [
        ("source", &given.source, source),
        ("target", &given.prompt, target),
        ("target", &given.negative, target),
    ];
    for (name, ids, rows) in lists {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= rows) {
            return refuse(
                format!("id {id} of its {name} is beyond the {rows} rows of {name}.embed.tokens"),
                "use ids of this model's vocabulary",
            );
        }
    }
    let decoding = &given.decoding;
    let runs = decoding.bad_words.iter().chain(decoding.sequence_bias.iter().map(|(run, _)| run)).flatten();
    let named = runs.chain(&decoding.forced_first).chain(&decoding.forced_last);
    let scores = prepared.limits.scores;
    if let Some(id) = named.copied().find(|&id| id as usize >= scores) {
        return refuse(
            format!("id {id} is forced or banned, and the model writes {scores} different tokens"),
            "use ids of this model's vocabulary",
        );
    }
    Ok(())
}

fn memory(prepared: &Prepared, given: &Request) -> Result<(), Refusal> {
    let room = prepared.room;
    let width = given.decoding.width();
    if width > room.sequences {
        return refuse(
            format!("it runs {width} sequences at once, the room is {}", room.sequences),
            "use fewer beams or prepare more room",
        );
    }
    // Full pages of the prompt are shared; all others may become each sequence's own.
    let shared = (prepared.zeros + given.prompt.len()) / PAGE;
    let longest = (prepared.zeros + given.decoding.longest(given.prompt.len())).div_ceil(PAGE);
    let need = if given.decoding.is_guided() {
        // Of what is compared with nothing is shared once it was read again.
        width * (prepared.zeros + given.longest()).div_ceil(PAGE)
    } else {
        shared + width * (longest - shared)
    };
    let source = source(prepared, given).div_ceil(PAGE);
    for (need, have) in [(need, room.pages), (source, room.source_pages)] {
        if need > have {
            return refuse(
                format!("it may need {need} pages for keys and values, and there are {have}"),
                "ask for fewer tokens or beams, or prepare more pages",
            );
        }
    }
    Ok(())
}
