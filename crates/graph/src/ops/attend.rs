//! Attention: rows look at rows. One operation for every kind of it; what differs is data.

use super::softmax::softmax;
use super::{AttendGrad, Gradient, Operation, Site, Which};
use crate::reference::{Part, Place};
use crate::{
    Array, At, Batch, Builder, Case, Error, Limits, PAGE, Pages, Rows, Shape, Side, Slot, Tally, World,
};

/// Which way a row may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// At every key.
    Both,
    /// At keys up to its own position.
    Past,
}

/// Which keys within reach are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All.
    Dense,
    /// Those at most this far away.
    Window(usize),
    /// Those at most this far away, and pairs of which one row is global (Longformer).
    WindowAndGlobal(usize),
}

/// Which queries look at all; the others get zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every one.
    Every,
    /// Those that are not global.
    Local,
    /// The global ones.
    Global,
}

/// What the distance between query and key adds to their score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    /// Nothing.
    None,
    /// Minus a head-dependent slope times the distance (ALiBi, Press et al. 2021).
    Alibi,
    /// A learned number of the head and the distance's bucket (T5). Further input: the table `[buckets, heads]`.
    Buckets {
        /// Distances from here on share the last bucket.
        max_distance: usize,
    },
    /// `(q + v) · R[distance]`, and `u · k` (Transformer-XL). Further inputs: R `[distances, heads · size]`, u and v
    /// `[1, heads · size]`.
    TransformerXl,
}

/// Where keys and values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// In the inputs k and v, which have these rows.
    Rows(Rows),
    /// In this slot of these pages.
    Pages(Which, usize),
}

/// `y[i] = Σⱼ softmaxⱼ(scale · q[i] · k[j] + relative(i, j)) v[j]`, head by head, over the keys j that row i sees.
///
/// Inputs: q `[rows, heads · size]`; k and v `[keys, key_heads · size]` where keys are rows; what [`Relative`] needs.
/// Outputs: y like q, and `[rows, heads]` the logarithm of each softmax's sum, which the gradient needs.
/// (Vaswani et al. 2017; computed with a running softmax by fast backends, Dao et al. 2022.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attend {
    /// Whose rows are the queries.
    pub side: Side,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query head h uses h · `key_heads` / heads.
    pub key_heads: usize,
    /// Numbers per head.
    pub size: usize,
    /// What q · k is multiplied by.
    pub scale: f32,
    /// Which way.
    pub reach: Reach,
    /// Which keys.
    pub pattern: Pattern,
    /// Which queries.
    pub who: Who,
    /// What distance does.
    pub relative: Relative,
    /// Where keys and values are.
    pub keys: Keys,
}

/// The keys of one sequence of queries.
#[derive(Clone, Copy, Debug)]
pub struct KeySpan {
    /// The first packed row of its keys, where keys are rows; else their table of pages.
    pub place: usize,
    /// The first key that is still there.
    pub first: usize,
    /// The key after the last.
    pub end: usize,
    /// The key that stands at the same position as the first query.
    pub offset: usize,
}

impl Attend {
    /// How many keys the row at position `at` sees, of those from `first` to `end`; global rows see as much as others here.
    fn count_seen(&self, at: usize, first: usize, end: usize) -> usize {
        let reach = match self.reach {
            Reach::Both => end,
            Reach::Past => end.min(at + 1),
        };
        let (from, to) = match self.pattern {
            Pattern::Dense => (first, reach),
            Pattern::Window(window) | Pattern::WindowAndGlobal(window) => {
                (first.max(at.saturating_sub(window)), reach.min(at + window + 1))
            }
        };
        to.saturating_sub(from)
    }

    /// The keys of query sequence `s`.
    pub fn keys_of(&self, batch: &Batch<'_>, crossing: &Pages, s: usize) -> KeySpan {
        self.keys_with(batch, |table| crossing.len(table), s)
    }

    /// [`Attend::keys_of`] where `crossing` tells how many source rows a table holds.
    pub fn keys_with(&self, batch: &Batch<'_>, crossing: impl Fn(usize) -> usize, s: usize) -> KeySpan {
        let span = batch.side(self.side).spans[s];
        match self.keys {
            Keys::Rows(rows) => {
                let own = rows.side() == Some(self.side);
                let (start, len) = batch.segment(rows, if own { s } else { span.source });
                let offset = if let Rows::Recalled(_) = rows { span.memory } else { 0 };
                KeySpan { place: start, first: 0, end: len, offset }
            }
            Keys::Pages(Which::Cache, _) => {
                KeySpan { place: span.table, first: span.first, end: span.past + span.len, offset: span.past }
            }
            Keys::Pages(Which::Crossing, _) => {
                KeySpan { place: span.source, first: 0, end: crossing(span.source), offset: 0 }
            }
        }
    }

