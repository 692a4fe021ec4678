//! Beam search, as Hugging Face transformers 5 does it: the best of all continuations of all beams go on, and those that end
//! are kept by their score over a power of their length.

use super::sampling::gumbel;
use super::{Next, Short, Turn, candidates, length, not_numbers, nothing_left};
use crate::processors::softmax::log_softmax;
use crate::{Continuation, EarlyStopping, Ended, Finish, Generated, Observed, Sampling};

/// The score of what must not win. All sums with it are f32, as the reference's are.
const NEVER: f32 = -1.0e9;

/// A beam search under way.
#[derive(Debug)]
pub(crate) struct Beams {
    count: usize,
    /// The sums of log-probabilities, best first.
    running: Vec<f32>,
    /// The log-probabilities of each running beam's tokens, where they are asked for.
    logprobs: Vec<Vec<f32>>,
    /// The best that ended, best first.
    ended: Vec<Generated>,
    /// The rows as they were before the rules, where log-probabilities are asked for.
    raw: Vec<f32>,
}

/// A continuation of a beam.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    beam: usize,
    token: u32,
    /// What the token adds.
    logprob: f32,
    score: f32,
    finish: Option<Finish>,
}

impl Beams {
    pub fn new(beams: usize) -> Self {
        // All beams begin alike, so at first only one of them counts.
        let mut running = vec![NEVER; beams];
        running[0] = 0.0;
        Self { count: beams, running, logprobs: vec![Vec::new(); beams], ended: Vec::new(), raw: Vec::new() }
    }

    pub fn step(&mut self, turn: &mut Turn<'_>, rows: &mut [f32]) -> Result<Next, String> {
        let width = rows.len() / turn.lanes.len();
        self.raw.clear();
        for (lane, row) in rows.chunks_mut(width).enumerate() {
            turn.raw(lane, row);
            if log_softmax(row).is_nan() && !turn.rules.decoding.remove_invalid {
                return Err(not_numbers());
            }
            if turn.rules.decoding.logprobs.is_some() {
                self.raw.extend_from_slice(row);
            }
            turn.change(lane, &[], row);
        }
        let found = self.find(turn, rows, width);
        self.follow(turn, &found, width)
    }

    /// The same where the largest scores are enough.
    pub fn step_short(&mut self, turn: &mut Turn<'_>, short: &Short<'_>) -> Result<Next, String> {
        self.raw.clear();
        let most = candidates(turn.rules.decoding, self.count);
        let mut best = std::mem::take(&mut turn.scratch.best);
        best.start(most.min(self.running.len() * short.width));
        for (beam, &score) in self.running.iter().enumerate() {
            let (scores, sum) = short.lane(lane(turn, beam), most);
            if sum.is_nan() {
                return Err(not_numbers());
            }
            let mut scores: Vec<(f32, u32)> = scores.collect();
            // In the order of tokens, so that of equal sums the first token's is kept.
            scores.sort_unstable_by_key(|&(_, token)| token);
            for (log, token) in scores {
                let log = (f64::from(log) - sum) as f32;
                best.insert(log + score, (beam * short.width) as u32 + token);
            }
        }
        let candidate = |&(score, at): &(f32, u32)| {
            let (beam, token) = (at as usize / short.width, at as usize % short.width);
            let logprob = logprob(short, lane(turn, beam), (token as u32, most));
            Candidate { beam, token: token as u32, logprob, score, finish: None }
        };
        let mut found: Vec<Candidate> = best.found().iter().map(candidate).collect();
        turn.scratch.best = best;
        for candidate in &mut found {
            candidate.finish = turn.finish(lane(turn, candidate.beam), candidate.token);
        }
        self.follow(turn, &found, short.width)
    }

    /// How many beams there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps what ended, and says what goes on.
    fn follow(&mut self, turn: &Turn<'_>, found: &[Candidate], width: usize) -> Result<Next, String> {
        let best = found.iter().take(self.count);
        let ended: Vec<Option<Ended>> = best.map(|candidate| self.end(turn, candidate, width)).collect();
        if self.ended.is_empty() && found.iter().all(|candidate| candidate.score == f32::NEG_INFINITY) {
            return Err(nothing_left());
        }
        let going = self.go_on(turn, found, width);
        let over = self.over(turn, found);
        tell(turn, found, &ended, if over { &[] } else { &going });
        let lanes = going.iter().map(|candidate| (lane(turn, candidate.beam), candidate.token));
        Ok(Next { lanes: if over { Vec::new() } else { lanes.collect() }, told: Vec::new() })
    }

    /// The best continuations, or drawn ones, in the order in which they were found.
    fn find(&self, turn: &mut Turn<'_>, rows: &[f32], width: usize) -> Vec<Candidate> {
        let sampling = turn.rules.decoding.sampling.filter(Sampling::draws);
        let place = turn.new_tokens();
        let most = candidates(turn.rules.decoding, self.count).min(self.running.len() * width);
        let lanes: Vec<usize> = (0..self.running.len()).map(|beam| lane(turn, beam)).collect();
        let row = |beam: usize| &rows[lanes[beam] * width..(lanes[beam] + 1) * width];
        let best = &mut turn.scratch.best;
        best.start(most);
        for (beam, &score) in self.running.iter().enumerate() {
            let first = (beam * width) as u32;
            match sampling {
                None => best.offer(row(beam), score, first),
                Some(Sampling { seed, .. }) => {
                    for (token, &log) in (0..).zip(row(beam)) {
                        let draw = u64::from(token) + (place * width) as u64;
                        best.insert(log + score + gumbel(seed, beam, draw), first + token);
                    }
                }
            }
        }
        let candidate = |&(_, at): &(f32, u32)| {
            let (beam, token) = (at as usize / width, at as usize % width);
            let logprob = row(beam)[token];
            let score = logprob + self.running[beam];
            Candidate { beam, token: token as u32, logprob, score, finish: None }
        };
        let mut found: Vec<Candidate> = best.found().iter().map(candidate).collect();
        for candidate in &mut found {
            candidate.finish = turn.finish(lanes[candidate.beam], candidate.token);
        }
        found
    }

