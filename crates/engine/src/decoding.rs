//! How tokens are chosen: every option by a plain name, as data.
//!
//! The defaults are those of Hugging Face transformers 5.22.2, and so is the meaning of every option that it has, so that
//! results are equal. Presence and frequency penalties and stop sequences mean what they mean in `OpenAI`'s interface.

/// The most beams, groups or returned sequences that are accepted: more is a mistake, not a wish.
pub const MOST_BEAMS: usize = 1024;
/// The longest text that can be asked for.
pub const LONGEST: usize = 1 << 24;
/// How many tokens are written where nothing says how many.
pub const NEW_TOKENS: usize = 20;

/// How tokens are chosen and when a text ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoding {
    /// At most that many new tokens; this wins over [`Decoding::max_length`].
    pub max_new_tokens: Option<usize>,
    /// At most that many tokens of the target, prompt and start token included. Without either: 20 new ones, within
    /// [`Decoding::positions`].
    pub max_length: Option<usize>,
    /// No end before that many new tokens; this wins over [`Decoding::min_length`].
    pub min_new_tokens: Option<usize>,
    /// No end before the target has that many tokens, prompt and start token included.
    pub min_length: usize,
    /// How long a target may be where no length is given (`max_position_embeddings`).
    pub positions: Option<usize>,

    /// Beams of a beam search; 1 for none.
    pub beams: usize,
    /// Exponent of the length by which a beam's score is divided.
    pub length_penalty: f64,
    /// When a beam search is over.
    pub early_stopping: EarlyStopping,
    /// Into how many groups the beams are split (diverse beam search, Vijayakumar et al. 2016); 1 for none.
    pub groups: usize,
    /// What a token loses for each beam of earlier groups that chose it at the same step.
    pub diversity_penalty: f64,
    /// How many sequences are returned, best first: of the beams, or independent samples.
    pub returns: usize,

    /// Whether and how tokens are drawn.
    pub sampling: Option<Sampling>,

    /// How far scores are led away from those without the prompt, or after `Request::negative`: the
    /// log-probabilities become `without + guidance · (with − without)`. 1 for nothing (classifier-free guidance, Sanchez et al.
    /// 2023; `guidance_scale`).
    pub guidance: f64,
    /// What the scores of tokens that have occurred, prompt included, are divided by; 1 for nothing (Keskar et al. 2019).
    pub repetition_penalty: f64,
    /// The same against leaving the source's words (of a decoder: the prompt's); 1 for nothing.
    pub encoder_repetition_penalty: f64,
    /// What a token loses once it was generated.
    pub presence_penalty: f64,
    /// What a token loses for each time it was generated.
    pub frequency_penalty: f64,
    /// No run of so many tokens occurs twice; 0 for no such rule.
    pub no_repeat_ngram: usize,
    /// No run of so many tokens of the source (of a decoder: the prompt) occurs; 0 for no such rule.
    pub encoder_no_repeat_ngram: usize,
    /// Runs of tokens that never occur.
    pub bad_words: Vec<Vec<u32>>,
    /// What is added to the score of a token that would complete a run.
    pub sequence_bias: Vec<(Vec<u32>, f32)>,
    /// Tokens that never occur.
    pub suppress: Vec<u32>,
    /// Tokens that are not the first.
    pub begin_suppress: Vec<u32>,
    /// The token that comes first after a prompt of one token (`forced_bos_token_id`).
    pub forced_first: Option<u32>,
    /// The tokens one of which comes last where the longest length is reached (`forced_eos_token_id`).
    pub forced_last: Vec<u32>,
    /// From so many new tokens on, the end becomes likelier by this factor with each token.
    pub length_decay: Option<(usize, f64)>,
    /// Whether scores are made probabilities again after all other rules.
    pub renormalize: bool,
    /// Whether scores that are not finite are replaced.
    pub remove_invalid: bool,

    /// The token that a target begins with where there is an encoder.
    pub start: Option<u32>,
    /// The tokens that end a text.
    pub end: Vec<u32>,
    /// The token of a group of beams that is done, which later groups are pushed away from too; without it, the first
    /// that ends a text.
    pub pad: Option<u32>,
    /// Runs of tokens that end a text too.
    pub stop: Vec<Vec<u32>>,
    /// Whether each token's log-probability is told, and how many of the likeliest others with it.
    pub logprobs: Option<usize>,
    /// Where the next tokens are guessed from, so that several are read in one step. What is written does not depend on it.
    pub draft: Draft,
}

