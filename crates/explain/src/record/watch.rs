//! What is kept of a search while it runs: of each token the likeliest candidates, and what each rule made of them.

use std::sync::{Mutex, PoisonError};

use glassformer_engine::{Continuation, Observed, Observer, Stage};

use crate::tour::largest;

/// How many candidates of a token are kept.
pub(super) const SHOWN: usize = 20;

/// Watches one request.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Seen>);

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// One for each token of the target that was written.
    pub turns: Vec<Turn>,
    /// The scores of the turn under way: of each lane, stage by stage.
    rows: Vec<Vec<(Stage, Vec<f32>)>>,
}

/// What was seen at one place of the target.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The scores of each lane.
    pub lanes: Vec<Digest>,
    /// The continuations of a beam search, best first.
    pub found: Vec<Continuation>,
}

/// What is kept of a lane's scores.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    /// A fingerprint of the model's own scores.
    pub hash: u64,
    /// How uncertain the model was, in bits.
    pub entropy: f64,
    /// The candidates' ids, the likeliest first.
    pub ids: Vec<u32>,
    /// The rank of each of them among all, counted from 1.
    pub ranks: Vec<usize>,
    /// What each stage made of them.
    pub stages: Vec<StageSeen>,
}

/// What a stage made of the candidates.
#[derive(Clone, Debug)]
pub(super) struct StageSeen {
    pub stage: Stage,
    /// How many tokens can still come.
    pub alive: usize,
    /// log Σ exp of all scores.
    pub sum: f64,
    /// Of each candidate the score.
    pub scores: Vec<f32>,
}

impl Watch {
    /// What was seen so far.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Watch {
    fn observe(&self, seen: Observed<'_>) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Observed::Scores { lane, stage, scores, .. } => {
                if own.rows.len() <= lane {
                    own.rows.resize_with(lane + 1, Vec::new);
                }
                if stage == Stage::Raw {
                    own.rows[lane].clear();
                }
                own.rows[lane].push((stage, scores.to_vec()));
            }
            Observed::Chosen { sequence: 0, lane, token } => {
                let lanes = own.digest(&[(lane, token)]);
                own.turns.push(Turn { lanes, found: Vec::new() });
            }
            Observed::Beams { group: 0, found, .. } => {
                let asked: Vec<(usize, u32)> = found.iter().map(|next| (next.lane, next.token)).collect();
                let lanes = own.digest(&asked);
                own.turns.push(Turn { lanes, found: found.to_vec() });
            }
            _ => {}
        }
    }
}

impl Seen {
    /// What is kept of the rows of this turn; `asked` are tokens of lanes that are kept however unlikely they are.
    fn digest(&mut self, asked: &[(usize, u32)]) -> Vec<Digest> {
        let rows = std::mem::take(&mut self.rows);
        let digest = |(lane, stages): (usize, Vec<(Stage, Vec<f32>)>)| {
            let Some((_, raw)) = stages.first() else { return Digest::default() };
            let mut ids: Vec<u32> = largest(raw, SHOWN).into_iter().map(|id| id as u32).collect();
            let own = asked.iter().filter(|(place, _)| *place == lane).map(|(_, token)| *token);
            for token in own {
                if !ids.contains(&token) && (token as usize) < raw.len() {
                    ids.push(token);
                }
            }
            let ranks = ids.iter().map(|&id| rank(raw, id)).collect();
            let stage = |(stage, row): &(Stage, Vec<f32>)| StageSeen {
                stage: *stage,
                alive: row.iter().filter(|score| **score > f32::NEG_INFINITY).count(),
                sum: log_sum_exp(row),
                scores: ids.iter().map(|&id| row[id as usize]).collect(),
            };
            let (hash, entropy) = (fingerprint(raw), entropy(raw));
            Digest { hash, entropy, ranks, stages: stages.iter().map(stage).collect(), ids }
        };
        rows.into_iter().enumerate().map(digest).collect()
    }
}

/// The rank of `id` among all scores, counted from 1; of equal ones the first comes first.
fn rank(row: &[f32], id: u32) -> usize {
    let (own, place) = (row[id as usize], id as usize);
    let before = |(at, &score): (usize, &f32)| score > own || (score == own && at < place);
    1 + row.iter().enumerate().filter(|&other| before(other)).count()
}

/// log Σ exp of a row of scores, in `f64`.
pub(super) fn log_sum_exp(row: &[f32]) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if most == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let sum: f64 = row.iter().map(|&score| f64::from((score - most).exp())).sum();
    f64::from(most) + sum.ln()
}

/// How uncertain probabilities are that have these scores, in bits.
pub(super) fn entropy(row: &[f32]) -> f64 {
    let sum = log_sum_exp(row);
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let expected: f64 = row
        .iter()
        .filter(|score| **score > f32::NEG_INFINITY)
        .map(|&score| f64::from((score - most).exp()) * f64::from(score))
        .sum();
    let expected = expected / (sum - f64::from(most)).exp();
    ((sum - expected) / std::f64::consts::LN_2).max(0.0)
}

/// A number for the bits of a row (FNV-1a over 32-bit words): equal rows have equal ones.
pub(super) fn fingerprint(row: &[f32]) -> u64 {
    row.iter().fold(0xcbf2_9ce4_8422_2325, |hash, score| {
        (hash ^ u64::from(score.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
