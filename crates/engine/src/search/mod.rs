//! How the next tokens are chosen from rows of scores. A search knows nothing of models, pages or other requests: it is given
//! the row of each of its lanes and says which lanes go on, with which tokens.

mod beams;
mod groups;
mod sampling;
mod walk;

use std::fmt;

use glassformer_graph::{Ask, Leaders, Sum};

use crate::processors::softmax::guided;
use crate::processors::{Rules, Scratch, bans};
use crate::{Allowed, Decoding, Finish, Generated, Observed, Observer, Stage, Token};

pub(crate) use beams::Beams;
pub(crate) use groups::Groups;
pub(crate) use walk::Walk;

/// Says when a text is over, where tokens alone cannot: the task that made the request looks at the words.
pub trait Stopper: fmt::Debug + Send + Sync {
    /// Whether a text with these new tokens is over. It is asked for every candidate of a beam search, in any order.
    fn stops(&self, new: &[u32]) -> bool;
}

/// What a search sees of the scores of its lanes.
pub(crate) enum Scores<'s> {
    /// All of them, one row after the other, to be changed.
    Rows(&'s mut [f32]),
    /// The largest of each row. The rules do nothing but rule these tokens out, in every lane.
    Leaders(Short<'s>),
}

/// The largest scores of some lanes.
pub(crate) struct Short<'s> {
    pub leaders: &'s Leaders,
    /// The row of the first lane.
    pub first: usize,
    /// How many tokens there are.
    pub width: usize,
    /// What is ruled out.
    pub banned: Vec<u32>,
    /// All scores of the lanes, for who watches; empty where nobody does.
    pub watched: &'s mut [f32],
}

impl Short<'_> {
    /// The scores and tokens of `lane` that are not ruled out, the largest first, at most `most`; and what was asked about
    /// the whole row.
    fn lane(&self, lane: usize, most: usize) -> (impl Iterator<Item = (f32, u32)> + '_, f64) {
        let (found, sum) = self.leaders.row(self.first + lane);
        (found.iter().copied().filter(|(_, token)| !self.banned.contains(token)).take(most), sum)
    }
}

/// What a search is told besides the rows.
pub(crate) struct Turn<'t> {
    /// The request's rules.
    pub rules: Rules<'t>,
    /// Who else may end a text.
    pub stopper: Option<&'t dyn Stopper>,
    /// The tokens of each lane, prompt included; all have the same number.
    pub lanes: Vec<&'t [u32]>,
    /// What each lane may be continued with, where that is said.
    pub allowed: Vec<Option<Allowed<'t>>>,
    /// The scores that those of each lane are compared with, row after row; empty where nothing is guided.
    pub compared: &'t [f32],
    /// Memory to use again.
    pub scratch: &'t mut Scratch,
    /// Who watches.
    pub observer: Option<&'t dyn Observer>,
}

impl Turn<'_> {
    /// Why a text ends whose lane is continued with `token`, if it does.
    fn finish(&self, lane: usize, token: u32) -> Option<Finish> {
        let Rules { decoding, prompt, longest, .. } = self.rules;
        if decoding.end.contains(&token) {
            return Some(Finish::Eos);
        }
        let new = &self.lanes[lane][prompt..];
        let ends = |run: &Vec<u32>| {
            run.split_last().is_some_and(|(last, before)| *last == token && new.ends_with(before))
        };
        let asks = |stopper: &dyn Stopper| stopper.stops(&[new, &[token]].concat());
        if decoding.stop.iter().any(ends) || self.stopper.is_some_and(asks) {
            return Some(Finish::Stop);
        }
        (self.lanes[lane].len() + 1 >= longest).then_some(Finish::Length)
    }

    /// Changes the scores `row` of `lane` as was asked for; `penalised` are the tokens that earlier groups of beams chose at this step.
    /// Where something is guided, these are log-probabilities.
    fn change(&mut self, lane: usize, penalised: &[u32], row: &mut [f32]) {
        let Self { rules, observer, .. } = *self;
        let (tokens, written) = (self.lanes[lane], self.new_tokens());
        let mut tell = |stage, scores: &[f32]| {
            if let Some(observer) = observer {
                observer.observe(Observed::Scores { lane, written, stage, scores });
            }
        };
        let width = row.len();
        if let Some(others) = self.compared.get(lane * width..(lane + 1) * width) {
            guided(rules.decoding.guidance, others, row);
            tell(Stage::Guidance, row);
        }
        rules.apply((tokens, penalised), row, self.scratch, &mut tell);
        // Last, so that no other rule lets in what may not come.
        if let Some(allowed) = self.allowed[lane] {
            bans::restrict(allowed, &rules.decoding.end, row);
            tell(Stage::Form, row);
        }
        // Groups of beams draw nothing.
        if rules.decoding.beams <= 1 || rules.decoding.groups <= 1 {
            rules.filter(row, self.scratch, &mut tell);
        }
        rules.finish(row, &mut tell);
    }

    /// Tells who watches of the scores `row` of `lane`, as the model gave them.
    fn raw(&self, lane: usize, row: &[f32]) {
        self.observe(Observed::Scores { lane, written: self.new_tokens(), stage: Stage::Raw, scores: row });
    }

    fn observe(&self, seen: Observed<'_>) {
        if let Some(observer) = self.observer {
            observer.observe(seen);
        }
    }

    /// Tells who watches what becomes of `rows`, where the search itself looks at the largest scores alone.
    fn watch(&mut self, rows: &mut [f32]) {
        let width = rows.len() / self.lanes.len();
        if width == 0 {
            return;
        }
        for (lane, row) in rows.chunks_mut(width).enumerate() {
            self.raw(lane, row);
            self.change(lane, &[], row);
        }
    }

    /// How many tokens are new.
    fn new_tokens(&self) -> usize {
        self.lanes[0].len() - self.rules.prompt
    }
}