/// Where drafts come from: guesses at the next tokens, which the model reads in one step and keeps as far as they are what it writes
/// (speculative decoding). Results are the same bits, drawn or not; they come faster where guesses are right. Beams, several
/// sequences of one prompt, guidance, and models that must read token by token go without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draft {
    /// No drafts.
    #[default]
    Never,
    /// What followed the last tokens where they stood before: in the prompt, in what was written, and in the source where that has
    /// the same vocabulary (prompt lookup).
    LookUp,
    /// What a smaller model writes ([`Generator::with_draft_model`](crate::Generator::with_draft_model)); without one, no drafts.
    Model,
}

/// When a beam search is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// When it is unlikely that a running beam becomes better than the finished ones (`false`).
    #[default]
    Likely,
    /// As soon as there are as many finished ones as beams (`true`).
    Full,
    /// When no running beam can become better (`"never"`).
    Never,
}

/// How tokens are drawn: which are kept, in the order of these fields, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What scores are divided by; 0, or hardly more, means the most likely token.
    pub temperature: f64,
    /// Of the hundred likeliest, those that hold this share of the entropy are kept (top-H).
    pub top_h: Option<f64>,
    /// How many of the likeliest are kept; 0 for all.
    pub top_k: usize,
    /// The likeliest that together have this probability are kept.
    pub top_p: f64,
    /// Tokens with less than this share of the likeliest one's probability are left out.
    pub min_p: f64,
    /// The most typical that together have this probability are kept (Meister et al. 2022).
    pub typical_p: f64,
    /// Tokens less likely than this are left out; 0 for none.
    pub epsilon: f64,
    /// The same, with a bound that follows the entropy; 0 for none (Hewitt et al. 2022).
    pub eta: f64,
    /// What is drawn: the same seed draws the same text, whatever else is under way.
    pub seed: u64,
}

/// The lowest temperature that is one: scores divided by less may be no numbers.
const COLDEST: f64 = 1e-30;

impl Sampling {
    /// Whether there is anything to draw, and not the most likely token to take.
    pub(crate) fn draws(&self) -> bool {
        self.temperature >= COLDEST
    }
}

impl Sampling {
    /// Divides scores by this.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = temperature;
        self
    }

    /// Keeps so many of the likeliest tokens; 0 keeps all.
    #[must_use]
    pub fn top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Keeps the likeliest tokens that together have this probability.
    #[must_use]
    pub fn top_p(mut self, top_p: f64) -> Self {
        self.top_p = top_p;
        self
    }

    /// Leaves out tokens with less than this share of the likeliest one's probability.
    #[must_use]
    pub fn min_p(mut self, min_p: f64) -> Self {
        self.min_p = min_p;
        self
    }

    /// Draws with this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_h: None,
            top_k: 50,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            epsilon: 0.0,
            eta: 0.0,
            seed: 0,
        }
    }
}

impl Default for Decoding {
    fn default() -> Self {
        Self {
            max_new_tokens: None,
            max_length: None,
            min_new_tokens: None,
            min_length: 0,
            positions: None,
            beams: 1,
            length_penalty: 1.0,
            early_stopping: EarlyStopping::Likely,
            groups: 1,
            diversity_penalty: 0.0,
            returns: 1,
            sampling: None,
            guidance: 1.0,
            repetition_penalty: 1.0,
            encoder_repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram: 0,
            encoder_no_repeat_ngram: 0,
            bad_words: Vec::new(),
            sequence_bias: Vec::new(),
            suppress: Vec::new(),
            begin_suppress: Vec::new(),
            forced_first: None,
            forced_last: Vec::new(),
            length_decay: None,
            renormalize: false,
            remove_invalid: false,
            start: None,
            end: Vec::new(),
            pad: None,
            stop: Vec::new(),
            logprobs: None,
            draft: Draft::Never,
        }
    }
}

impl Decoding {
    /// The most likely token at each step, until `end` or so many tokens.
    pub fn greedy(end: Option<u32>, max_new_tokens: usize) -> Self {
        Self { end: end.into_iter().collect(), max_new_tokens: Some(max_new_tokens), ..Self::default() }
    }

    /// How long a target that begins with `prompt` tokens may become.
    pub fn longest(&self, prompt: usize) -> usize {
        match (self.max_new_tokens, self.max_length) {
            (Some(new), _) => prompt.saturating_add(new),
            (None, Some(length)) => length,
            (None, None) => prompt.saturating_add(NEW_TOKENS).min(self.positions.unwrap_or(usize::MAX)),
        }
    }

