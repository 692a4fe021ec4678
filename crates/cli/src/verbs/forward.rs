//! `glassformer forward`: token ids in, tensors out. One of the two raw doors, for anyone who checks us.

use std::collections::BTreeMap;
use std::time::Instant;

use glassformer::formula::{Formula, Global, Input, Mix, Pattern};
use glassformer::graph::{Rows, Side};
use glassformer::{Forward, Sequence, Tensor, Trace, tasks, weights};

use crate::args::Forward as Args;
use crate::console::Console;
use crate::failure::Failure;
use crate::{ids, load};

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let checkpoint = load::checkpoint_for_ids(&load::path(args.model.given())?, console)?;
    let model = &checkpoint.model;
    let mut sequences = sequences(args, model.formula())?;
    let inputs = inputs(&sequences);
    for (index, sequence) in sequences.iter_mut().enumerate() {
        tasks::complete(sequence, &checkpoint).map_err(|error| error.counted_from(index))?;
    }
    let start = Instant::now();
    let mut tensors = BTreeMap::new();
    let backend = console.exact_backend();
    let forward = Forward::whole(model, &backend, &sequences)?;
    for name in forward.names() {
        for index in 0..sequences.len() {
            if let Some(tensor) = slice(&forward, name, index) {
                tensors.insert(format!("{index}.{name}"), tensor);
            }
        }
    }
    if args.trace {
        for (index, sequence) in sequences.iter().enumerate() {
            for traced in Trace::run(model, &backend, sequence)?.values() {
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
    for (flag, uses) in flags {
        if uses.len() > count {
            return Err(Failure::new(
                format!("{flag} is used {} times for {count} sequences", uses.len()),
                format!("the i-th {flag} belongs to the i-th --ids"),
            ));
        }
    }
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
    let typed =
        source.is_some_and(|side| matches!(&side.input, Input::Tokens(tokens) if tokens.types.is_some()));
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
    if !args.target_ids.is_empty() && (source.is_none() || formula.target.is_none()) {
        return refuse("--target-ids", "this model has one stack, and --ids is its input");
    }
    Ok(())
}

/// The part of the output `name` that belongs to sequence `index`.
fn slice(forward: &Forward, name: &str, index: usize) -> Option<Tensor> {
    let (shape, _, numbers) = forward.output(name)?;
    let rows = |side: Side| forward.span(side, index).map(|span| (span.start, span.len));
    let (start, len) = match shape.rows {
        Rows::Tokens(side) | Rows::Picked(side) => rows(side)?,
        Rows::Sequences(_) => (index, 1),
        Rows::Fixed(_)
        | Rows::Memory(_)
        | Rows::Recalled(_)
        | Rows::Low(..)
        | Rows::Distances(_)
        | Rows::Pairs(_) => return None,
    };
    let part = numbers.get(start * shape.width..(start + len) * shape.width)?;
    Tensor::new(&[len, shape.width], part.to_vec())
}
