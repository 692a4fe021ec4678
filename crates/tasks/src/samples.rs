//! Texts as a model reads them, for those who look at what happens inside: comparing two models, and fitting one to few bits.

use glassformer_engine::{Asked, Sequence};

use crate::{Error, Generate, Input, Long, TextEncoder, TextGenerator, silent};

/// Texts that are written at once.
const TOGETHER: usize = 32;

/// The most tokens of a sample: the scores of all words for each take memory.
const LONGEST: usize = 512;

impl TextEncoder {
    /// Texts as this model reads them, with every row asked about. What is too long is cut. The decoder of an encoder-decoder reads the
    /// text too; what [`TextGenerator::samples`] lets it read is nearer to its work.
    ///
    /// # Errors
    /// If a text has nothing in it.
    pub fn samples(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Sequence>, Error> {
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text.as_ref())).collect();
        let longest = self.longest().unwrap_or(LONGEST).min(LONGEST);
        let encoded = self.encode(&inputs, Long::Cut, Some(longest))?;
        let sample = |(index, text)| {
            let sequence = self.sequence(text, Asked::All);
            Ok(self.told(sequence.map_err(|error: Error| error.counted_from(index))?))
        };
        encoded.iter().enumerate().map(sample).collect()
    }

    /// A sequence whose decoder, if there is one beside an encoder, reads the source behind the start token.
    fn told(&self, mut sequence: Sequence) -> Sequence {
        let both = !sequence.source.is_empty() && self.checkpoint().model.formula().target.is_some();
        if both && sequence.target.is_empty() {
            let start = self.checkpoint().config.get("decoder_start_token_id");
            let start = start.and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
            let read = sequence.source.iter().copied();
            sequence.target = std::iter::once(start).chain(read).take(sequence.source.len()).collect();
        }
        sequence
    }
}

impl TextGenerator {
    /// Texts with what this encoder-decoder writes when it reads them, taking the likeliest token each time. What is too long is cut.
    /// `tell` hears of each text that is done.
    ///
    /// # Errors
    /// If a text has nothing in it.
    pub fn samples(&self, texts: &[impl AsRef<str>], tell: &mut dyn FnMut()) -> Result<Vec<Sequence>, Error> {
        let mut options = Generate { long: Long::Cut, ..self.default_options() };
        let decoding = &mut options.decoding;
        (decoding.beams, decoding.groups, decoding.returns) = (1, 1, 1);
        (decoding.diversity_penalty, decoding.sampling) = (0.0, None);
        decoding.max_new_tokens = Some(decoding.max_new_tokens.unwrap_or(LONGEST).min(LONGEST));
        let mut samples = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TOGETHER) {
            let prompts = self.prompts(texts).map_err(|error| error.counted_from(samples.len()))?;
            let requests = prompts.iter().map(|ids| self.request(0, ids.clone(), &options));
            let requests = requests.collect::<Result<Vec<_>, _>>()?;
            for (request, mut written) in
                requests.into_iter().zip(self.write(prompts, &options, &mut silent)?)
            {
                let mut target = request.prompt;
                target.extend(written.remove(0).ids);
                target.pop(); // nothing is read behind the last
                samples.push(Sequence { source: request.source, target, ..Sequence::default() });
                tell();
            }
        }
        Ok(samples)
    }
}