    /// How many sequences it runs at once: those that are written and, where they are guided, as many without their prompt.
    pub fn width(&self) -> usize {
        let written = if self.beams > 1 { self.beams } else { self.returns.max(1) };
        if self.is_guided() { written.saturating_mul(2) } else { written }
    }

    /// Whether scores are led away from others.
    pub fn is_guided(&self) -> bool {
        self.guidance != 1.0
    }
}

/// Options one after the other. Every field is public as well.
///
/// ```
/// use glassformer_engine::{Decoding, Sampling};
///
/// let search = Decoding::greedy(Some(2), 100).beams(4).length_penalty(0.6);
/// let story = Decoding::default().max_new_tokens(200).sampling(Sampling::default().temperature(0.8).top_p(0.95).seed(7));
/// assert_eq!((search.beams, story.sampling.map(|sampling| sampling.seed)), (4, Some(7)));
/// ```
impl Decoding {
    /// Writes at most so many tokens.
    #[must_use]
    pub fn max_new_tokens(mut self, max_new_tokens: usize) -> Self {
        self.max_new_tokens = Some(max_new_tokens);
        self
    }

    /// Does not end before so many tokens.
    #[must_use]
    pub fn min_new_tokens(mut self, min_new_tokens: usize) -> Self {
        self.min_new_tokens = Some(min_new_tokens);
        self
    }

    /// Searches with so many beams; see [`Decoding::beams`](#structfield.beams).
    #[must_use]
    pub fn beams(mut self, beams: usize) -> Self {
        self.beams = beams;
        self
    }

    /// Divides the score of a beam by its length to this power.
    #[must_use]
    pub fn length_penalty(mut self, length_penalty: f64) -> Self {
        self.length_penalty = length_penalty;
        self
    }

    /// Returns so many sequences.
    #[must_use]
    pub fn returns(mut self, returns: usize) -> Self {
        self.returns = returns;
        self
    }

