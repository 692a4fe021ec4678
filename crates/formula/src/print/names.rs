//! What each operator of a formula is called. Operators with the same definition share a name; those that differ in numbers
//! alone are told apart by primes.

use super::expr::{Expr, Fence, Sign, fence, joined, row, sub};
use crate::half::Half;
use crate::types::{
    Activation, Attention, Dense, FeedForward, Formula, Global, Head, Input, Mix, Norm, Pattern, Position,
    Reach, Rotary, Side, Source, Table, Then,
};

/// An attention with everything around it that its definition depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Site {
    pub(super) attention: Attention,
    /// Numbers per row of the queries' rows.
    pub(super) width: usize,
    /// Numbers per row of the keys' rows.
    pub(super) from: usize,
    /// The angles that turn queries and keys.
    pub(super) turn: Option<Rotary>,
    /// The positions that are added to the scores.
    pub(super) scores: Position,
}

/// A feed-forward layer with the width of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feed {
    pub(super) layer: FeedForward,
    pub(super) width: usize,
}

/// All operators of a formula, each definition once, in order of appearance.
pub(super) struct Names<'a> {
    pub(super) formula: &'a Formula,
    pub(super) sites: Vec<Site>,
    pub(super) feeds: Vec<Feed>,
    pub(super) norms: Vec<Norm>,
}

impl<'a> Names<'a> {
    pub(super) fn of(formula: &'a Formula) -> Self {
        let mut names = Self { formula, sites: Vec::new(), feeds: Vec::new(), norms: Vec::new() };
        for (_, side) in formula.halves() {
            let first = match &side.input {
                Input::Tokens(tokens) => tokens.norm,
                Input::Patches(patches) => patches.norm,
            };
            names.norms.extend(first);
            for sublayer in side.stack.blocks().flatten() {
                match &sublayer.mix {
                    Mix::Attend(attention) => {
                        names.norms.extend(attention.norm);
                        names.sites.push(site(formula, side, attention));
                    }
                    Mix::Feed(layer) => names.feeds.push(Feed { layer: *layer, width: side.stack.width }),
                }
                let sites = sublayer.norm;
                names.norms.extend([sites.input, sites.branch, sites.output].into_iter().flatten());
            }
            names.norms.extend(side.stack.final_norm);
        }
        names.norms.extend(denses(formula).filter_map(|dense| dense.norm));
        once(&mut names.sites);
        once(&mut names.feeds);
        once(&mut names.norms);
        names
    }

    /// The name of a sublayer's f.
    pub(super) fn mix(&self, side: &Side, mix: &Mix) -> Expr {
        match mix {
            Mix::Attend(attention) => self.site(&site(self.formula, side, attention)),
            Mix::Feed(layer) => self.feed(&Feed { layer: *layer, width: side.stack.width }),
        }
    }

    /// `MaskedAttn_RoPE[32:8]`
    pub(super) fn site(&self, site: &Site) -> Expr {
        let primes = primes(&self.sites, site, |other| (word(other), mark(other), remarks(other)));
        let name = marked(word(site), &primes, mark(site));
        let remarks = remarks(site);
        if remarks.is_empty() {
            return name;
        }
        let remarks = remarks.into_iter().map(Expr::Prose);
        row![name, fence(Fence::Index, joined(remarks, Sign::Comma))]
    }

    /// `FFN`, `FFN_SwiGLU`
    pub(super) fn feed(&self, feed: &Feed) -> Expr {
        let primes = primes(&self.feeds, feed, |other| activation(other.layer));
        marked("FFN", &primes, activation(feed.layer).map(str::to_owned))
    }

    /// `LN`, `RMS`
    pub(super) fn norm(&self, norm: Norm) -> Expr {
        Expr::Word(norm_word(norm).to_owned() + &primes(&self.norms, &norm, |other| norm_word(*other)))
    }

    /// The embedding table of a side: E, or `Eₓ` and `E_y` where there are two.
    pub(super) fn table(&self, half: Half) -> Expr {
        let table = |side: &Option<Side>| match side.as_ref().map(|side| &side.input) {
            Some(Input::Tokens(tokens)) => Some(tokens.table),
            Some(Input::Patches(_)) | None => None,
        };
        match (table(&self.formula.source), table(&self.formula.target)) {
            (Some(_), Some(Table::Own)) => match half {
                Half::Source => sub("E", "x"),
                Half::Target => sub("E", "y"),
            },
            (Some(_), Some(Table::Source) | None) | (None, _) => "E".into(),
        }
    }
}

fn site(formula: &Formula, side: &Side, attention: &Attention) -> Site {
    let width = side.stack.width;
    let memory = formula.source.as_ref().map_or(width, |source| source.stack.width);
    let mut site =
        Site { attention: attention.clone(), width, from: width, turn: None, scores: Position::None };
    // What the attention has instead of the stack's angles stands in `turn`, like the stack's own.
    site.attention.rotary = None;
    match attention.source {
        Source::Own => {}
        Source::Memory => return Site { from: memory, ..site },
    }
    for part in side.stack.position.parts() {
        match part {
            // Those are in the rows already.
            Position::None
            | Position::Sinusoidal { .. }
            | Position::Learned { .. }
            | Position::Together(_) => {}
            Position::Rotary(angles) => {
                site.turn = Some(attention.rotary.as_ref().unwrap_or(angles).clone());
            }
            Position::Alibi | Position::Buckets { .. } | Position::TransformerXl { .. } => {
                site.scores = part.clone();
            }
        }
    }
    site
}