/// What a search wants next.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// The lanes of the next step: whose tokens each continues, and with what. None: the search is over.
    pub lanes: Vec<(usize, u32)>,
    /// What can be told already: which of the returned sequences, and its token.
    pub told: Vec<(usize, Token)>,
}

/// A search under way.
#[derive(Debug)]
pub(crate) enum Search {
    Walk(Walk),
    Beams(Beams),
    Groups(Groups),
}

impl Search {
    pub fn new(decoding: &Decoding) -> Self {
        match (decoding.beams, decoding.groups) {
            (0 | 1, _) => Self::Walk(Walk::new(decoding.returns)),
            (beams, 0 | 1) => Self::Beams(Beams::new(beams)),
            (beams, groups) => Self::Groups(Groups::new(beams, groups)),
        }
    }

    /// Whether lanes change their places from step to step.
    pub fn reorders(&self) -> bool {
        match self {
            Self::Beams(_) => true,
            Self::Walk(_) | Self::Groups(_) => false,
        }
    }

    /// How many of the largest scores of each lane are enough for the next step, where some are, with those that are ruled
    /// out; and what else is wanted of a row.
    pub fn short(&self, rules: &Rules<'_>, lanes: &[&[u32]]) -> Option<(Ask, Vec<u32>)> {
        let (most, sum) = match self {
            Self::Walk(_) => (1, Sum::Numbers),
            Self::Beams(beams) => (candidates(rules.decoding, beams.count()), Sum::LogExp),
            Self::Groups(_) => return None,
        };
        let banned = rules.only_bans(lanes.first()?.len())?;
        Some((Ask { most: most + banned.len(), sum }, banned))
    }

    /// Takes one step.
    ///
    /// # Errors
    /// If the scores are not numbers, or nothing can be drawn from them.
    pub fn step(&mut self, turn: &mut Turn<'_>, scores: Scores<'_>) -> Result<Next, String> {
        match (self, scores) {
            (Self::Walk(walk), Scores::Rows(rows)) => walk.step(turn, rows),
            (Self::Walk(walk), Scores::Leaders(short)) => {
                turn.watch(&mut *short.watched);
                walk.step_short(turn, &short)
            }
            (Self::Beams(beams), Scores::Rows(rows)) => beams.step(turn, rows),
            (Self::Beams(beams), Scores::Leaders(short)) => {
                turn.watch(&mut *short.watched);
                beams.step_short(turn, &short)
            }
            (Self::Groups(groups), Scores::Rows(rows)) => groups.step(turn, rows),
            (Self::Groups(_), Scores::Leaders(_)) => Err("groups of beams need all scores".to_owned()),
        }
    }

    /// What was found, best first, at most `returns`.
    pub fn into_outputs(self, returns: usize) -> Vec<Generated> {
        let mut outputs = match self {
            Self::Walk(walk) => walk.into_outputs(),
            Self::Beams(beams) => beams.into_outputs(),
            Self::Groups(groups) => groups.into_outputs(),
        };
        outputs.truncate(returns);
        outputs
    }
}

/// How many candidates `beams` beams look at: enough to go on with as many where the best ones end.
fn candidates(decoding: &Decoding, beams: usize) -> usize {
    (1 + decoding.end.len()).max(2) * beams
}

/// A length to the power of the length penalty.
fn length(len: usize, penalty: f64) -> f64 {
    (len as f64).powf(penalty)
}

/// What is said where no token may be chosen.
fn nothing_left() -> String {
    "every token is ruled out".to_owned()
}

/// What is said of scores that are not numbers: the model's fault, and not the request's.
pub const NOT_NUMBERS: &str = "the model's scores are not numbers";

fn not_numbers() -> String {
    NOT_NUMBERS.to_owned()
}
