//! Diverse beam search (Vijayakumar et al. 2016), as Hugging Face transformers 4 defined it: groups of beams that search one
//! after the other at each step, each pushed away from the tokens that earlier groups chose.

use super::{Next, Turn, candidates, length, not_numbers, nothing_left};
use crate::processors::softmax::log_softmax;
use crate::{EarlyStopping, Finish, Generated};

const NEVER: f32 = -1.0e9;

/// A diverse beam search under way.
#[derive(Debug)]
pub(crate) struct Groups {
    list: Vec<Group>,
    size: usize,
    row: Vec<f32>,
}

#[derive(Debug, Default)]
struct Group {
    running: Vec<f32>,
    ended: Vec<(f64, Generated)>,
    done: bool,
}

/// A continuation of a beam of the group: its score, the lane that it continues, and its token.
type Candidate = (f32, usize, u32);

impl Groups {
    pub fn new(beams: usize, groups: usize) -> Self {
        let size = beams / groups.max(1);
        let mut running = vec![NEVER; size];
        running[0] = 0.0;
        let group = || Group { running: running.clone(), ..Group::default() };
        Self { list: (0..groups).map(|_| group()).collect(), size, row: Vec::new() }
    }

    pub fn step(&mut self, turn: &mut Turn<'_>, rows: &mut [f32]) -> Result<Next, String> {
        let width = rows.len() / turn.lanes.len();
        let decoding = turn.rules.decoding;
        let pad = decoding.pad.or(decoding.end.first().copied());
        let mut next = Next::default();
        let mut chosen = Vec::new();
        let mut lane = 0;
        for group in &mut self.list {
            if group.done {
                chosen.extend(std::iter::repeat_n(pad, self.size).flatten());
                continue;
            }
            let found = find(group, turn, (rows, width, &mut self.row), (lane, &chosen, self.size))?;
            lane += group.running.len();
            group.choose(turn, &found, self.size, &mut next.lanes);
            chosen
                .extend(next.lanes[next.lanes.len() - group.running.len()..].iter().map(|&(_, token)| token));
        }
        // A group that is done runs no more.
        let mut kept = next.lanes.iter();
        let mut lanes = Vec::new();
        for group in &mut self.list {
            let own: Vec<(usize, u32)> = kept.by_ref().take(group.running.len()).copied().collect();
            if group.done {
                group.running.clear();
            } else {
                lanes.extend(own);
            }
        }
        if turn.lanes[0].len() + 1 >= turn.rules.longest {
            self.end_all(turn, &lanes);
            lanes.clear();
        }
        if lanes.is_empty() && self.list.iter().all(|group| group.ended.is_empty()) {
            return Err(nothing_left());
        }
        next.lanes = lanes;
        Ok(next)
    }

    /// Ends every beam that still runs: there is no more room.
    fn end_all(&mut self, turn: &Turn<'_>, lanes: &[(usize, u32)]) {
        let mut lanes = lanes.iter();
        for group in &mut self.list {
            let running = std::mem::take(&mut group.running);
            for (score, &(lane, token)) in running.into_iter().zip(lanes.by_ref()) {
                group.end(turn, (score, lane, token), (token, Finish::Length), self.size);
            }
        }
    }

    pub fn into_outputs(self) -> Vec<Generated> {
        let mut all: Vec<(f64, Generated)> = self.list.into_iter().flat_map(|group| group.ended).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().rev().map(|(_, generated)| generated).collect()
    }
}

/// The best continuations of a group whose first lane is `first`.
fn find(
    group: &Group,
    turn: &mut Turn<'_>,
    (rows, width, own): (&mut [f32], usize, &mut Vec<f32>),
    (first, chosen, size): (usize, &[u32], usize),
) -> Result<Vec<Candidate>, String> {
    let together = turn.lanes.len() == 1;
    let mut best = std::mem::take(&mut turn.scratch.best);
    best.start(candidates(turn.rules.decoding, size).min(group.running.len() * width));
    let lane = |beam: usize| if together { 0 } else { first + beam };
    for (beam, &score) in group.running.iter().enumerate() {
        let lane = lane(beam);
        let mut row = &mut rows[lane * width..(lane + 1) * width];
        if together {
            // At first all groups read one row, and each changes it in its own way.
            own.clear();
            own.extend_from_slice(row);
            row = own;
        }
        turn.raw(lane, row);
        if log_softmax(row).is_nan() {
            return Err(not_numbers());
        }
        turn.change(lane, chosen, row);
        best.offer(row, score, (beam * width) as u32);
    }
    let found = best
        .found()
        .iter()
        .map(|&(score, at)| (score, lane(at as usize / width), (at as usize % width) as u32));
    let found = found.collect();
    turn.scratch.best = best;
    Ok(found)
}

impl Group {
    /// Ends those of `found` that end, and goes on with the best others.
    fn choose(&mut self, turn: &Turn<'_>, found: &[Candidate], size: usize, next: &mut Vec<(usize, u32)>) {
        self.running.clear();
        // What is ruled out stands last, and is no way on.
        let ways = found.iter().take_while(|found| found.0 > f32::NEG_INFINITY);
        for (rank, &(score, lane, token)) in ways.enumerate() {
            match turn.finish(lane, token) {
                Some(finish @ (Finish::Eos | Finish::Stop)) => {
                    if rank < size {
                        let last = if finish == Finish::Eos { turn.rules.decoding.end[0] } else { token };
                        self.end(turn, (score, lane, token), (last, finish), size);
                    }
                }
                Some(Finish::Length) | None => {
                    self.running.push(score);
                    next.push((lane, token));
                }
            }
            if self.running.len() == size {
                break;
            }
        }
        let best = found.iter().map(|found| found.0).fold(f32::NEG_INFINITY, f32::max);
        self.done = self.running.is_empty() || self.over(turn, best, size);
    }

    /// Keeps a text that ended, if it is among the best.
    fn end(
        &mut self,
        turn: &Turn<'_>,
        (score, lane, _): Candidate,
        (last, finish): (u32, Finish),
        size: usize,
    ) {
        let len = length(turn.new_tokens() + 1, turn.rules.decoding.length_penalty);
        let score = f64::from(score) / len;
        if self.ended.len() == size && score <= self.worst() {
            return;
        }
        let ids = turn.lanes[lane][turn.rules.prompt..].iter().copied().chain([last]).collect();
        let generated = Generated { ids, score: Some(score as f32), finish, ..Generated::default() };
        self.ended.push((score, generated));
        if self.ended.len() > size {
            let worst = self.worst();
            let at = self.ended.iter().position(|&(score, _)| score == worst).unwrap_or(0);
            self.ended.remove(at);
        }
    }

    fn worst(&self) -> f64 {
        self.ended.iter().map(|&(score, _)| score).fold(f64::INFINITY, f64::min)
    }

    fn over(&self, turn: &Turn<'_>, best: f32, size: usize) -> bool {
        let decoding = turn.rules.decoding;
        if self.ended.len() < size {
            return false;
        }
        let len = match decoding.early_stopping {
            EarlyStopping::Full => return true,
            EarlyStopping::Never if decoding.length_penalty > 0.0 => turn.rules.longest - turn.rules.prompt,
            EarlyStopping::Never | EarlyStopping::Likely => turn.new_tokens() + 1,
        };
        self.worst() >= f64::from(best) / length(len, decoding.length_penalty)
    }
}
