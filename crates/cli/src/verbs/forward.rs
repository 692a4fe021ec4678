//! `glassformer forward`: token ids or texts in, tensors out. One of the two raw doors, for anyone who checks us.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use glassformer::engine::Output;
use glassformer::formula::{self, Formula, Global, Head, Mix, Pattern};
use glassformer::graph::{Rows, Side};
use glassformer::tasks::Input;
use glassformer::tokens::Special;
use glassformer::{Forward, Model, Sequence, Tensor, Trace, tasks, weights};

use crate::args::Forward as Args;
use crate::console::Console;
use crate::failure::Failure;
use crate::{ids, load};

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let path = load::path(args.model.given(), console)?;
    let Given { model, sequences, inputs } =
        if args.text.is_empty() { of_ids(args, &path, console)? } else { of_texts(args, &path, console)? };
    let start = Instant::now();
    let mut tensors = BTreeMap::new();
    let backend = console.exact_backend();
    let forward = Forward::whole(&model, &*backend, &sequences)?;
    for name in forward.names() {
        let Some(output) = forward.output(name)? else { continue };
        for index in 0..sequences.len() {
            if let Some(tensor) = slice(&forward, &output, index) {
                tensors.insert(format!("{index}.{name}"), tensor);
            }
        }
    }
    if args.trace {
        for (index, sequence) in sequences.iter().enumerate() {
            for traced in Trace::run(&model, &*backend, sequence)?.values() {
                tensors.insert(format!("{index}.{}", traced.name), traced.tensor.clone());
            }
        }
    }
    console.detail(|| format!("ran {} sequences in {:.0?}", sequences.len(), start.elapsed()));
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    weights::save(&args.out, named, &inputs)?;
    console.note(&format!("wrote {} tensors to {}", tensors.len(), args.out.display()));
    Ok(())
}

/// What runs, and what of it stands beside the tensors.
struct Given {
    model: Model,
    sequences: Vec<Sequence>,
    inputs: BTreeMap<String, String>,
}

fn of_ids(args: &Args, path: &Path, console: &Console) -> Result<Given, Failure> {
    let checkpoint = load::checkpoint_for_ids(path, console)?;
    let mut sequences = sequences(args, checkpoint.model.formula())?;
    let inputs = inputs(&sequences);
    for (index, sequence) in sequences.iter_mut().enumerate() {
        tasks::complete(sequence, &checkpoint).map_err(|error| error.counted_from(index))?;
    }
    Ok(Given { model: checkpoint.model, sequences, inputs })
}

/// Texts as the model's tokenizer and its files say.
fn of_texts(args: &Args, path: &Path, console: &Console) -> Result<Given, Failure> {
    let count = args.text.len();
    belong("--text", count, &[("--second", args.second.len()), ("--target-text", args.target_text.len())])?;
    belong("--text", count, &[("--target-ids", args.target_ids.len())])?;
    let encoder = load::exact_encoder(path, console)?;
    let formula = encoder.checkpoint().model.formula();
    refuse_unused(args, formula)?;
    let writes = formula.source.is_some()
        && formula.target.is_some()
        && matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. } | Head::Rows);
    let start = tasks::decoding(path, encoder.checkpoint())?.start;
    let sequence = |(index, text): (usize, &String)| {
        let input = args.second.get(index).map_or(Input::One(text), |second| Input::Pair(text, second));
        let (_, mut sequence) = encoder.read(input).map_err(|error| error.counted_from(index))?;
        if let Some(ids) = args.target_ids.get(index) {
            sequence.target = ids::parse("--target-ids", ids)?;
        } else if writes {
            let start = start.ok_or_else(|| {
                Failure::new(
                    "the model's files do not say what a target begins with",
                    "give the ids of a target with --target-ids",
                )
            })?;
            let text = args.target_text.get(index);
            let told =
                text.map(|text| encoder.tokenizer().encode_target(text, Special::Leave)).transpose()?;
            sequence.target = std::iter::once(start).chain(told.unwrap_or_default().ids).collect();
        }
        Ok(sequence)
    };
    let sequences = args.text.iter().enumerate().map(sequence).collect::<Result<Vec<_>, Failure>>()?;
    for (index, sequence) in sequences.iter().enumerate() {
        console
            .detail(|| format!("sequence {index}: {} ids", sequence.source.len().max(sequence.target.len())));
    }
    let inputs = inputs(&sequences);
    Ok(Given { model: encoder.checkpoint().model.clone(), sequences, inputs })
}

/// Refuses more uses of a flag than there are sequences.
fn belong(of: &str, count: usize, flags: &[(&str, usize)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, uses)| *uses > count) {
        None => Ok(()),
        Some((flag, uses)) => Err(Failure::new(
            format!("{flag} is used {uses} times for {count} sequences"),
            format!("the i-th {flag} belongs to the i-th {of}"),
        )),
    }
}

