//! A batch: the real sizes and ids of one run. Rows plus spans, never padded.

use crate::{Error, Rows, Side};

/// One sequence's part of the packed rows, and where its past is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first packed row.
    pub start: usize,
    /// How many rows it has in this run.
    pub len: usize,
    /// How many of its rows earlier runs have stored: the position of its first row.
    pub past: usize,
    /// The first stored row that is still looked at (Transformer-XL forgets older ones).
    pub first: usize,
    /// Its table in [`State::cache`](crate::State::cache).
    pub table: usize,
    /// The source sequence that it looks at: a span of [`Batch::source`] or, where that is stored, a table of
    /// [`State::crossing`](crate::State::crossing).
    pub source: usize,
    /// How many remembered rows are given with it (Transformer-XL without pages).
    pub memory: usize,
    /// The first of them among all sequences' remembered rows.
    pub memory_start: usize,
    /// How many of its first rows are not pooled: those of a prompt.
    pub unpooled: usize,
}

impl Span {
    /// How many keys its last row can look at among its own side's.
    pub fn keys(&self) -> usize {
        self.past - self.first + self.memory + self.len
    }
}

/// The rows of one side, sequence after sequence.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// The sequences.
    pub spans: Vec<Span>,
    /// Token ids, one a row; empty where rows come as numbers (patches).
    pub tokens: Vec<u32>,
    /// Token types, one a row, or empty for all zero.
    pub types: Vec<u32>,
    /// Which rows see and are seen by all, one flag a row, or empty for none.
    pub global: Vec<bool>,
    /// The rows that the head is asked about, ascending.
    pub picked: Vec<u32>,
    /// The right answer for each row of the loss (training).
    pub labels: Vec<u32>,
    /// How much each of them counts (training).
    pub weights: Vec<f32>,
}

impl Packed {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.spans.last().map_or(0, |span| span.start + span.len)
    }

    /// How many remembered rows there are.
    pub fn memory(&self) -> usize {
        self.spans.last().map_or(0, |span| span.memory_start + span.memory)
    }

    /// How many rows of each sequence are remembered at the next run, where `most` are at most.
    pub fn remembered(&self, most: usize) -> usize {
        self.spans.iter().map(|span| span.memory + span.len).min().unwrap_or(0).min(most)
    }

    /// Forgets the sequences, keeps the allocations.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.tokens.clear();
        self.types.clear();
        self.global.clear();
        self.picked.clear();
        self.labels.clear();
        self.weights.clear();
    }

    /// Appends a sequence of `len` rows; `span` says where its past and its source are, its starts are filled in here.
    pub fn push_rows(&mut self, len: usize, span: Span) {
        let span = Span { start: self.rows(), len, memory_start: self.memory(), ..span };
        self.spans.push(span);
    }

    /// Appends a sequence of tokens; see [`Packed::push_rows`].
    pub fn push(&mut self, tokens: &[u32], span: Span) {
        self.push_rows(tokens.len(), span);
        self.tokens.extend_from_slice(tokens);
    }

    /// Asks the head about every row.
    pub fn pick_all(&mut self) {
        self.picked.clear();
        self.picked.extend(0..self.rows() as u32);
    }

    /// Asks the head about the last row of each sequence.
    pub fn pick_last(&mut self) {
        self.picked.clear();
        self.picked.extend(self.spans.iter().map(|span| (span.start + span.len) as u32 - 1));
    }

    /// Whether row `row` sees and is seen by all.
    pub fn is_global(&self, row: usize) -> bool {
        self.global.get(row).copied().unwrap_or(false)
    }
}

/// Everything one run is given.
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    /// The encoder's rows.
    pub source: Packed,
    /// The decoder's rows.
    pub target: Packed,
    /// The numbers of each [`Leaf::Input`](crate::Leaf::Input) of the graph, in the graph's order.
    pub inputs: Vec<&'a [f32]>,
    /// What dropout draws from.
    pub seed: u64,
}

