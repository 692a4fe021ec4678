//! A run with edits.
//!
//! Each edited value becomes an input of the graph ([`glassformer_graph::edit`]), so every backend has edits, and what is not edited
//! keeps its bits. Values are edited in the order of computation: a later edit sees what earlier ones changed.
//!
//! Scores and probabilities of an attention live inside of one operation. Where they are edited, rows of heads that changed are mixed
//! anew, in `f64`, from the values of the run; all others are the attention's own.

use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use glassformer_engine::{Forward, Named, Sequence};
use glassformer_graph::edit::{self, Edit as Change};
use glassformer_graph::{Backend, Builder, Graph, Op, Origin, Side, given, tap};
use glassformer_model::{Model, Purpose};
use glassformer_tensor::Tensor;

use super::edit::{Cut, Edit, Edits, From, Stack, With};
use super::stack;
use crate::trace::{self, Given, edited_name, with_probabilities};
use crate::{Error, Likely, Trace, Traced};

/// Reads another text for a patch, as the model reads it: the text, and its second one.
pub type Others<'o> = &'o dyn Fn(&str, Option<&str>) -> Result<Sequence, Error>;

/// What a value is changed to.
#[derive(Clone, Debug)]
enum Act {
    Fill {
        columns: Range<usize>,
        with: With,
    },
    Scale {
        by: f32,
        rows: Option<Vec<usize>>,
        columns: Option<[usize; 2]>,
    },
    Patch {
        rows: Option<Vec<usize>>,
        columns: Option<[usize; 2]>,
        from: From,
    },
    /// Keys that a query of a head no longer looks at.
    Cut(Cut),
}

/// A run of `model` over `sequence` with `edits`, every value of it; `others` reads the texts that patches come from.
///
/// # Errors
/// If an edit is of something that is not there; the error names the nearest. If the model cannot run.
pub fn edited(
    model: &Model,
    backend: &dyn Backend,
    (sequence, likely): (&Sequence, Likely),
    edits: &Edits,
    others: Others<'_>,
) -> Result<Trace, Error> {
    let plain = with_probabilities(&*model.graph(Purpose::Whole)?, likely)?;
    let context = Context { model, backend, sequence, plain: &plain, others };
    let mut acts: BTreeMap<usize, (String, Vec<Act>)> = BTreeMap::new();
    for edit in &edits.edits {
        for (value, act) in context.resolve(edit)? {
            let (name, place) = context.place(&value)?;
            acts.entry(place).or_insert_with(|| (name, Vec::new())).1.push(act);
        }
    }
    let mut graph = plain.clone();
    let mut done: Vec<Traced> = Vec::new();
    for (value, acts) in acts.into_values() {
        let made = context.apply(&graph, &done, &value, &acts)?;
        for traced in made {
            if graph.value(&traced.name).is_ok() {
                graph = edit::edit(&graph, &traced.name, &Change::Replace(edited_name(&traced.name)))?;
            }
            // What is edited twice is what it became last.
            done.retain(|known| known.name != traced.name);
            done.push(traced);
        }
    }
    Trace::over(model, backend, sequence, Given { graph, likely, edited: done })
}

struct Context<'c> {
    model: &'c Model,
    backend: &'c dyn Backend,
    sequence: &'c Sequence,
    /// The graph without edits.
    plain: &'c Graph,
    others: Others<'c>,
}

/// What of an attention's inside is edited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Scores,
    Shares,
}