    /// How many rows a tap on this attention has: queries times keys, summed over sequences.
    pub fn pairs(&self, batch: &Batch<'_>, crossing: &Pages) -> usize {
        let spans = &batch.side(self.side).spans;
        let pairs = |(s, span): (usize, &crate::Span)| {
            let keys = self.keys_of(batch, crossing, s);
            span.len * (keys.end - keys.first)
        };
        spans.iter().enumerate().map(pairs).sum()
    }

    /// Whether the query at key position `i` looks at key `j`; `global` if one of the two rows is global.
    pub fn sees(&self, i: usize, j: usize, global: bool) -> bool {
        let reached = match self.reach {
            Reach::Both => true,
            Reach::Past => j <= i,
        };
        reached
            && match self.pattern {
                Pattern::Dense => true,
                Pattern::Window(window) => i.abs_diff(j) <= window,
                Pattern::WindowAndGlobal(window) => global || i.abs_diff(j) <= window,
            }
    }

    /// Whether the query of packed row `row` looks at all.
    pub fn looks(&self, batch: &Batch<'_>, row: usize) -> bool {
        match self.who {
            Who::Every => true,
            Who::Local => !batch.side(self.side).is_global(row),
            Who::Global => batch.side(self.side).is_global(row),
        }
    }

    /// Whether key `j` of a sequence of keys is global. Only keys that are the queries' own rows can be.
    pub fn key_is_global(&self, batch: &Batch<'_>, keys: &KeySpan, j: usize) -> bool {
        self.keys == Keys::Rows(Rows::Tokens(self.side)) && batch.side(self.side).is_global(keys.place + j)
    }

    /// The slope of `head` for [`Relative::Alibi`]: a geometric sequence; heads beyond a power of two fill the gaps.
    pub fn slope(&self, head: usize) -> f32 {
        let whole = 1 << self.heads.ilog2();
        let exponent = if head < whole {
            8.0 * (head + 1) as f64 / whole as f64
        } else {
            4.0 * (2 * (head - whole) + 1) as f64 / whole as f64
        };
        (-exponent).exp2() as f32
    }

    /// The bucket of a key's distance (T5): half of the buckets are exact, the others logarithmic; looking both ways, the
    /// upper half of the table is for keys after the query.
    pub fn bucket(&self, i: usize, j: usize, buckets: usize, max_distance: usize) -> usize {
        let (count, base, distance) = match self.reach {
            Reach::Both => (buckets / 2, if j > i { buckets / 2 } else { 0 }, i.abs_diff(j)),
            Reach::Past => (buckets, 0, i.saturating_sub(j)),
        };
        let exact = (count / 2).max(1);
        if distance < exact {
            return base + distance;
        }
        // As the reference: single precision, truncated.
        let ratio = (distance as f32 / exact as f32).ln() / (max_distance as f32 / exact as f32).ln();
        let wide = exact + (ratio * (count - exact) as f32) as usize;
        base + wide.min(count - 1)
    }

    /// How many inputs there are before those of [`Relative`].
    pub fn base_inputs(&self) -> usize {
        match self.keys {
            Keys::Rows(_) => 3,
            Keys::Pages(..) => 1,
        }
    }

    fn fits(&self, inputs: &[Shape]) -> Result<(), String> {
        let extra = match self.relative {
            Relative::None | Relative::Alibi => 0,
            Relative::Buckets { .. } => 1,
            Relative::TransformerXl => 3,
        };
        super::arity(inputs, self.base_inputs() + extra)?;
        if self.key_heads == 0 || !self.heads.is_multiple_of(self.key_heads) {
            return Err(format!("{} query heads cannot share {} key heads", self.heads, self.key_heads));
        }
        super::same("q", inputs[0], Shape::new(Rows::Tokens(self.side), self.heads * self.size))?;
        if let Keys::Rows(rows) = self.keys {
            super::same("k", inputs[1], Shape::new(rows, self.key_heads * self.size))?;
            super::same("v", inputs[2], Shape::new(rows, self.key_heads * self.size))?;
        }
        let extra = &inputs[self.base_inputs()..];
        match self.relative {
            Relative::None | Relative::Alibi => {}
            Relative::Buckets { .. } => {
                if extra[0].width != self.heads || !matches!(extra[0].rows, Rows::Fixed(n) if n >= 2) {
                    return Err(format!("the table {} is not [buckets, {}]", extra[0], self.heads));
                }
            }
            Relative::TransformerXl => {
                if self.heads != self.key_heads || self.reach != Reach::Past {
                    return Err("Transformer-XL looks back, with as many key heads as query heads".into());
                }
                let width = self.heads * self.size;
                super::same("R", extra[0], Shape::new(Rows::Distances(self.side), width))?;
                super::same("u", extra[1], Shape::fixed(1, width))?;
                super::same("v", extra[2], Shape::fixed(1, width))?;
            }
        }
        Ok(())
    }

