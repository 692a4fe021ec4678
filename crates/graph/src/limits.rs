//! What a batch must be so that a graph can run it.

use crate::ops::{Ids, Which};
use crate::{At, Batch, Dtype, Error, Graph, Leaf, Rows, Shape, Side, Slot, State};

/// What a graph demands of any batch: ids within their tables, stored rows within their pages, inputs of the right length.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    tables: Vec<(Ids, usize, String)>,
    clusters: Vec<(Side, usize, String)>,
    inputs: Vec<(String, Shape)>,
    lengths: Vec<(Side, usize, String)>,
    classes: Vec<(Side, Shape)>,
    /// Sides whose labels are two places of each sequence, and the rows that have scores.
    places: Vec<(Side, Rows)>,
    /// Sides whose sequences belong together two by two.
    pairs: Vec<Side>,
    /// What slots of pages must be.
    slots: Vec<(Which, usize, Slot)>,
    /// Pages with room for the rows of this side, their past included.
    own: Vec<(Side, Which)>,
    /// Whose rows look at a source that was stored before.
    stored: Vec<Side>,
    /// Whose rows look at rows of the other side.
    crossings: Vec<(Side, Side)>,
    /// The type of pages that its attentions can read, besides `f32`.
    keeps: Dtype,
}

impl Limits {
    /// The demands of `graph`.
    pub fn of(graph: &Graph) -> Self {
        let mut limits = Self::default();
        limits.inputs.extend(graph.leaves(Leaf::Input).map(|(_, info)| (info.name.clone(), info.shape)));
        for node in graph.nodes() {
            node.op.limits(&At { graph, node }, &mut limits);
        }
        // Only the last cluster bounds the vocabulary.
        for side in [Side::Source, Side::Target] {
            let last = limits.clusters.iter().filter(|(of, ..)| *of == side).max_by_key(|(_, to, _)| *to);
            limits.tables.extend(last.map(|(side, to, name)| (Ids::Tokens(*side), *to, name.clone())));
        }
        limits
    }

    /// These ids choose among the `rows` of the table `name`.
    pub(crate) fn table(&mut self, ids: Ids, rows: Rows, name: &str) {
        if let Ids::Cluster { side, to, .. } = ids {
            self.clusters.push((side, to, name.to_owned()));
        } else if let Rows::Fixed(rows) = rows {
            self.tables.push((ids, rows, name.to_owned()));
        }
    }

    /// No sequence of this side is longer than the weight `name` is wide.
    pub(crate) fn longest(&mut self, side: Side, width: usize, name: &str) {
        self.lengths.push((side, width, name.to_owned()));
    }

    /// Labels are classes, and these are the scores of them.
    pub(crate) fn classes(&mut self, side: Side, scores: Shape) {
        note(&mut self.classes, (side, scores));
    }

    /// Labels are two places of each sequence, and these rows have scores.
    pub(crate) fn places(&mut self, side: Side, rows: Rows) {
        note(&mut self.places, (side, rows));
    }

    /// Sequences belong together two by two.
    pub(crate) fn pairs(&mut self, side: Side) {
        note(&mut self.pairs, side);
    }

    /// A slot of these pages is laid out so.
    pub(crate) fn slot(&mut self, pages: Which, slot: usize, heads: Slot) {
        note(&mut self.slots, (pages, slot, heads));
    }

    /// These pages have room for the rows of this side, their past included.
    pub(crate) fn room(&mut self, side: Side, pages: Which) {
        note(&mut self.own, (side, pages));
    }

    /// The rows of this side look at a source that was stored before.
    pub(crate) fn stored(&mut self, side: Side) {
        note(&mut self.stored, side);
    }

    /// The rows of this side look at rows of the other.
    pub(crate) fn crossing(&mut self, side: Side, other: Side) {
        note(&mut self.crossings, (side, other));
    }

    /// The same for a runner that keeps keys and values in `dtype` ([`Runner::keeps`](crate::Runner::keeps)).
    #[must_use]
    pub fn keeping(self, dtype: Dtype) -> Self {
        Self { keeps: dtype, ..self }
    }

