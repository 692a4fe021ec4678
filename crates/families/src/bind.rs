//! Rules applied to a file: our parameters, read through their tensors when they are asked for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::slice;

use glassformer_formula::{Depth, Formula};
use glassformer_graph::Constants;
use glassformer_model::{Parameter, Source, parameters};
use glassformer_tensor::{Coded, Halves};
use glassformer_weights::{Dtype, View, Weights, scheme};

use crate::{Error, Family, How, Rule};

/// Weights of a file under our names. Nothing is copied before it is read.
#[derive(Debug)]
pub struct Bound {
    weights: Weights,
    parameters: BTreeMap<String, (String, How, Vec<usize>)>,
}

impl Bound {
    /// Finds every parameter of `formula`, which is the family's or a part of it, in `weights`.
    ///
    /// # Errors
    /// All tensors that are missing, of another shape, or used by nothing.
    pub fn new(formula: &Formula, family: &Family, weights: Weights) -> Result<Self, Error> {
        shallow(formula, &weights)?;
        let mut problems = Vec::new();
        let mut used = BTreeSet::new();
        let mut bound = BTreeMap::new();
        for Parameter { name, shape } in parameters(formula)? {
            match find(&family.rules, family.prefixes, &name, &weights) {
                Err(expected) => problems.push(format!("{expected} is missing (our {name}, {shape:?})")),
                Ok((theirs, how)) => {
                    let found = weights.shape(&theirs).unwrap_or_default();
                    let found = match found {
                        [1, length] if how == How::Same && shape.len() == 1 => slice::from_ref(length),
                        _ => found,
                    };
                    if reshaped(found, how).as_deref() != Some(&shape[..]) {
                        let cause = if found.iter().rev().eq(shape.iter()) {
                            "transposed?"
                        } else {
                            "another configuration?"
                        };
                        problems.push(format!(
                            "{theirs} is {found:?}, which gives no {shape:?} for our {name}: {cause}"
                        ));
                    }
                    if let Some(dtype) = counts(&weights, &theirs) {
                        problems
                            .push(format!("{theirs} holds {dtype}, which are whole numbers and no weights"));
                    }
                    used.insert(theirs.clone());
                    bound.insert(name, (theirs, how, shape));
                }
            }
        }
        // What a larger formula of the family would use is no surprise: a head or a stack that is left out.
        if *formula != family.formula {
            let names = parameters(&family.formula)?.into_iter().map(|parameter| parameter.name);
            let theirs = names.filter_map(|name| find(&family.rules, family.prefixes, &name, &weights).ok());
            used.extend(theirs.map(|(theirs, _)| theirs));
        }
        let unused = weights.names().filter(|name| !used.contains(*name) && !family.may_skip(name));
        problems.extend(unused.map(|name| format!("{name} is used by nothing: is the head another one?")));
        if problems.is_empty() {
            Ok(Self { weights, parameters: bound })
        } else {
            Err(Error::Tensors(problems))
        }
    }
}

/// Refuses more layers than the file has tensors, before every one of their parameters is looked for.
fn shallow(formula: &Formula, weights: &Weights) -> Result<(), Error> {
    let own = |depth| match depth {
        Depth::Layers(layers) => layers,
        Depth::Groups { groups, .. } => groups,
        Depth::Shared { .. } | Depth::Adaptive { .. } => 1,
    };
    let sides = [&formula.source, &formula.target].into_iter().flatten();
    let layers = sides.map(|side| own(side.stack.depth)).fold(0, usize::saturating_add);
    let tensors = weights.names().count();
    if layers <= tensors {
        return Ok(());
    }
    Err(Error::Tensors(vec![format!(
        "it has {layers} layers, and the weights have {tensors} tensors in all"
    )]))
}

/// Whether the formula's head has parameters of its own, and the file has none of them.
pub(crate) fn lacks_head(family: &Family, weights: &Weights) -> Result<bool, Error> {
    shallow(&family.formula, weights)?;
    let all = parameters(&family.formula)?;
    let mut head = all.iter().filter(|parameter| parameter.name.starts_with("head.")).peekable();
    let missing = |name: &str| find(&family.rules, family.prefixes, name, weights).is_err();
    Ok(head.peek().is_some() && head.all(|parameter| missing(&parameter.name)))
}

/// The type of a tensor's numbers where they are whole and nothing scales them.
fn counts(weights: &Weights, name: &str) -> Option<&'static str> {
    let view = weights.get(name)?;
    let dtype = view.dtype();
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::Blocks(_) => None,
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => view.row_scales().is_none().then(|| dtype.name()),
        Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 | Dtype::Bool => Some(dtype.name()),
    }
}

/// Whether the tensors have our names already, as those that `quantize` wrote.
pub(crate) fn has_our_names(weights: &Weights) -> bool {
    weights.metadata().get(scheme::NAMES).is_some_and(|names| names == scheme::OURS)
}

/// Their name of our parameter `name`, with one of the prefixes or none; or the name that it should have.
pub(crate) fn find(
    rules: &[Rule],
    prefixes: &[&str],
    name: &str,
    weights: &Weights,
) -> Result<(String, How), String> {
    if has_our_names(weights) {
        let there = weights.shape(name).is_some();
        return if there { Ok((name.to_owned(), How::Same)) } else { Err(name.to_owned()) };
    }
    let mut expected = None;
    for rule in rules {
        let Some(theirs) = rule.theirs(name) else { continue };
        for prefix in prefixes.iter().chain(&[""]) {
            let full = format!("{prefix}{theirs}");
            if weights.shape(&full).is_some() {
                return Ok((full, rule.how));
            }
            expected.get_or_insert(full);
        }
    }
    Err(expected.unwrap_or_else(|| format!("a tensor for {name}")))
}