    /// Calls `each` with every query row that looks, one head at a time.
    pub(super) fn for_each_query(
        &self,
        inputs: &[&Array],
        world: &World<'_>,
        mut each: impl FnMut(Query<'_>),
    ) {
        for (s, span) in world.batch.side(self.side).spans.iter().enumerate() {
            let keys = self.keys_of(world.batch, world.crossing.pages, s);
            for (i, head) in (0..span.len).flat_map(|i| (0..self.heads).map(move |head| (i, head))) {
                if self.looks(world.batch, span.start + i) {
                    let seen = self.seen(world, &keys, (span.start, i));
                    each(self.query(inputs, world, &keys, (span.start + i, i, head), &seen));
                }
            }
        }
    }

    fn seen(&self, world: &World<'_>, keys: &KeySpan, (start, i): (usize, usize)) -> Vec<usize> {
        let global = world.batch.side(self.side).is_global(start + i);
        (keys.first..keys.end)
            .filter(|&j| {
                let either = global || self.key_is_global(world.batch, keys, j);
                self.sees(keys.offset + i, j, either)
            })
            .collect()
    }

    /// Everything about one query and head: its scores by the paper's equation, and the keys that it sees.
    fn query(
        &self,
        inputs: &[&Array],
        world: &World<'_>,
        keys: &KeySpan,
        (row, i, head): (usize, usize, usize),
        seen: &[usize],
    ) -> Query<'static> {
        let columns = head * self.size..(head + 1) * self.size;
        let q = inputs[0].row(row)[columns.clone()].to_vec();
        let key_head = head * self.key_heads / self.heads;
        let extra = &inputs[self.base_inputs()..];
        let at = keys.offset + i;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let plus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x + y).collect::<Vec<f64>>();
        let scale = f64::from(self.scale);
        let score = |&j: &usize| {
            let k = self.key_or_value(inputs, world, keys, (j, key_head, 0));
            match self.relative {
                Relative::None => scale * dot(&q, &k),
                Relative::Alibi => scale * dot(&q, &k) - f64::from(self.slope(head)) * at.abs_diff(j) as f64,
                Relative::Buckets { max_distance } => {
                    let bucket = self.bucket(at, j, extra[0].rows, max_distance);
                    scale * dot(&q, &k) + extra[0].at(bucket, head)
                }
                Relative::TransformerXl => {
                    let (r, u, v) = (extra[0].row(at - j), extra[1].row(0), extra[2].row(0));
                    let content = dot(&plus(&q, &u[columns.clone()]), &k);
                    let position = dot(&plus(&q, &v[columns.clone()]), &r[columns.clone()]);
                    scale * (content + position)
                }
            }
        };
        let scores: Vec<f64> = seen.iter().map(score).collect();
        Query { row, i, head, key_head, at, keys: *keys, seen: seen.to_vec().into(), scores }
    }

    /// Key (`which` 0) or value (1) of key `j`.
    pub(super) fn key_or_value(
        &self,
        inputs: &[&Array],
        world: &World<'_>,
        keys: &KeySpan,
        (j, head, which): (usize, usize, usize),
    ) -> Vec<f64> {
        match self.keys {
            Keys::Rows(_) => {
                inputs[1 + which].row(keys.place + j)[head * self.size..(head + 1) * self.size].to_vec()
            }
            Keys::Pages(kind, slot) => {
                let stored = world.stored(kind);
                let part = if which == 0 { Part::Key } else { Part::Value };
                let page = stored.pages.page(keys.place, j);
                let numbers = stored.at(Place { page, row: j % PAGE, slot, head, part });
                numbers.iter().map(|&x| f64::from(x)).collect()
            }
        }
    }

    pub(super) fn samples() -> Vec<(Self, Vec<Shape>)> {
        use Relative::{Alibi, Buckets, TransformerXl};
        let tokens = |side, width| Shape::new(Rows::Tokens(side), width);
        let base = Self {
            side: Side::Target,
            heads: 4,
            key_heads: 4,
            size: 5,
            scale: 0.4,
            reach: Reach::Past,
            pattern: Pattern::Dense,
            who: Who::Every,
            relative: Relative::None,
            keys: Keys::Rows(Rows::Tokens(Side::Target)),
        };
        let own = vec![tokens(Side::Target, 20); 3];
        let with = |more: &[Shape]| own.iter().chain(more).copied().collect::<Vec<_>>();
        let (low, memory) = (Rows::Low(Side::Target, 2), Rows::Recalled(Side::Target));
        let xl = [Shape::new(Rows::Distances(Side::Target), 20), Shape::fixed(1, 20), Shape::fixed(1, 20)];
        let other = |rows, width| vec![own[0], Shape::new(rows, width), Shape::new(rows, width)];
        let buckets = Buckets { max_distance: 6 };
        vec![
            (base, own.clone()),
            (Self { reach: Reach::Both, ..base }, own.clone()),
            (Self { key_heads: 2, ..base }, other(Rows::Tokens(Side::Target), 10)),
            (
                Self { reach: Reach::Both, keys: Keys::Rows(Rows::Tokens(Side::Source)), ..base },
                other(Rows::Tokens(Side::Source), 20),
            ),
            (Self { pattern: Pattern::Window(1), ..base }, own.clone()),
            (
                Self { pattern: Pattern::WindowAndGlobal(1), reach: Reach::Both, who: Who::Local, ..base },
                own.clone(),
            ),
            (Self { reach: Reach::Both, who: Who::Global, ..base }, own.clone()),
            (Self { pattern: Pattern::WindowAndGlobal(2), reach: Reach::Both, ..base }, own.clone()),
            (Self { relative: Alibi, heads: 6, key_heads: 3, size: 4, ..base }, {
                let kv = tokens(Side::Target, 12);
                vec![tokens(Side::Target, 24), kv, kv]
            }),
            (Self { relative: buckets, ..base }, with(&[Shape::fixed(6, 4)])),
            (Self { relative: buckets, reach: Reach::Both, ..base }, with(&[Shape::fixed(8, 4)])),
            (Self { relative: TransformerXl, ..base }, with(&xl)),
            (
                Self { relative: TransformerXl, keys: Keys::Rows(memory), ..base },
                other(memory, 20).into_iter().chain(xl).collect(),
            ),
            (Self { reach: Reach::Both, keys: Keys::Rows(low), ..base }, other(low, 20)),
        ]
    }
}