    /// Refuses a batch that the graph cannot run.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn admit(&self, batch: &Batch<'_>, state: &State) -> Result<(), Error> {
        batch.check()?;
        let bad = |what: String, hint: &str| Err(Error::Batch { what, hint: hint.to_owned() });
        for (ids, rows, table) in &self.tables {
            if let Some((row, id)) = ids.beyond(batch, *rows) {
                return match ids {
                    Ids::Positions { side, .. } => bad(
                        format!("position {id} of {side} row {row} is beyond the {rows} rows of {table}"),
                        "shorten the sequence",
                    ),
                    Ids::Tokens(side) | Ids::Cluster { side, .. } | Ids::Types(side) => bad(
                        format!("id {id} of {side} row {row} is beyond the {rows} rows of {table}"),
                        "use ids of this model's vocabulary",
                    ),
                };
            }
        }
        for (ids, _, table) in &self.tables {
            if let Ids::Tokens(side) = ids
                && batch.side(*side).tokens.len() != batch.side(*side).rows()
            {
                return bad(format!("the {side} rows have no token ids for {table}"), "give token ids");
            }
        }
        for (side, most, name) in &self.lengths {
            if let Some(span) = batch.side(*side).spans.iter().find(|span| span.len > *most) {
                return bad(
                    format!("a {side} sequence of {} rows is beyond the {most} columns of {name}", span.len),
                    "shorten the sequence",
                );
            }
        }
        for &(side, logits) in &self.classes {
            let (packed, counted) = (batch.side(side), batch.count(logits.rows));
            if packed.labels.len() != counted || packed.weights.len() != counted {
                return bad(
                    format!(
                        "{} labels and {} weights for {counted} rows",
                        packed.labels.len(),
                        packed.weights.len()
                    ),
                    "give one of each for every row of the loss",
                );
            }
            if let Some(label) = packed.labels.iter().find(|&&label| label as usize >= logits.width) {
                return bad(
                    format!("label {label} is beyond the {} classes", logits.width),
                    "check the labels",
                );
            }
        }
        self.admit_sequences(batch)?;
        for &(side, other) in &self.crossings {
            let sources = batch.side(other).spans.len();
            if let Some(span) = batch.side(side).spans.iter().find(|span| span.source >= sources) {
                return bad(
                    format!("a {side} sequence looks at {other} sequence {}, of {sources}", span.source),
                    "give the sequences that are looked at in the same batch",
                );
            }
        }
        self.admit_pages(batch, state)?;
        if batch.inputs.len() != self.inputs.len() {
            return bad(
                format!("{} inputs for a graph with {}", batch.inputs.len(), self.inputs.len()),
                "give each of the graph's inputs, in order",
            );
        }
        for ((name, shape), given) in self.inputs.iter().zip(&batch.inputs) {
            let need = batch.count(shape.rows) * shape.width;
            if given.len() != need {
                return bad(
                    format!("the input {name} has {} numbers, not {need}", given.len()),
                    "check its shape",
                );
            }
        }
        Ok(())
    }

    /// Refuses labels and weights that are not those of whole sequences, where a loss looks at these.
    fn admit_sequences(&self, batch: &Batch<'_>) -> Result<(), Error> {
        let bad = |what: String, hint: &str| Err(Error::Batch { what, hint: hint.to_owned() });
        for &(side, rows) in &self.places {
            let packed = batch.side(side);
            let count = packed.spans.len();
            if batch.count(rows) != packed.rows() {
                let (found, rows) = (batch.count(rows), packed.rows());
                return bad(format!("scores of {found} of {rows} {side} rows"), "pick all rows");
            }
            if packed.labels.len() != 2 * count || packed.weights.len() != count {
                let (labels, weights) = (packed.labels.len(), packed.weights.len());
                return bad(
                    format!(
                        "{labels} labels and {weights} weights for {count} sequences with two places each"
                    ),
                    "give two labels and one weight for every sequence",
                );
            }
            let places = packed.labels.chunks(2).zip(&packed.spans);
            let mut places =
                places.flat_map(|(labels, span)| labels.iter().map(move |&label| (label, span.len)));
            if let Some((label, _)) = places.find(|&(label, len)| label as usize >= len) {
                return bad(format!("place {label} is beyond its {side} sequence"), "check the labels");
            }
        }
        for &side in &self.pairs {
            let packed = batch.side(side);
            if packed.spans.len() % 2 == 1 || packed.weights.len() != packed.spans.len() / 2 {
                let (sequences, weights) = (packed.spans.len(), packed.weights.len());
                return bad(
                    format!("{sequences} sequences and {weights} weights where sequences come in pairs"),
                    "give pairs of sequences, and one weight for every pair",
                );
            }
        }
        Ok(())
    }

    fn admit_pages(&self, batch: &Batch<'_>, state: &State) -> Result<(), Error> {
        for (which, slot, heads) in &self.slots {
            let layout = which.pages(state).layout();
            let dtype = layout.dtype();
            if ![Dtype::F32, self.keeps].contains(&dtype) {
                return Err(Error::Batch {
                    what: format!(
                        "the pages are for keys and values in {dtype}, and these are in {}",
                        self.keeps
                    ),
                    hint: "make the state's pages with the layout of this model".to_owned(),
                });
            }
            let found = layout.slots().get(*slot);
            if found != Some(heads) {
                return Err(Error::Batch {
                    what: format!("slot {slot} of the pages is {found:?} where {heads:?} is needed"),
                    hint: "make the state's pages with the layout of this model".to_owned(),
                });
            }
        }
        let room = |have: usize, need: usize| {
            if have < need { Err(Error::Capacity { what: "rows in pages", need, have }) } else { Ok(()) }
        };
        for (side, which) in &self.own {
            for span in &batch.side(*side).spans {
                room(which.pages(state).room(span.table), span.past + span.len)?;
            }
        }
        for side in &self.stored {
            for span in &batch.side(*side).spans {
                let have = state.crossing.room(span.source);
                room(have, if have == 0 { 1 } else { state.crossing.len(span.source) })?;
            }
        }
        Ok(())
    }
}

/// Appends what is not there yet.
fn note<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
