//! How likely a model finds a text: token by token, and all in all.

use glassformer_engine::{Asked, Sequence};
use glassformer_formula::Head;
use glassformer_tokens::{Encoding, Special};

use crate::score::best;
use crate::text_encoder::vocabulary;
use crate::{Error, Input, Long, TextEncoder};

/// How likely a text is.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood {
    /// Each token that was scored.
    pub tokens: Vec<ScoredToken>,
    /// The sum of the logarithms.
    pub total: f64,
    /// The likeliest tokens at the place of each, with theirs, where they were asked for.
    pub others: Vec<Vec<(u32, f32)>>,
}

/// A token that was scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredToken {
    /// Its id.
    pub id: u32,
    /// The logarithm of its probability given those before it; for encoders, given all others (pseudo-likelihood, Salazar et al.
    /// 2019).
    pub logprob: f32,
}

impl Likelihood {
    /// e to the minus mean of the logarithms.
    pub fn perplexity(&self) -> f64 {
        (-self.total / self.tokens.len().max(1) as f64).exp()
    }
}

/// A row that the head is asked about: whose token it scores, and which one.
struct Question {
    text: usize,
    place: usize,
    token: u32,
}

/// What the model says of a row.
struct Answered {
    place: usize,
    logprob: f32,
    others: Vec<(u32, f32)>,
}

/// What has to run to score texts.
struct Asking<'r> {
    encoder: &'r TextEncoder,
    long: Long,
    sequences: Vec<Sequence>,
    /// For each sequence.
    questions: Vec<Vec<Question>>,
    /// For each text: what is scored of it.
    tokens: Vec<Vec<u32>>,
}

impl TextEncoder {
    /// How likely each text is. Encoder-decoders are given a source and what was written for it, as a pair.
    ///
    /// A decoder's first token has nothing before it and is not scored, unless the tokenizer puts one there.
    ///
    /// # Errors
    /// If the model scores no words, or a text is too long or too short.
    pub fn score<'t>(
        &self,
        inputs: &[impl Into<Input<'t>> + Copy],
        long: Long,
    ) -> Result<Vec<Likelihood>, Error> {
        let words = |head: &Head| matches!(head, Head::Words { .. } | Head::Adaptive { .. });
        self.needs("score", "a head for words", words)?;
        let (sequences, questions, tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut asking = Asking { encoder: self, long, sequences, questions, tokens };
        for (text, &input) in inputs.iter().enumerate() {
            asking.add(text, &input.into())?;
        }
        asking.answer(0)
    }

    /// How likely token ids are that a decoder alone reads: each but the first, given those before it; and at each place the `top`
    /// likeliest.
    ///
    /// # Errors
    /// If the model is no decoder, or there are too many tokens, fewer than two, or one that it does not know.
    pub fn score_tokens(&self, texts: &[Vec<u32>], top: usize) -> Result<Vec<Likelihood>, Error> {
        let words = |head: &Head| matches!(head, Head::Words { .. } | Head::Adaptive { .. });
        self.needs("score", "a head for words", words)?;
        let formula = self.checkpoint().model.formula();
        if formula.source.is_some() {
            return Err(Error::Head { task: "score tokens", needs: "a decoder alone", has: "an encoder" });
        }
        let (limit, known) = (self.longest().unwrap_or(usize::MAX), vocabulary(formula).unwrap_or(0));
        let (sequences, questions, tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut asking = Asking { encoder: self, long: Long::Refuse, sequences, questions, tokens };
        for (text, ids) in texts.iter().enumerate() {
            if ids.len() > limit {
                return Err(Error::Long { text, tokens: ids.len(), limit });
            }
            if let Some(id) = ids.iter().find(|&&id| id as usize >= known) {
                let what = format!("{id} is no id of the model's {known} tokens");
                return Err(Error::Text { text, what, hint: "use ids of its vocabulary".to_owned() });
            }
            asking.tokens_of(text, ids)?;
        }
        asking.answer(top)
    }
}

impl Asking<'_> {
    /// What has to run to score one text, by the kind of model.
    fn add(&mut self, text: usize, input: &Input<'_>) -> Result<(), Error> {
        let bad = |what: &str, hint: &str| Error::Text { text, what: what.to_owned(), hint: hint.to_owned() };
        let formula = self.encoder.checkpoint().model.formula();
        match (formula.source.is_some(), formula.target.is_some(), input) {
            (true, true, Input::Pair(source, target)) => self.pair(text, source, target),
            (true, true, Input::One(_)) => {
                Err(bad("this model reads a source and scores a target", "give both, with a tab between"))
            }
            (_, _, Input::Pair(..)) => Err(bad("this model scores one text", "give it alone")),
            (false, _, Input::One(_)) => self.continued(text, input),
            (true, false, Input::One(_)) => self.masked(text, input),
        }
    }

    /// Runs everything. At each place the `top` likeliest tokens are told, too.
    fn answer(self, top: usize) -> Result<Vec<Likelihood>, Error> {
        let Asking { encoder, sequences, questions, tokens, .. } = self;
        let mut found: Vec<Vec<Answered>> = tokens.iter().map(|_| Vec::new()).collect();
        // An adaptive head gives logarithms of probabilities already.
        let adaptive = matches!(encoder.checkpoint().model.formula().head, Head::Adaptive { .. });
        encoder.run_sequences(&sequences, "logits", |index, logits| {
            let width = logits.len() / questions[index].len().max(1);
            for (row, question) in logits.chunks_exact(width.max(1)).zip(&questions[index]) {
                let log = |token: usize| if adaptive { row[token] } else { log_softmax(row, token) };
                let others = if top > 0 { best(row, top) } else { Vec::new() };
                let others = others.into_iter().map(|token| (token as u32, log(token))).collect();
                let logprob = log(question.token as usize);
                found[question.text].push(Answered { place: question.place, logprob, others });
            }
        })?;
        let likelihood = |(tokens, mut found): (Vec<u32>, Vec<Answered>)| {
            found.sort_by_key(|answered| answered.place);
            let total = found.iter().map(|answered| f64::from(answered.logprob)).sum();
            let scored = |(id, answered): (u32, &Answered)| ScoredToken { id, logprob: answered.logprob };
            let scored = tokens.into_iter().zip(&found).map(scored).collect();
            Likelihood { tokens: scored, total, others: found.into_iter().map(|one| one.others).collect() }
        };
        Ok(tokens.into_iter().zip(found).map(likelihood).collect())
    }

    /// A decoder alone: each token, given those before it.
    fn continued(&mut self, text: usize, input: &Input<'_>) -> Result<(), Error> {
        let ids = self.encode(text, input)?.ids;
        self.tokens_of(text, &ids)
    }

    fn tokens_of(&mut self, text: usize, ids: &[u32]) -> Result<(), Error> {
        let Some((_, scored)) = ids.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            let what = "there is nothing to score in it".to_owned();
            return Err(Error::Text { text, what, hint: "give a text of two tokens or more".to_owned() });
        };
        let sequence = Sequence { target: ids[..scored.len()].to_vec(), ..Sequence::default() };
        self.ask(text, &sequence, &(0..scored.len()).collect::<Vec<_>>(), scored);
        self.tokens.push(scored.to_vec());
        Ok(())
    }