/// One query row and head, with the scores of the keys that it sees.
pub(super) struct Query<'a> {
    pub row: usize,
    pub i: usize,
    pub head: usize,
    pub key_head: usize,
    pub at: usize,
    pub keys: KeySpan,
    pub seen: std::borrow::Cow<'a, [usize]>,
    pub scores: Vec<f64>,
}

impl Query<'_> {
    pub fn probabilities(&self) -> Vec<f64> {
        let mut p = self.scores.clone();
        softmax(&mut p);
        p
    }
}

impl Operation for Attend {
    const OUTPUTS: &'static [&'static str] = &["out", "logsum"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        self.fits(inputs)?;
        Ok(vec![inputs[0], inputs[0].with_width(self.heads)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        if let Keys::Pages(..) = self.keys {
            return Ok(Gradient::None(super::NoGradient::Stores));
        }
        let inputs: Vec<_> =
            at.inputs.iter().copied().chain([at.outputs[0], at.outputs[1], at.dy()]).collect();
        let grads = build.add_all("query", AttendGrad { attend: *self }, &inputs)?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let q = inputs[0];
        let (mut y, mut logsum) = (Array::zeros(q.rows, q.width), Array::zeros(q.rows, self.heads));
        self.for_each_query(inputs, world, |query| {
            for (&j, p) in query.seen.iter().zip(query.probabilities()) {
                let v = self.key_or_value(inputs, world, &query.keys, (j, query.key_head, 1));
                let out = &mut y.row_mut(query.row)[query.head * self.size..];
                out.iter_mut().zip(v).for_each(|(sum, v)| *sum += p * v);
            }
            let most = query.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = query.scores.iter().map(|s| (s - most).exp()).sum();
            logsum.row_mut(query.row)[query.head] = most + sum.ln();
        });
        vec![y, logsum]
    }

    fn limits(&self, _: &At<'_>, limits: &mut Limits) {
        match self.keys {
            Keys::Pages(which, slot) => {
                limits.slot(which, slot, Slot { heads: self.key_heads, size: self.size });
                match which {
                    Which::Cache => limits.room(self.side, which),
                    Which::Crossing => limits.stored(self.side),
                }
            }
            Keys::Rows(rows) => {
                if let Some(other) = rows.side().filter(|&other| other != self.side) {
                    limits.crossing(self.side, other);
                }
            }
        }
    }

    fn work(&self, _: &At<'_>, tally: &mut Tally<'_>) {
        for (s, span) in tally.batch.side(self.side).spans.iter().enumerate() {
            let keys = self.keys_with(tally.batch, tally.crossing, s);
            let seen =
                (keys.offset..keys.offset + span.len).map(|at| self.count_seen(at, keys.first, keys.end));
            tally.work.attention += 4.0 * (seen.sum::<usize>() * self.heads * self.size) as f64;
            if let Keys::Pages(..) = self.keys {
                tally.work.stored += (2 * (keys.end - keys.first) * self.key_heads * self.size) as f64;
            }
        }
    }

    fn cases() -> Vec<Case> {
        Self::samples().into_iter().map(|(op, inputs)| Case::new(op, &inputs)).collect()
    }
}