    /// Keeps a candidate that ended, if it is among the best that did.
    fn end(&mut self, turn: &Turn<'_>, candidate: &Candidate, width: usize) -> Option<Ended> {
        let finish = candidate.finish?;
        let new = turn.new_tokens() + 1;
        let divisor = length(new, turn.rules.decoding.length_penalty);
        let score = candidate.score / divisor as f32;
        let at = self.ended.partition_point(|other| other.score.unwrap_or(NEVER) >= score);
        // What lives is kept however low a length penalty below zero makes its score; what must not win is not.
        let kept = at < self.count && score.is_finite() && (score > NEVER || candidate.score > NEVER);
        if kept {
            let tokens = turn.lanes[lane(turn, candidate.beam)];
            let ids = tokens[turn.rules.prompt..].iter().copied().chain([candidate.token]).collect();
            let logprobs = self.told(turn, candidate, width);
            self.ended.truncate(self.count - 1);
            self.ended
                .insert(at, Generated { ids, score: Some(score), finish, logprobs, others: Vec::new() });
        }
        Some(Ended { length: new, divisor, score, kept })
    }

    /// The beams of the next step.
    fn go_on(&mut self, turn: &Turn<'_>, found: &[Candidate], width: usize) -> Vec<Candidate> {
        let worsened = |candidate: &Candidate| {
            let score = if candidate.finish.is_some() { candidate.score + NEVER } else { candidate.score };
            Candidate { score, ..*candidate }
        };
        let mut going: Vec<Candidate> = found.iter().map(worsened).collect();
        going.sort_by(|a, b| b.score.total_cmp(&a.score));
        going.truncate(self.count);
        self.logprobs = going.iter().map(|candidate| self.told(turn, candidate, width)).collect();
        self.running.clear();
        self.running.extend(going.iter().map(|candidate| candidate.score));
        going
    }

    /// The log-probabilities of a candidate's tokens.
    fn told(&self, turn: &Turn<'_>, candidate: &Candidate, width: usize) -> Vec<f32> {
        if self.raw.is_empty() {
            return Vec::new();
        }
        let last = self.raw[lane(turn, candidate.beam) * width + candidate.token as usize];
        self.logprobs[candidate.beam].iter().copied().chain([last]).collect()
    }

    /// Whether nothing better can be expected.
    fn over(&self, turn: &Turn<'_>, found: &[Candidate]) -> bool {
        let decoding = turn.rules.decoding;
        let full = self.ended.len() == self.count;
        if found.iter().all(|candidate| candidate.finish.is_some()) {
            return true;
        }
        if self.ended.is_empty() && self.running.first().is_some_and(|&best| best > NEVER) {
            return false;
        }
        let len = match decoding.early_stopping {
            EarlyStopping::Full if full => return true,
            EarlyStopping::Never if decoding.length_penalty > 0.0 => turn.rules.longest - turn.rules.prompt,
            EarlyStopping::Full | EarlyStopping::Never | EarlyStopping::Likely => turn.new_tokens() + 1,
        };
        let hope =
            self.running.first().map_or(NEVER, |best| best / length(len, decoding.length_penalty) as f32);
        let worst = self.ended.last().filter(|_| full).and_then(|last| last.score).unwrap_or(NEVER);
        hope <= worst
    }

    pub fn into_outputs(self) -> Vec<Generated> {
        self.ended
    }
}

/// The log-probability of `token`, which is among the `most` largest of `lane`.
fn logprob(short: &Short<'_>, lane: usize, (token, most): (u32, usize)) -> f32 {
    let (mut scores, sum) = short.lane(lane, most);
    scores.find(|found| found.1 == token).map_or(f32::NEG_INFINITY, |(log, _)| (f64::from(log) - sum) as f32)
}

/// Tells who watches of the continuations `found`, those of them that `ended`, and those that go on.
fn tell(turn: &Turn<'_>, found: &[Candidate], ended: &[Option<Ended>], going: &[Candidate]) {
    if turn.observer.is_none() {
        return;
    }
    let continuation = |(place, candidate): (usize, &Candidate)| {
        let Candidate { beam, token, logprob, score: sum, finish } = *candidate;
        let next = going.iter().position(|next| (next.beam, next.token) == (beam, token));
        let ended = ended.get(place).copied().flatten();
        Continuation { lane: lane(turn, beam), token, logprob, sum, finish, ended, next }
    };
    let found: Vec<Continuation> = found.iter().enumerate().map(continuation).collect();
    turn.observe(Observed::Beams { group: 0, written: turn.new_tokens() + 1, found: &found });
}

/// The lane of a beam: at first all stand in one.
fn lane(turn: &Turn<'_>, beam: usize) -> usize {
    if turn.lanes.len() == 1 { 0 } else { beam }
}
