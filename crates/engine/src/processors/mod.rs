//! What happens to a row of scores before a token is chosen from it.
//!
//! Each rule is a small pure function over one row, in the file of its kind; [`Rules`] applies those that were asked for, in
//! the reference implementation's order. A rule that nobody asked for costs nothing.

pub mod bans;
pub mod best;
pub mod filters;
pub mod penalties;
pub mod softmax;

#[cfg(test)]
mod tests;

use crate::{Decoding, Stage};

/// What is used again for each row, so that nothing is allocated per token.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Tokens, sorted: what has occurred.
    pub seen: Vec<u32>,
    /// The tokens that can still be chosen, ascending.
    pub alive: Vec<u32>,
    /// Tokens in another order than their own.
    pub order: Vec<u32>,
    /// A number for each living token.
    pub numbers: Vec<f32>,
    /// The best so far.
    pub best: best::Best,
    /// A row as the model gave it, and log Σ exp of it, where log-probabilities are told.
    pub raw: Vec<f32>,
    /// See [`Scratch::raw`].
    pub sum: f64,
}

/// The rules of one request, with what they need to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'r> {
    /// What was asked for.
    pub decoding: &'r Decoding,
    /// The source's tokens; of a decoder, the prompt's.
    pub source: &'r [u32],
    /// How many tokens the target began with.
    pub prompt: usize,
    /// How long the target may become.
    pub longest: usize,
}