/// The projections before the head and after the pooler, if there are any; a norm alone counts as one.
pub(super) fn denses(formula: &Formula) -> impl Iterator<Item = Dense> {
    let head = match formula.head {
        Head::Words { dense, .. } | Head::Tags { dense, .. } => dense,
        Head::Rows | Head::Adaptive { .. } | Head::Classes { .. } | Head::Spans => None,
    };
    let step = |step: &Then| match *step {
        Then::Dense { width: _, act, bias } => Some(Dense { act, bias, norm: None }),
        Then::Norm(norm) => Some(Dense { act: None, bias: false, norm: Some(norm) }),
        Then::Unit => None,
    };
    let pooler = formula.pooler.as_ref();
    let then = pooler.map_or(&[][..], |pooler| &pooler.then).iter().filter_map(step);
    head.into_iter().chain(pooler.and_then(|pooler| pooler.dense)).chain(then)
}

fn word(site: &Site) -> &'static str {
    match (site.attention.source, site.attention.reach, site.attention.pattern) {
        (Source::Memory, _, _) => "Enc-DecAttn",
        (Source::Own, Reach::Past, _) => "MaskedAttn",
        (Source::Own, Reach::Both, Pattern::Dense) => "MultiHead",
        (Source::Own, Reach::Both, Pattern::Sliding { .. } | Pattern::LowRank { .. }) => "Attn",
    }
}

/// How positions enter, where the attention sees them: `RoPE`, `T5`, `RoPE+ALiBi`.
fn mark(site: &Site) -> Option<String> {
    let scores = match site.scores {
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Together(_) => None,
        Position::Alibi => Some("ALiBi"),
        Position::Buckets { .. } => Some("T5"),
        Position::TransformerXl { .. } => Some("XL"),
    };
    let turn = site.turn.as_ref().map(|_| "RoPE");
    let marks: Vec<&str> = turn.into_iter().chain(scores).collect();
    (!marks.is_empty()).then(|| marks.join("+"))
}

fn remarks(site: &Site) -> Vec<String> {
    let mut remarks = Vec::new();
    let heads = site.attention.heads;
    if heads.key != heads.query {
        remarks.push(format!("{}:{}", heads.query, heads.key));
    }
    match site.attention.pattern {
        Pattern::Dense => {}
        Pattern::Sliding { window, global } => {
            remarks.push(format!("w={window}"));
            match global {
                Global::None => {}
                Global::Shared | Global::Separate => remarks.push("global".to_owned()),
            }
        }
        Pattern::LowRank { rank, length: _, sharing: _ } => remarks.push(format!("rank {rank}")),
    }
    if let Position::TransformerXl { memory, .. } = site.scores {
        remarks.push(format!("memory {memory}"));
    }
    if site.attention.norm.is_some() {
        remarks.push("QK norm".to_owned());
    }
    remarks
}

/// What stands below FFN: nothing for the `ReLU` of document 1.
fn activation(layer: FeedForward) -> Option<&'static str> {
    match layer {
        FeedForward::Plain { act: Activation::Relu, .. } => None,
        FeedForward::Plain { act, .. } => Some(act_word(act)),
        FeedForward::Gated { act, .. } => Some(match act {
            Activation::Relu => "ReGLU",
            Activation::Gelu => "GEGLU",
            Activation::GeluTanh => "GEGLU-tanh",
            Activation::Silu => "SwiGLU",
            Activation::Tanh => "TanhGLU",
            Activation::Sigmoid => "GLU",
        }),
    }
}

pub(super) fn act_word(act: Activation) -> &'static str {
    match act {
        Activation::Relu => "ReLU",
        Activation::Gelu => "GELU",
        Activation::GeluTanh => "GELU-tanh",
        Activation::Silu => "SiLU",
        Activation::Tanh => "tanh",
        Activation::Sigmoid => "sigmoid",
    }
}

fn norm_word(norm: Norm) -> &'static str {
    match norm {
        Norm::Layer { .. } => "LN",
        Norm::Rms { .. } => "RMS",
    }
}

fn marked(word: &str, primes: &str, mark: Option<String>) -> Expr {
    let word = Expr::Word(format!("{word}{primes}"));
    match mark {
        None => word,
        Some(mark) => sub(word, Expr::Word(mark)),
    }
}

/// One prime for every earlier operator with the same look and another definition.
fn primes<T: PartialEq, L: PartialEq>(all: &[T], one: &T, look: impl Fn(&T) -> L) -> String {
    let earlier = all.iter().take_while(|other| *other != one);
    "′".repeat(earlier.filter(|other| look(other) == look(one)).count())
}

/// Keeps the first of equal things. The lists are short, and floats have no hash.
fn once<T: PartialEq>(all: &mut Vec<T>) {
    let mut kept: Vec<T> = Vec::new();
    for one in all.drain(..) {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    *all = kept;
}

/// `PEₜ`: the sinusoids of place and step.
pub(super) fn step_signal() -> Expr {
    sub("PE", "t")
}