impl Context<'_> {
    fn side(&self, side: Option<Stack>) -> Side {
        match side {
            Some(Stack::Source) => Side::Source,
            Some(Stack::Target) => Side::Target,
            None => stack::last_side(self.plain),
        }
    }

    /// Which values an edit changes, and how.
    fn resolve(&self, edit: &Edit) -> Result<Vec<(String, Act)>, Error> {
        let beyond = |what: &'static str, asked: usize, there: usize| {
            if asked < there {
                Ok(())
            } else {
                Err(Error::Why {
                    what: format!("there is no {what} {asked}: there are {there}, counted from 0"),
                })
            }
        };
        Ok(match edit {
            Edit::AblateHead { side, sublayer, layer, head, with } => {
                let attention = stack::attention(self.plain, self.side(*side), *layer, sublayer)?;
                beyond("head", *head, attention.attend.heads)?;
                let columns = attention.columns(*head);
                vec![(attention.mixed, Act::Fill { columns, with: *with })]
            }
            Edit::AblateNeuron { side, sublayer, layer, neuron, with } => {
                let value = format!("{}.{layer}.{sublayer}.hidden", self.side(*side));
                let known = self.plain.nodes().iter().map(|node| node.name.as_str());
                let hidden = self
                    .plain
                    .value(&value)
                    .map_err(|_| trace::nearest(&value, known.filter(|name| name.ends_with(".hidden"))))?;
                beyond("neuron", *neuron, self.plain.shape(hidden).width)?;
                vec![(value, Act::Fill { columns: *neuron..neuron + 1, with: *with })]
            }
            Edit::AblateSublayer { side, sublayer, layer, with } => {
                let scope = format!("{}.{layer}.{sublayer}", self.side(*side));
                let all = stack::sublayers(self.plain);
                let found = all
                    .iter()
                    .find(|known| known.scope == scope)
                    .ok_or_else(|| trace::nearest(&scope, all.iter().map(|known| known.scope.as_str())))?;
                vec![self.branch(&found.branch, *with)?]
            }
            Edit::AblateLayer { side, layer, with } => {
                let side = self.side(*side);
                let all = stack::sublayers(self.plain).into_iter().filter(|known| known.side == side);
                let layers = all.clone().map(|known| known.layer + 1).max().unwrap_or(0);
                beyond("layer", *layer, layers)?;
                let own = all.filter(|known| known.layer == *layer);
                own.map(|known| self.branch(&known.branch, *with)).collect::<Result<_, _>>()?
            }
            Edit::Scale { value, by, rows, columns } => {
                vec![(value.clone(), Act::Scale { by: *by, rows: rows.clone(), columns: *columns })]
            }
            Edit::Patch { value, rows, columns, from } => {
                let act = Act::Patch { rows: rows.clone(), columns: *columns, from: from.clone() };
                vec![(value.clone(), act)]
            }
            Edit::Cut(cut) => {
                let attention = stack::attention(self.plain, self.side(cut.side), cut.layer, &cut.sublayer)?;
                if let Some(head) = cut.head {
                    beyond("head", head, attention.attend.heads)?;
                }
                vec![(format!("{}.scores", attention.scope), Act::Cut(cut.clone()))]
            }
        })
    }

    /// All columns of what a sublayer adds.
    fn branch(&self, name: &str, with: With) -> Result<(String, Act), Error> {
        let width = self.plain.shape(self.plain.value(name)?).width;
        Ok((name.to_owned(), Act::Fill { columns: 0..width, with }))
    }

    /// Where in the order of computation the value `name` is edited. The inside of an attention comes before its result.
    fn place(&self, name: &str) -> Result<(String, usize), Error> {
        let known = tap::all(self.plain);
        let outside = |name: &str| {
            self.plain.value(name).is_ok_and(|value| matches!(self.plain.info(value).origin, Origin::Leaf(_)))
        };
        let changeable = || known.iter().filter(|known| !outside(known));
        match changeable().position(|known| known == name) {
            // The logarithms beside an attention are for its gradient.
            Some(at) if !name.ends_with(".logsum") => Ok((name.to_owned(), at)),
            _ => Err(trace::nearest(name, changeable().map(String::as_str))),
        }
    }

    /// The values that `acts` make of `value`, and of what hangs on it inside of one operation.
    fn apply(&self, graph: &Graph, done: &[Traced], value: &str, acts: &[Act]) -> Result<Vec<Traced>, Error> {
        let inside = match value.rsplit_once('.') {
            Some((scope, "scores")) => Some((scope, Inside::Scores)),
            Some((scope, "probs")) => Some((scope, Inside::Shares)),
            _ => None,
        };
        let attention = inside.and_then(|(scope, inside)| {
            let node = graph.nodes().iter().find(|node| node.name == format!("{scope}.heads"))?;
            if let Op::Attend(_) = node.op { Some((scope, inside, node.clone())) } else { None }
        });
        let Some((scope, inside, node)) = attention else {
            let before = self.run(graph, done, self.sequence, &[value])?.remove(0);
            let mut tensor = before.tensor;
            for act in acts {
                tensor = self.act(act, value, tensor)?;
            }
            return Ok(vec![Traced { tensor, ..before }]);
        };
        let Op::Attend(attend) = node.op else { return Ok(Vec::new()) };
        let [scores, shares, heads] = ["scores", "probs", "heads"].map(|what| format!("{scope}.{what}"));
        let values = graph.info(node.inputs[2]).name.clone();
        let found = self.run(graph, done, self.sequence, &[&scores, &shares, &heads, &values])?;
        let [before_scores, before_shares, before_heads, values] = &found[..] else { return Ok(Vec::new()) };
        let mix = Mix { heads: attend.heads, key_heads: attend.key_heads, size: attend.size };
        let mut made = Vec::new();
        let mut new_shares = before_shares.tensor.clone();
        match inside {
            Inside::Scores => {
                let mut edited = before_scores.tensor.clone();
                for act in acts {
                    edited = self.act(act, value, edited)?;
                }
                Mix::softmax(&before_scores.tensor, &edited, &mut new_shares);
                made.push(Traced { tensor: edited, ..before_scores.clone() });
            }
            Inside::Shares => {
                for act in acts {
                    new_shares = self.act(act, value, new_shares)?;
                }
            }
        }
        let mut heads = before_heads.tensor.clone();
        mix.mix(&before_shares.tensor, &new_shares, values.tensor.data(), &mut heads);
        made.push(Traced { tensor: new_shares, ..before_shares.clone() });
        made.push(Traced { tensor: heads, ..before_heads.clone() });
        Ok(made)
    }

    /// The values `names` of a run of `graph` over `sequence`.
    fn run(
        &self,
        graph: &Graph,
        done: &[Traced],
        sequence: &Sequence,
        names: &[&str],
    ) -> Result<Vec<Traced>, Error> {
        let known = |name: &str| done.iter().find(|traced| traced.name == name).cloned();
        let wanted: Vec<&str> = names.iter().copied().filter(|name| known(name).is_none()).collect();
        if wanted.is_empty() {
            return Ok(names.iter().filter_map(|name| known(name)).collect());
        }
        let mut build = Builder::extend(graph.clone());
        build.forget_outputs();
        let tapped = given::given(&tap::tap(&build.finish(), &wanted)?, &[])?;
        let tapped = Arc::new(tapped);
        let inputs: Vec<String> = done.iter().map(|traced| edited_name(&traced.name)).collect();
        let named: Vec<Named<'_>> = inputs
            .iter()
            .zip(done)
            .map(|(name, traced)| Named { name, numbers: traced.tensor.data() })
            .collect();
        let run = Forward::given(self.model, &tapped, self.backend, slice::from_ref(sequence), &named)?;
        let read = |name: &&str| -> Result<Traced, Error> {
            if let Some(known) = known(name) {
                return Ok(known);
            }
            trace::output(&tapped, &run, name)?.ok_or_else(|| trace::nearest(name, names.iter().copied()))
        };
        names.iter().map(read).collect()
    }

    /// What `act` makes of `tensor`, the value `value`.
    fn act(&self, act: &Act, value: &str, mut tensor: Tensor) -> Result<Tensor, Error> {
        let (rows, width) = match *tensor.shape() {
            // A row of an attention's inside is a query; its columns are keys, and heads run fastest.
            [queries, keys, heads] => (queries, keys * heads),
            _ => tensor.matrix(),
        };
        match act {
            Act::Fill { columns, with } => {
                let put = with.put(tensor.data(), width, columns);
                tensor.data_mut().copy_from_slice(&put);
            }
            Act::Scale { by, rows: some, columns } => {
                let columns = within(value, *columns, width)?;
                for row in chosen(value, some.as_deref(), rows)? {
                    let at = row * width;
                    tensor.data_mut()[at + columns.start..at + columns.end].iter_mut().for_each(|x| *x *= by);
                }
            }
            Act::Patch { rows: some, columns, from } => {
                let columns = within(value, *columns, width)?;
                let into = chosen(value, some.as_deref(), rows)?;
                let other = match &from.text {
                    None => tensor.clone(),
                    Some(text) => {
                        let other = (self.others)(text, from.second.as_deref())?;
                        // The other run is as it is: edits are of this one.
                        self.run(self.plain, &[], &other, &[value])?.remove(0).tensor
                    }
                };
                let (other_rows, other_width) = match *other.shape() {
                    [queries, keys, heads] => (queries, keys * heads),
                    _ => other.matrix(),
                };
                if other_width != width {
                    let what = format!("{value} has {width} columns, and {other_width} in the other text");
                    return Err(Error::Why { what });
                }
                let source = match &from.rows {
                    Some(rows) => chosen(value, Some(rows), other_rows)?,
                    None if some.is_none() && other_rows != rows => {
                        let what = format!(
                            "{value} has {rows} rows, and {other_rows} in the other text: say which rows to patch"
                        );
                        return Err(Error::Why { what });
                    }
                    None => chosen(value, Some(&into), other_rows)?,
                };
                if source.len() != into.len() {
                    let what = format!("{} rows cannot take the place of {}", source.len(), into.len());
                    return Err(Error::Why { what });
                }
                for (from, to) in source.into_iter().zip(into) {
                    let numbers = &other.data()[from * width + columns.start..from * width + columns.end];
                    tensor.data_mut()[to * width + columns.start..to * width + columns.end]
                        .copy_from_slice(numbers);
                }
            }
            Act::Cut(cut) => {
                let [queries, keys, heads] = tensor.shape()[..] else { return Ok(tensor) };
                for (what, asked, there) in [("query", cut.query, queries), ("key", cut.key, keys)] {
                    if asked >= there {
                        let what = format!("there is no {what} {asked} in {value}: there are {there}");
                        return Err(Error::Why { what });
                    }
                }
                for head in (0..heads).filter(|head| cut.head.is_none_or(|only| only == *head)) {
                    tensor.data_mut()[(cut.query * keys + cut.key) * heads + head] = f32::NEG_INFINITY;
                }
            }
        }
        Ok(tensor)
    }
}