    /// Draws tokens as `sampling` says, instead of taking the likeliest.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = Some(sampling);
        self
    }

    /// Leads scores away from those without the prompt.
    #[must_use]
    pub fn guidance(mut self, guidance: f64) -> Self {
        self.guidance = guidance;
        self
    }

    /// Divides the scores of tokens that have occurred.
    #[must_use]
    pub fn repetition_penalty(mut self, repetition_penalty: f64) -> Self {
        self.repetition_penalty = repetition_penalty;
        self
    }

    /// Lets no run of so many tokens occur twice.
    #[must_use]
    pub fn no_repeat_ngram(mut self, no_repeat_ngram: usize) -> Self {
        self.no_repeat_ngram = no_repeat_ngram;
        self
    }

    /// Begins a target with this token, where there is an encoder.
    #[must_use]
    pub fn start(mut self, start: u32) -> Self {
        self.start = Some(start);
        self
    }

    /// Ends a text at this token, too.
    #[must_use]
    pub fn end(mut self, end: u32) -> Self {
        self.end.push(end);
        self
    }

    /// Ends a text at this run of tokens, too.
    #[must_use]
    pub fn stop(mut self, stop: Vec<u32>) -> Self {
        self.stop.push(stop);
        self
    }

    /// Tells the log-probability of each token, and so many of the likeliest others.
    #[must_use]
    pub fn logprobs(mut self, logprobs: usize) -> Self {
        self.logprobs = Some(logprobs);
        self
    }

    /// Guesses the next tokens from there.
    #[must_use]
    pub fn draft(mut self, draft: Draft) -> Self {
        self.draft = draft;
        self
    }
}

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which option, and what is wrong with it.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl Decoding {
    /// Everything that is wrong with these options, whatever the model.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        problems.lengths(self);
        problems.beams(self);
        if let Some(sampling) = &self.sampling {
            problems.sampling(sampling);
        }
        problems.penalties(self);
        problems.0
    }
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn refuse(&mut self, wrong: bool, what: String, hint: &str) {
        if wrong {
            self.0.push(Problem { what, hint: hint.to_owned() });
        }
    }

    fn lengths(&mut self, given: &Decoding) {
        for (name, len) in [("max_new_tokens", given.max_new_tokens), ("max_length", given.max_length)] {
            let len = len.unwrap_or(1);
            self.refuse(len == 0, format!("{name} is 0"), "ask for at least one token");
            let what = format!("{name} is {len}, and no text has more than {LONGEST} tokens");
            self.refuse(len > LONGEST, what, "ask for less");
        }
        let what = format!("{} likeliest tokens are asked for beside each one", given.logprobs.unwrap_or(0));
        self.refuse(given.logprobs.is_some_and(|others| others > MOST_BEAMS), what, "ask for at most 1024");
    }

    fn beams(&mut self, given: &Decoding) {
        let counts = [("beams", given.beams), ("returns", given.returns), ("groups", given.groups)];
        for (name, count) in counts {
            let what = format!("{name} is {count}");
            self.refuse(count == 0 || count > MOST_BEAMS, what, "use 1 to 1024");
        }
        let beams = given.beams.max(1);
        let drawn = given.sampling.is_some();
        let what = format!("{} sequences are to be returned of {beams} beams", given.returns);
        self.refuse(beams > 1 && given.returns > beams, what, "search with as many beams, or ask for fewer");
        let what = format!("{} sequences are to be returned of a search that finds one", given.returns);
        self.refuse(beams == 1 && given.returns > 1 && !drawn, what, "search with as many beams, or sample");
        let groups = given.groups.max(1);
        let what = format!("{beams} beams cannot be split into {groups} equal groups");
        self.refuse(!beams.is_multiple_of(groups), what, "use a multiple of the groups");
        self.refuse(
            groups > 1 && drawn,
            "groups of beams do not sample".to_owned(),
            "use one group, or do not sample",
        );
        let what = format!("diversity_penalty is {}", given.diversity_penalty);
        let wrong = !(given.diversity_penalty >= 0.0 && given.diversity_penalty.is_finite());
        self.refuse(wrong, what, "use 0 or more");
        let what = format!("length_penalty is {}", given.length_penalty);
        self.refuse(!given.length_penalty.is_finite(), what, "use a number; 1 divides by the length");
    }

    fn sampling(&mut self, given: &Sampling) {
        let Sampling { temperature, top_p, min_p, typical_p, epsilon, eta, .. } = *given;
        let wrong = !(temperature >= 0.0 && temperature.is_finite());
        self.refuse(
            wrong,
            format!("temperature is {temperature}"),
            "use a number above 0; 1 changes nothing",
        );
        let shares = [("top_p", top_p), ("typical_p", typical_p), ("top_h", given.top_h.unwrap_or(1.0))];
        for (name, share) in shares {
            let wrong = !(share > 0.0 && share <= 1.0);
            self.refuse(wrong, format!("{name} is {share}"), "use a number above 0, up to 1; 1 keeps all");
        }
        self.refuse(!(0.0..=1.0).contains(&min_p), format!("min_p is {min_p}"), "use a number from 0 to 1");
        for (name, cut) in [("epsilon", epsilon), ("eta", eta)] {
            let wrong = !(0.0..1.0).contains(&cut);
            self.refuse(wrong, format!("{name} is {cut}"), "use a number from 0, below 1; 0 keeps all");
        }
    }

    fn penalties(&mut self, given: &Decoding) {
        let what = format!("guidance is {}", given.guidance);
        self.refuse(!given.guidance.is_finite(), what, "use a number; 1 changes nothing");
        let factors = [
            ("repetition_penalty", given.repetition_penalty),
            ("encoder_repetition_penalty", given.encoder_repetition_penalty),
            ("the factor of length_decay", given.length_decay.map_or(1.0, |(_, factor)| factor)),
        ];
        for (name, factor) in factors {
            let wrong = !(factor > 0.0 && factor.is_finite());
            self.refuse(wrong, format!("{name} is {factor}"), "use a number above 0; 1 changes nothing");
        }
        let sums =
            [("presence_penalty", given.presence_penalty), ("frequency_penalty", given.frequency_penalty)];
        for (name, penalty) in sums {
            let what = format!("{name} is {penalty}");
            self.refuse(!penalty.is_finite(), what, "use a number; 0 changes nothing");
        }
        let empty = given.bad_words.iter().chain(&given.stop).any(Vec::is_empty);
        let empty = empty || given.sequence_bias.iter().any(|(run, _)| run.is_empty());
        self.refuse(empty, "a run of tokens is empty".to_owned(), "leave it out");
        let wrong = given.sequence_bias.iter().any(|(_, bias)| bias.is_nan());
        self.refuse(wrong, "a bias is not a number".to_owned(), "leave it out");
        for (name, forced) in [("first", given.forced_first.as_slice()), ("last", &given.forced_last)] {
            let wrong = !forced.is_empty() && forced.iter().all(|token| given.suppress.contains(token));
            let what = format!("the forced {name} token is suppressed");
            self.refuse(wrong, what, "force another token, or do not suppress it");
        }
    }
}