/// What was given, as text beside the tensors, so that the file alone is enough to run the same again.
fn inputs(sequences: &[Sequence]) -> BTreeMap<String, String> {
    let text = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let mut inputs = BTreeMap::new();
    for (index, sequence) in sequences.iter().enumerate() {
        let (ids, target) = if sequence.source.is_empty() {
            (&sequence.target, &sequence.source)
        } else {
            (&sequence.source, &sequence.target)
        };
        let global: Vec<u32> = sequence.global.iter().map(|&place| place as u32).collect();
        let lists = [("ids", ids), ("target_ids", target), ("types", &sequence.types), ("global", &global)];
        for (name, numbers) in lists.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
            inputs.insert(format!("{index}.{name}"), text(numbers));
        }
    }
    inputs
}

/// The sequences of the command line: the i-th use of each flag belongs to sequence i.
fn sequences(args: &Args, formula: &Formula) -> Result<Vec<Sequence>, Failure> {
    let count = args.ids.len();
    let flags = [("--target-ids", &args.target_ids), ("--types", &args.types), ("--global", &args.global)];
    belong("--ids", count, &flags.map(|(flag, uses)| (flag, uses.len())))?;
    refuse_unused(args, formula)?;
    let all = |flag: &str, uses: &[String]| -> Result<Vec<Vec<u32>>, Failure> {
        uses.iter().map(|text| ids::parse(flag, text)).collect()
    };
    let globals: Vec<Vec<usize>> =
        args.global.iter().map(|text| ids::parse("--global", text)).collect::<Result<_, _>>()?;
    let given = all("--ids", &args.ids)?;
    let targets = all("--target-ids", &args.target_ids)?;
    let types = all("--types", &args.types)?;
    let sequence = |(index, ids): (usize, Vec<u32>)| {
        let types = types.get(index).cloned().unwrap_or_default();
        if !types.is_empty() && types.len() != ids.len() {
            return Err(Failure::new(
                format!("sequence {index} has {} types for {} ids", types.len(), ids.len()),
                "give one type for each id",
            ));
        }
        let target = targets.get(index).cloned().unwrap_or_default();
        let (source, target) = if formula.source.is_some() { (ids, target) } else { (Vec::new(), ids) };
        let global = globals.get(index).cloned().unwrap_or_default();
        Ok(Sequence { source, target, types, global, ..Sequence::default() })
    };
    given.into_iter().enumerate().map(sequence).collect()
}

/// Refuses flags that this model would silently ignore.
fn refuse_unused(args: &Args, formula: &Formula) -> Result<(), Failure> {
    let refuse =
        |flag: &str, why: &str| Err(Failure::new(format!("{flag}: {why}"), format!("leave {flag} out")));
    let source = formula.source.as_ref();
    let typed = source
        .is_some_and(|side| matches!(&side.input, formula::Input::Tokens(tokens) if tokens.types.is_some()));
    let global = |mix: &Mix| match mix {
        Mix::Attend(attention) => match attention.pattern {
            Pattern::Sliding { global, .. } => global != Global::None,
            Pattern::Dense | Pattern::LowRank { .. } => false,
        },
        Mix::Feed(_) => false,
    };
    let globally = source.is_some_and(|side| side.stack.block.iter().any(|sublayer| global(&sublayer.mix)));
    if !args.types.is_empty() && !typed {
        return refuse("--types", "this model has no token types");
    }
    if !args.global.is_empty() && !globally {
        return refuse("--global", "this model has no global attention");
    }
    if !args.target_text.is_empty() && (source.is_none() || formula.target.is_none()) {
        return refuse("--target-text", "this model has one stack, and --text is its input");
    }
    if !args.target_ids.is_empty() && (source.is_none() || formula.target.is_none()) {
        return refuse("--target-ids", "this model has one stack, and --ids is its input");
    }
    Ok(())
}

/// The part of `output` that belongs to sequence `index`.
fn slice(forward: &Forward, output: &Output<'_>, index: usize) -> Option<Tensor> {
    let Output { shape, numbers, .. } = output;
    let rows = |side: Side| forward.span(side, index).map(|span| (span.start, span.len));
    let (start, len) = match shape.rows {
        Rows::Tokens(side) | Rows::Picked(side) => rows(side)?,
        Rows::Sequences(_) => (index, 1),
        Rows::Fixed(_)
        | Rows::Memory(_)
        | Rows::Recalled(_)
        | Rows::Remembered(..)
        | Rows::Low(..)
        | Rows::Distances(_)
        | Rows::Pairs(_) => return None,
    };
    let part = numbers.get(start * shape.width..(start + len) * shape.width)?;
    Tensor::new(&[len, shape.width], part.to_vec())
}