/// The shape of a tensor after `how`, if it can be done. Vectors may be stored as `[1, n]`.
fn reshaped(shape: &[usize], how: How) -> Option<Vec<usize>> {
    let part = |size: usize, of: usize| (of > 0 && size.is_multiple_of(of)).then(|| size / of);
    Some(match (how, shape) {
        (How::Same | How::PlusOne, shape) => shape.to_vec(),
        (How::Flattened, shape) => vec![shape.iter().product()],
        (How::RowMore(_), [rows, rest @ ..]) => [&[rows.checked_add(1)?], rest].concat(),
        (How::Noughts, [rows, ..]) => vec![*rows],
        (How::NoughtsThen(_), [rows, ..]) => vec![rows.checked_add(1)?],
        (How::Transposed, [rows, columns]) => vec![*columns, *rows],
        (How::Part { of, .. }, [rows, rest @ ..]) => [&[part(*rows, of)?], rest].concat(),
        (How::Rows { from, to }, [rows, rest @ ..]) if from <= to && to <= *rows => {
            [&[to - from], rest].concat()
        }
        (How::TransposedPart { of, .. }, [rows, columns]) => vec![part(*columns, of)?, *rows],
        (How::TransposedPart { of, .. }, [columns]) => vec![part(*columns, of)?],
        (How::HeadPart { heads, of, .. }, [rows, rest @ ..]) => {
            [&[part(part(*rows, heads)?, of)? * heads], rest].concat()
        }
        _ => return None,
    })
}

impl Bound {
    /// The tensor that the weight `name` is rows of, and which, where it is nothing else.
    fn rows(&self, name: &str) -> Option<(View<'_>, Range<usize>)> {
        let (theirs, how, _) = self.parameters.get(name)?;
        let view = self.weights.get(theirs)?;
        let rows = *view.shape().first()?;
        let range = match *how {
            How::Same => 0..rows,
            How::Part { part, of } => part * (rows / of)..(part + 1) * (rows / of),
            How::Rows { from, to } => from..to,
            How::Flattened
            | How::PlusOne
            | How::Noughts
            | How::NoughtsThen(_)
            | How::RowMore(_)
            | How::Transposed
            | How::TransposedPart { .. }
            | How::HeadPart { .. } => return None,
        };
        Some((view, range))
    }
}

impl Constants for Bound {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        let (theirs, how, _) = self.parameters.get(name)?;
        let view = self.weights.get(theirs)?;
        let (rows, columns) = match view.shape() {
            [rows, rest @ ..] => (*rows, rest.iter().product::<usize>()),
            [] => (1, 1),
        };
        let part = |part: usize, of: usize| view.rows(part * (rows / of)..(part + 1) * (rows / of));
        Some(match *how {
            How::Same | How::Flattened => view.values(),
            How::PlusOne => view.values().iter().map(|x| x + 1.0).collect(),
            How::Noughts => vec![0.0; rows].into(),
            How::NoughtsThen(last) => (0..rows).map(|_| 0.0).chain([last]).collect(),
            How::RowMore(value) => {
                let mut longer = view.values().into_owned();
                longer.resize(longer.len() + columns, value);
                Cow::Owned(longer)
            }
            How::Part { part: number, of } => part(number, of)?,
            How::Rows { from, to } => view.rows(from..to)?,
            How::Transposed => transposed(&view.values(), (rows, columns), (0, columns)),
            How::TransposedPart { part: number, of } if view.shape().len() == 1 => part(number, of)?,
            How::TransposedPart { part, of } => {
                let range = (part * (columns / of), (part + 1) * (columns / of));
                transposed(&view.values(), (rows, columns), range)
            }
            How::HeadPart { heads, part, of } => {
                let size = rows / heads / of;
                let start = |head: usize| (head * of + part) * size;
                let mut all = Vec::with_capacity(heads * size * columns);
                for head in 0..heads {
                    all.extend_from_slice(&view.rows(start(head)..start(head) + size)?);
                }
                Cow::Owned(all)
            }
        })
    }

    fn halves(&self, name: &str) -> Option<Halves<'_>> {
        let (view, rows) = self.rows(name)?;
        view.halves(rows)
    }

    fn coded(&self, name: &str) -> Option<Box<dyn Coded + '_>> {
        let (view, rows) = self.rows(name)?;
        Some(Box::new(view.coded(rows)?))
    }
}

/// Columns and rows of a square that is turned at once.
const SQUARE: usize = 16;

/// Columns `from..to` of a matrix as rows.
fn transposed(
    values: &[f32],
    (rows, columns): (usize, usize),
    (from, to): (usize, usize),
) -> Cow<'static, [f32]> {
    let mut turned = vec![0.0; (to - from) * rows];
    // Square by square: a line of the cache is read and written as a whole.
    for left in (from..to).step_by(SQUARE) {
        for top in (0..rows).step_by(SQUARE) {
            for column in left..(left + SQUARE).min(to) {
                for row in top..(top + SQUARE).min(rows) {
                    turned[(column - from) * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    Cow::Owned(turned)
}

impl Source for Bound {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.parameters.get(name).map(|(_, _, shape)| shape.clone())
    }

    fn names(&self) -> Vec<String> {
        self.parameters.keys().cloned().collect()
    }
}