impl Rules<'_> {
    /// Changes the scores `row` of the token after `history` (prompt and new tokens); `penalised` are the tokens that
    /// earlier groups of beams chose at this step. `tell` hears of each rule that was applied.
    pub fn apply(
        &self,
        (history, penalised): (&[u32], &[u32]),
        row: &mut [f32],
        scratch: &mut Scratch,
        tell: &mut impl FnMut(Stage, &[f32]),
    ) {
        let decoding = self.decoding;
        if !decoding.sequence_bias.is_empty() {
            for (run, bias) in &decoding.sequence_bias {
                bans::bias(history, run, *bias, row);
            }
            tell(Stage::SequenceBias, row);
        }
        if decoding.diversity_penalty != 0.0 {
            penalties::diversity(penalised, decoding.diversity_penalty, row);
            tell(Stage::Diversity, row);
        }
        if decoding.encoder_repetition_penalty != 1.0 {
            let penalty = 1.0 / decoding.encoder_repetition_penalty;
            penalties::repetition(self.source, penalty, row, &mut scratch.seen);
            tell(Stage::EncoderRepetition, row);
        }
        if decoding.repetition_penalty != 1.0 {
            penalties::repetition(history, decoding.repetition_penalty, row, &mut scratch.seen);
            tell(Stage::Repetition, row);
        }
        if decoding.presence_penalty != 0.0 || decoding.frequency_penalty != 0.0 {
            let penalty = (decoding.presence_penalty, decoding.frequency_penalty);
            penalties::occurrence(&history[self.prompt..], penalty, row, &mut scratch.seen);
            tell(Stage::Occurrence, row);
        }
        if decoding.no_repeat_ngram > 0 {
            bans::repeated(history, history, decoding.no_repeat_ngram, row);
            tell(Stage::NoRepeatNgram, row);
        }
        if decoding.encoder_no_repeat_ngram > 0 {
            bans::repeated(history, self.source, decoding.encoder_no_repeat_ngram, row);
            tell(Stage::EncoderNoRepeatNgram, row);
        }
        if !decoding.bad_words.is_empty() {
            for run in &decoding.bad_words {
                let ends = run.len() == 1 && decoding.end.contains(&run[0]);
                if !ends {
                    bans::bias(history, run, f32::NEG_INFINITY, row);
                }
            }
            tell(Stage::BadWords, row);
        }
        self.lengths(history.len(), row, tell);
        if decoding.remove_invalid {
            penalties::remove_invalid(row);
            tell(Stage::RemoveInvalid, row);
        }
        if let Some((start, factor)) = decoding.length_decay {
            let beyond = history.len().saturating_sub(start.saturating_add(self.prompt));
            penalties::decay(beyond, factor, &decoding.end, row);
            tell(Stage::LengthDecay, row);
        }
        if !decoding.suppress.is_empty() {
            bans::ban(&decoding.suppress, row);
            tell(Stage::Suppress, row);
        }
        if self.begins(history.len()) && !decoding.begin_suppress.is_empty() {
            bans::ban(&decoding.begin_suppress, row);
            tell(Stage::BeginSuppress, row);
        }
    }

    /// The tokens that are ruled out after `len` tokens, where the rules do nothing else to a row, and nothing is drawn or
    /// told of it.
    pub fn only_bans(&self, len: usize) -> Option<Vec<u32>> {
        let decoding = self.decoding;
        let untouched = decoding.sequence_bias.is_empty()
            && decoding.diversity_penalty == 0.0
            && !decoding.is_guided()
            && decoding.encoder_repetition_penalty == 1.0
            && decoding.repetition_penalty == 1.0
            && decoding.presence_penalty == 0.0
            && decoding.frequency_penalty == 0.0
            && decoding.no_repeat_ngram == 0
            && decoding.encoder_no_repeat_ngram == 0
            && decoding.bad_words.iter().all(|run| run.len() == 1)
            && decoding.length_decay.is_none();
        let asked = decoding.sampling.is_none()
            && decoding.logprobs.is_none()
            && !decoding.renormalize
            && !decoding.remove_invalid;
        let forced = self.forces_first(len) || (len + 1 == self.longest && !decoding.forced_last.is_empty());
        if !untouched || !asked || forced {
            return None;
        }
        let words = decoding.bad_words.iter().flatten().filter(|token| !decoding.end.contains(token));
        let mut banned: Vec<u32> = words.chain(&decoding.suppress).copied().collect();
        if len < self.shortest() {
            banned.extend(&decoding.end);
        }
        if self.begins(len) {
            banned.extend(&decoding.begin_suppress);
        }
        banned.sort_unstable();
        banned.dedup();
        Some(banned)
    }

    /// How long the target must be before it may end.
    fn shortest(&self) -> usize {
        let Decoding { min_new_tokens, min_length, .. } = self.decoding;
        min_new_tokens.map_or(*min_length, |new| self.prompt.saturating_add(new))
    }

    /// Whether the token after `len` others is the one that must come first.
    pub fn forces_first(&self, len: usize) -> bool {
        self.decoding.forced_first.is_some() && len == 1
    }

    /// Whether the token after `len` others is the first that is chosen freely.
    fn begins(&self, len: usize) -> bool {
        let one_later = self.prompt == 1 && self.decoding.forced_first.is_some();
        len == self.prompt + usize::from(one_later)
    }

    /// What depends on how many tokens there are.
    fn lengths(&self, len: usize, row: &mut [f32], tell: &mut impl FnMut(Stage, &[f32])) {
        let decoding = self.decoding;
        if len < self.shortest() {
            bans::ban(&decoding.end, row);
            tell(Stage::MinLength, row);
        }
        if let Some(first) = decoding.forced_first.filter(|_| self.forces_first(len)) {
            bans::force(&[first], row);
            tell(Stage::ForcedFirst, row);
        }
        if len + 1 == self.longest && !decoding.forced_last.is_empty() {
            bans::force(&decoding.forced_last, row);
            tell(Stage::ForcedLast, row);
        }
    }

    /// Leaves those tokens in `row`, and in `scratch.alive`, that may be drawn. What is left out becomes −∞. `tell` hears of each filter
    /// that was applied.
    pub fn filter(&self, row: &mut [f32], scratch: &mut Scratch, tell: &mut impl FnMut(Stage, &[f32])) {
        let Some(sampling) = &self.decoding.sampling else { return };
        // Beams need a way on beside the ends.
        let keep = if self.decoding.beams > 1 { self.decoding.end.len().max(1) + 1 } else { 1 };
        if sampling.temperature != 1.0 && sampling.draws() {
            filters::temperature(sampling.temperature, row);
            tell(Stage::Temperature, row);
        }
        if let Some(top_h) = sampling.top_h {
            filters::top_h(top_h, row, scratch);
            tell(Stage::TopH, row);
        }
        if sampling.top_k > 0 {
            filters::top_k(sampling.top_k.max(keep), row, scratch);
            tell(Stage::TopK, row);
        }
        filters::living(row, &mut scratch.alive);
        if sampling.top_p < 1.0 {
            filters::top_p(sampling.top_p, keep, row, scratch);
            tell(Stage::TopP, row);
        }
        if sampling.min_p > 0.0 {
            filters::min_p(sampling.min_p, keep, row, scratch);
            tell(Stage::MinP, row);
        }
        if sampling.typical_p < 1.0 {
            filters::typical(sampling.typical_p, keep, row, scratch);
            tell(Stage::TypicalP, row);
        }
        if sampling.epsilon > 0.0 && sampling.epsilon < 1.0 {
            filters::epsilon(sampling.epsilon, keep, row, scratch);
            tell(Stage::Epsilon, row);
        }
        if sampling.eta > 0.0 && sampling.eta < 1.0 {
            filters::eta(sampling.eta, keep, row, scratch);
            tell(Stage::Eta, row);
        }
    }

    /// Makes `row` log-probabilities, where that was asked for.
    pub fn finish(&self, row: &mut [f32], tell: &mut impl FnMut(Stage, &[f32])) {
        if self.decoding.renormalize {
            softmax::log_softmax(row);
            tell(Stage::Renormalize, row);
        }
    }
}
