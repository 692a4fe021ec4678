//! Guessing ahead (speculative decoding, Leviathan et al. 2023): a cheap guess at the next tokens, which the model reads in one step
//! beside the last one that was written.
//!
//! A guess decides nothing. At each place the model's own row of scores gives a token as it would without the draft, by the same rules
//! and the same random number; while that is the drafted one, the next row is right as well. So drafts change no bit of a result,
//! drawn or not. The usual rule, which accepts a drafted token by chance, keeps only the distribution.

mod look_up;
mod model;
mod pace;

use crate::generate::{Prepared, Reading};
use crate::{Draft, Request};

pub(crate) use model::{DraftModel, Wanted};

use look_up::LookUp;
use pace::Pace;

/// Rows of drafts in one step at most, of all requests together: their scores take memory. What is copied word for word is read by
/// sixteen rows at a time, the rows of a tile.
pub(crate) const MOST_DRAFTED: usize = 15;

/// How likely all of a draft must be where a step has one row. A step of two rows costs up to 1.8 of one (weights of four bits, read
/// from the cache), one of eight rows up to 2.8.
const LEAST_CHANCE: f64 = 0.7;

/// Where the guesses of a request come from.
#[derive(Debug)]
pub(crate) enum Guess {
    /// It is written token by token.
    Never,
    /// Its own text.
    LookUp(LookUp),
    /// The draft model of the session.
    Model(Pace),
}

impl Guess {
    /// Where those of `request` come from: only one sequence that does not look at others can be guessed, in a model that reads several
    /// rows with the same bits as one after the other.
    pub fn of(request: &Request, prepared: &Prepared) -> Self {
        let decoding = &request.decoding;
        if decoding.width() != 1 || prepared.reading != Reading::Pieces {
            return Self::Never;
        }
        match decoding.draft {
            Draft::Never => Self::Never,
            Draft::LookUp => {
                let mut look_up = LookUp::default();
                let [source, target] = prepared.limits.vocabularies;
                if source == target {
                    look_up.read(&request.source);
                }
                look_up.read(&request.prompt);
                Self::LookUp(look_up)
            }
            Draft::Model => Self::Model(Pace::default()),
        }
    }

    /// Notes that `token` was written.
    pub fn written(&mut self, token: u32) {
        match self {
            Self::Never | Self::Model(_) => {}
            Self::LookUp(look_up) => look_up.written(token),
        }
    }
}

/// How likely a draft must be in a step of `rows` rows without it: a row that is read for nothing costs nearly as much as one that
/// writes, once there are some.
pub(crate) fn least_chance(rows: usize) -> f64 {
    let rows = rows.max(1) as f64;
    LEAST_CHANCE * rows / (1.0 + LEAST_CHANCE * (rows - 1.0))
}
