//! One token after the other: the most likely one (greedy), or a drawn one; several sequences may be drawn of one prompt.

use super::sampling::draw;
use super::{Next, Short, Turn, not_numbers, nothing_left};
use crate::processors::best::largest;
use crate::processors::softmax::{log_softmax, log_sum_exp};
use crate::{Finish, Generated, Observed, Token};

/// Sequences that do not look at one another.
#[derive(Debug)]
pub(crate) struct Walk {
    written: Vec<Generated>,
    /// Which sequence each lane is.
    live: Vec<usize>,
}

impl Walk {
    pub fn new(sequences: usize) -> Self {
        let empty = Generated { finish: Finish::Length, ..Generated::default() };
        Self { written: vec![empty; sequences.max(1)], live: (0..sequences.max(1)).collect() }
    }

    pub fn step(&mut self, turn: &mut Turn<'_>, rows: &mut [f32]) -> Result<Next, String> {
        let width = rows.len() / turn.lanes.len();
        let mut next = Next::default();
        let mut live = Vec::with_capacity(self.live.len());
        for (place, sequence) in std::mem::take(&mut self.live).into_iter().enumerate() {
            // At first all sequences stand in one lane.
            let lane = if turn.lanes.len() == 1 { 0 } else { place };
            let row = &mut rows[lane * width..(lane + 1) * width];
            if place == lane {
                told_of(turn, row)?;
                change(turn, lane, row);
            }
            let id = choose(turn, row, sequence).ok_or_else(nothing_left)?;
            let token = token(turn, id);
            self.take(turn, (lane, sequence), token, &mut next, &mut live);
        }
        self.live = live;
        Ok(next)
    }

    /// The same where the largest scores are enough.
    pub fn step_short(&mut self, turn: &mut Turn<'_>, short: &Short<'_>) -> Result<Next, String> {
        let mut next = Next::default();
        let mut live = Vec::with_capacity(self.live.len());
        for (place, sequence) in std::mem::take(&mut self.live).into_iter().enumerate() {
            let lane = if turn.lanes.len() == 1 { 0 } else { place };
            let (mut scores, sum) = short.lane(lane, 1);
            if sum.is_nan() {
                return Err(not_numbers());
            }
            let (_, id) = scores.find(|(score, _)| *score > f32::NEG_INFINITY).ok_or_else(nothing_left)?;
            let token = Token { id, logprob: None, others: Vec::new() };
            self.take(turn, (lane, sequence), token, &mut next, &mut live);
        }
        self.live = live;
        Ok(next)
    }

    /// Writes a token, and says whether its sequence goes on.
    fn take(
        &mut self,
        turn: &Turn<'_>,
        (lane, sequence): (usize, usize),
        token: Token,
        next: &mut Next,
        live: &mut Vec<usize>,
    ) {
        turn.observe(Observed::Chosen { sequence, lane, token: token.id });
        let (id, written) = (token.id, &mut self.written[sequence]);
        written.push(&token);
        next.told.push((sequence, token));
        if let Some(finish) = turn.finish(lane, id) {
            written.finish = finish;
        } else {
            next.lanes.push((lane, id));
            live.push(sequence);
        }
    }

    pub fn into_outputs(self) -> Vec<Generated> {
        self.written
    }
}

/// Keeps the row as the model gave it, where log-probabilities are asked for.
fn told_of(turn: &mut Turn<'_>, row: &[f32]) -> Result<(), String> {
    let scratch = &mut *turn.scratch;
    if turn.rules.decoding.logprobs.is_some() {
        scratch.raw.clear();
        scratch.raw.extend_from_slice(row);
        scratch.sum = log_sum_exp(row);
    }
    if row.iter().any(|x| x.is_nan()) && !turn.rules.decoding.remove_invalid {
        return Err(not_numbers());
    }
    Ok(())
}

fn change(turn: &mut Turn<'_>, lane: usize, row: &mut [f32]) {
    turn.raw(lane, row);
    if turn.rules.decoding.is_guided() {
        log_softmax(row);
    }
    turn.change(lane, &[], row);
}

fn choose(turn: &mut Turn<'_>, row: &[f32], sequence: usize) -> Option<u32> {
    let place = turn.new_tokens();
    match &turn.rules.decoding.sampling {
        Some(sampling) if sampling.draws() => draw(row, turn.scratch, (sampling.seed, sequence, place)),
        Some(_) | None => Some(largest(row)).filter(|&id| row[id as usize] > f32::NEG_INFINITY),
    }
}

/// The token `id` with what is asked for about it.
fn token(turn: &mut Turn<'_>, id: u32) -> Token {
    let Some(others) = turn.rules.decoding.logprobs else {
        return Token { id, logprob: None, others: Vec::new() };
    };
    let scratch = &mut *turn.scratch;
    let log = |score: f32| (f64::from(score) - scratch.sum) as f32;
    scratch.best.start(others);
    scratch.best.offer(&scratch.raw, 0.0, 0);
    let others = scratch.best.found().iter().map(|&(score, other)| (other, log(score))).collect();
    Token { id, logprob: scratch.raw.get(id as usize).map(|&score| log(score)), others }
}