impl Batch<'_> {
    /// The rows of `side`.
    pub fn side(&self, side: Side) -> &Packed {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    /// The rows of `side`, to change.
    pub fn side_mut(&mut self, side: Side) -> &mut Packed {
        match side {
            Side::Source => &mut self.source,
            Side::Target => &mut self.target,
        }
    }

    /// How many rows `rows` are in this batch. Pairs depend on which attention is meant, so they are counted there.
    pub fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Fixed(n) => n,
            Rows::Tokens(side) => self.side(side).rows(),
            Rows::Memory(side) => self.side(side).memory(),
            Rows::Recalled(side) => self.side(side).rows() + self.side(side).memory(),
            Rows::Remembered(side, most) => self.side(side).spans.len() * self.side(side).remembered(most),
            Rows::Low(side, rank) => self.side(side).spans.len() * rank,
            Rows::Sequences(side) => self.side(side).spans.len(),
            Rows::Picked(side) => self.side(side).picked.len(),
            Rows::Distances(side) => self.side(side).spans.iter().map(Span::keys).max().unwrap_or(0),
            Rows::Pairs(_) => 0,
        }
    }

    /// The first row and the number of rows of sequence `s` among `rows`, for rows that belong to sequences.
    pub fn segment(&self, rows: Rows, s: usize) -> (usize, usize) {
        let span = |side: Side| self.side(side).spans[s];
        match rows {
            Rows::Tokens(side) => (span(side).start, span(side).len),
            Rows::Memory(side) => (span(side).memory_start, span(side).memory),
            Rows::Recalled(side) => {
                let span = span(side);
                (span.memory_start + span.start, span.memory + span.len)
            }
            Rows::Remembered(side, most) => {
                let each = self.side(side).remembered(most);
                (s * each, each)
            }
            Rows::Low(_, rank) => (s * rank, rank),
            Rows::Sequences(_) => (s, 1),
            Rows::Fixed(_) | Rows::Picked(_) | Rows::Distances(_) | Rows::Pairs(_) => (0, self.count(rows)),
        }
    }

    /// Refuses what no graph can run: empty sequences, spans that do not follow one another, lists of other lengths.
    ///
    /// # Errors
    /// The first thing wrong.
    pub fn check(&self) -> Result<(), Error> {
        for side in [Side::Source, Side::Target] {
            let packed = self.side(side);
            let (mut row, mut memory) = (0, 0);
            for (s, span) in packed.spans.iter().enumerate() {
                let bad = |what: String, hint: &str| Err(Error::Batch { what, hint: hint.to_owned() });
                if span.len == 0 {
                    return bad(format!("{side} sequence {s} is empty"), "give it at least one token");
                }
                if span.start != row || span.memory_start != memory || span.first > span.past {
                    return bad(
                        format!("{side} sequence {s} does not follow the one before it"),
                        "add sequences with Packed::push",
                    );
                }
                row += span.len;
                memory += span.memory;
            }
            let lists = [
                ("token ids", packed.tokens.len(), row),
                ("token types", packed.types.len(), row),
                ("global flags", packed.global.len(), row),
            ];
            for (what, found, expected) in lists {
                if found != 0 && found != expected {
                    return Err(Error::Batch {
                        what: format!("{found} {side} {what} for {expected} rows"),
                        hint: "give one for each row".to_owned(),
                    });
                }
            }
            if !packed.picked.is_sorted_by(|a, b| a < b) {
                return Err(Error::Batch {
                    what: format!("the picked {side} rows do not ascend"),
                    hint: "pick each row once, in order".to_owned(),
                });
            }
            if packed.picked.last().is_some_and(|&last| last as usize >= row) {
                return Err(Error::Batch {
                    what: format!("a picked {side} row is beyond the last row"),
                    hint: "pick rows of this batch".to_owned(),
                });
            }
        }
        Ok(())
    }
}
