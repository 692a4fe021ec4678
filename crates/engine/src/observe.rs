//! Watching a search: what each rule made of the scores, what was chosen, and what beams were left behind. Whoever explains a text
//! watches; nothing depends on it, and without an observer nothing is done for it.

use std::fmt;

use crate::Finish;

/// Who watches a request's search. It is told on the thread that takes the steps, so it must not wait for anything.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Something happened.
    fn observe(&self, seen: Observed<'_>);
}

/// What happens in a search, in this order for each token: the scores of each lane, stage by stage, and then what was chosen.
#[derive(Debug)]
#[non_exhaustive]
pub enum Observed<'o> {
    /// The scores of a lane's next token.
    Scores {
        /// The lane: a sequence that the search follows.
        lane: usize,
        /// How many tokens the lane has written.
        written: usize,
        /// What was done to the scores last.
        stage: Stage,
        /// The scores, one for each token of the vocabulary; what may not come is −∞.
        scores: &'o [f32],
    },
    /// A sequence goes on with this token.
    Chosen {
        /// Which of the returned sequences.
        sequence: usize,
        /// The lane whose scores it was chosen from.
        lane: usize,
        /// The token.
        token: u32,
    },
    /// Beams were continued.
    Beams {
        /// Which group of beams.
        group: usize,
        /// How many tokens the continuations have written.
        written: usize,
        /// The best continuations of all beams, best first.
        found: &'o [Continuation],
    },
}

/// A continuation of a beam by one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Continuation {
    /// The lane that it continues.
    pub lane: usize,
    /// The token.
    pub token: u32,
    /// What the token adds to the sum: its log-probability after all rules.
    pub logprob: f32,
    /// The sum of log-probabilities.
    pub sum: f32,
    /// Why it ends here, if it does.
    pub finish: Option<Finish>,
    /// Where it ended: what is compared with other texts that ended.
    pub ended: Option<Ended>,
    /// The lane that it is in the next step, if it goes on.
    pub next: Option<usize>,
}

/// A beam that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// How many tokens it has written, the last one included.
    pub length: usize,
    /// What its sum is divided by: the length to the power of the length penalty.
    pub divisor: f64,
    /// The quotient.
    pub score: f32,
    /// Whether it was among the best that had ended by then.
    pub kept: bool,
}

/// What is done to a row of scores before a token is chosen from it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Nothing: the model's scores.
    Raw,
    /// Scores became log-probabilities, and were led away from others ([`Decoding::guidance`](crate::Decoding::guidance)).
    Guidance,
    /// Runs of tokens became likelier or less likely.
    SequenceBias,
    /// What earlier groups of beams chose became less likely.
    Diversity,
    /// The source's tokens became likelier or less likely.
    EncoderRepetition,
    /// What has occurred became less likely.
    Repetition,
    /// What was written became less likely, once or each time.
    Occurrence,
    /// What would repeat a run of tokens was ruled out.
    NoRepeatNgram,
    /// What would repeat a run of the source was ruled out.
    EncoderNoRepeatNgram,
    /// Runs of tokens were ruled out.
    BadWords,
    /// An end was ruled out: the text is too short.
    MinLength,
    /// All but the token that comes first were ruled out.
    ForcedFirst,
    /// All but the tokens that come last were ruled out.
    ForcedLast,
    /// What is not finite was replaced.
    RemoveInvalid,
    /// The end became likelier with each token.
    LengthDecay,
    /// Tokens were ruled out.
    Suppress,
    /// Tokens were ruled out at the beginning.
    BeginSuppress,
    /// What the form of the text does not allow was ruled out.
    Form,
    /// Scores were divided.
    Temperature,
    /// Those were kept that hold a share of the entropy.
    TopH,
    /// The likeliest were kept.
    TopK,
    /// The likeliest were kept that together have a probability.
    TopP,
    /// Those were kept that have a share of the likeliest one's probability.
    MinP,
    /// The most typical were kept.
    TypicalP,
    /// What is too unlikely was left out.
    Epsilon,
    /// The same, by a bound that follows the entropy.
    Eta,
    /// Scores were made log-probabilities again.
    Renormalize,
}

impl Stage {
    /// Its name, as options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Guidance => "guidance",
            Self::SequenceBias => "sequence_bias",
            Self::Diversity => "diversity_penalty",
            Self::EncoderRepetition => "encoder_repetition_penalty",
            Self::Repetition => "repetition_penalty",
            Self::Occurrence => "presence_and_frequency_penalty",
            Self::NoRepeatNgram => "no_repeat_ngram",
            Self::EncoderNoRepeatNgram => "encoder_no_repeat_ngram",
            Self::BadWords => "bad_words",
            Self::MinLength => "min_length",
            Self::ForcedFirst => "forced_first",
            Self::ForcedLast => "forced_last",
            Self::RemoveInvalid => "remove_invalid",
            Self::LengthDecay => "length_decay",
            Self::Suppress => "suppress",
            Self::BeginSuppress => "begin_suppress",
            Self::Form => "form",
            Self::Temperature => "temperature",
            Self::TopH => "top_h",
            Self::TopK => "top_k",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::TypicalP => "typical_p",
            Self::Epsilon => "epsilon",
            Self::Eta => "eta",
            Self::Renormalize => "renormalize",
        }
    }
}