    /// An encoder-decoder: each token of the target, given the source and the tokens before it.
    fn pair(&mut self, text: usize, source: &str, target: &str) -> Result<(), Error> {
        let source = self.encode(text, &Input::One(source))?.ids;
        let target = self.encoder.tokenizer().encode_target(target, Special::Add)?.ids;
        let start = self.encoder.checkpoint().config.get("decoder_start_token_id");
        let start = start.and_then(serde_json::Value::as_u64).ok_or_else(|| Error::Text {
            text,
            what: "nothing says what its target begins with".to_owned(),
            hint: "add decoder_start_token_id to config.json".to_owned(),
        })?;
        let given = std::iter::once(start as u32).chain(target.iter().copied()).take(target.len());
        let sequence = Sequence { source, target: given.collect(), ..Sequence::default() };
        self.ask(text, &sequence, &(0..target.len()).collect::<Vec<_>>(), &target);
        self.tokens.push(target);
        Ok(())
    }

    /// An encoder alone: each token in a run of its own, hidden from it.
    fn masked(&mut self, text: usize, input: &Input<'_>) -> Result<(), Error> {
        let encoding = self.encode(text, input)?;
        let mask = self.encoder.tokenizer().special().mask.ok_or(Error::Head {
            task: "score",
            needs: "a token for blanks",
            has: "none",
        })?;
        let places = inside(&encoding);
        for &place in &places {
            let mut masked = encoding.clone();
            masked.ids[place] = mask;
            let sequence = self.encoder.sequence(&masked, Asked::All)?;
            self.ask(text, &sequence, &[place], &encoding.ids);
        }
        self.tokens.push(places.iter().map(|&place| encoding.ids[place]).collect());
        Ok(())
    }

    fn encode(&self, text: usize, input: &Input<'_>) -> Result<Encoding, Error> {
        let encoded = self.encoder.encode(&[*input], self.long, self.encoder.longest());
        Ok(encoded.map_err(|error| error.counted_from(text))?.remove(0))
    }

    /// Asks about `rows`, in as many runs as it takes to keep the scores of all words within memory.
    fn ask(&mut self, text: usize, sequence: &Sequence, rows: &[usize], targets: &[u32]) {
        for chunk in rows.chunks(self.encoder.most_asked()) {
            let mut sequence = sequence.clone();
            sequence.target.truncate(chunk.last().map_or(0, |last| last + 1)); // later rows change nothing
            sequence.asked = Asked::Rows(chunk.to_vec());
            self.sequences.push(sequence);
            let question = |&place: &usize| Question { text, place, token: targets[place] };
            self.questions.push(chunk.iter().map(question).collect());
        }
    }
}

/// The places of a text's own tokens.
fn inside(encoding: &Encoding) -> Vec<usize> {
    (0..encoding.len()).filter(|&place| !encoding.special[place]).collect()
}

/// The logarithm of the probability of `token`.
fn log_softmax(logits: &[f32], token: usize) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from(x - largest).exp()).sum();
    let own = logits.get(token).copied().unwrap_or(f32::NEG_INFINITY);
    (f64::from(own - largest) - sum.ln()) as f32
}