/// The rows that were asked for; all where none were.
fn chosen(value: &str, rows: Option<&[usize]>, there: usize) -> Result<Vec<usize>, Error> {
    let Some(rows) = rows else { return Ok((0..there).collect()) };
    match rows.iter().find(|row| **row >= there) {
        Some(row) => Err(Error::Why {
            what: format!("there is no row {row} in {value}: there are {there}, counted from 0"),
        }),
        None => Ok(rows.to_vec()),
    }
}

fn within(value: &str, columns: Option<[usize; 2]>, width: usize) -> Result<Range<usize>, Error> {
    match columns {
        None => Ok(0..width),
        Some([from, to]) if from < to && to <= width => Ok(from..to),
        Some([from, to]) => Err(Error::Why {
            what: format!("there are no columns {from} to {to} in {value}: there are {width}"),
        }),
    }
}

/// How the heads of an attention share values.
struct Mix {
    heads: usize,
    key_heads: usize,
    size: usize,
}

impl Mix {
    /// The shares of the rows whose scores are other than they were. A row that sees nothing has none.
    fn softmax(before: &Tensor, after: &Tensor, shares: &mut Tensor) {
        let [queries, keys, heads] = after.shape()[..] else { return };
        for (query, head) in pairs(queries, heads) {
            let at = |key: usize| (query * keys + key) * heads + head;
            if (0..keys).all(|key| same(before.data()[at(key)], after.data()[at(key)])) {
                continue;
            }
            let row: Vec<f64> = (0..keys).map(|key| f64::from(after.data()[at(key)])).collect();
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let parts: Vec<f64> =
                row.iter().map(|score| if score.is_finite() { (score - most).exp() } else { 0.0 }).collect();
            let sum: f64 = parts.iter().sum();
            for (key, part) in parts.into_iter().enumerate() {
                shares.data_mut()[at(key)] = if sum > 0.0 { (part / sum) as f32 } else { 0.0 };
            }
        }
    }

    /// The results of the rows whose shares are other than they were.
    fn mix(&self, before: &Tensor, after: &Tensor, values: &[f32], heads_out: &mut Tensor) {
        let [queries, keys, heads] = after.shape()[..] else { return };
        let (width, value_width) = (self.heads * self.size, self.key_heads * self.size);
        for (query, head) in pairs(queries, heads) {
            let at = |key: usize| (query * keys + key) * heads + head;
            if (0..keys).all(|key| same(before.data()[at(key)], after.data()[at(key)])) {
                continue;
            }
            let value_head = head * self.key_heads / self.heads;
            for column in 0..self.size {
                let mixed: f64 = (0..keys)
                    .map(|key| {
                        let value = values[key * value_width + value_head * self.size + column];
                        f64::from(after.data()[at(key)]) * f64::from(value)
                    })
                    .sum();
                heads_out.data_mut()[query * width + head * self.size + column] = mixed as f32;
            }
        }
    }
}

fn pairs(queries: usize, heads: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..queries).flat_map(move |query| (0..heads).map(move |head| (query, head)))
}

/// Bit for bit.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits()
}
