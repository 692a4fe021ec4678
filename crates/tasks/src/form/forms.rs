//! The forms of one model's texts: its vocabulary as a trie, made once, and the forms that were asked for last.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use glassformer_engine::Constraint;
use glassformer_formula::Input;
use glassformer_tokens::{SpecialText, Tokenizer};
use llguidance::api::ParserLimits;
use llguidance::{ParserFactory, TokenParser};
use toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokRxInfo, TokTrie};

use super::matcher::Compiled;
use super::{After, Form};
use crate::{Error, Generate, TextGenerator};

/// How many forms are kept for who asks for them again.
const KEPT: usize = 16;

/// The stack that a form is read on, in bytes. Only what is used of it takes memory.
const STACK: usize = 128 << 20;

/// The most bytes of all tokens together, and of one: what a trie can hold.
const BYTES: usize = 4_000_000;
const TOKEN_BYTES: usize = 512;

/// What forms of one model's texts are made with.
pub(crate) struct Forms {
    factory: ParserFactory,
    /// A bit for each token that is text.
    text: Arc<[u32]>,
    first_space_goes: bool,
    /// The last ones, the newest first.
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    form: Form,
    after: After,
    compiled: Arc<Compiled>,
}

impl TextGenerator {
    /// The form of what follows `prompt`, where the options ask for one.
    pub(crate) fn constraint(
        &self,
        prompt: &[u32],
        options: &Generate,
    ) -> Result<Option<Arc<dyn Constraint>>, Error> {
        let Some(form) = &options.form else { return Ok(None) };
        let forms = if let Some(forms) = self.forms.get() {
            forms
        } else {
            let target = self.checkpoint().model.formula().target.as_ref();
            let count = target.map_or(0, |side| words(&side.input));
            let made = Forms::new(self.tokenizer(), count, form)?;
            self.forms.get_or_init(|| made)
        };
        let begins = || -> Result<bool, Error> {
            Ok(self.reads_source() || self.tokenizer().decode(prompt, SpecialText::Skip)?.is_empty())
        };
        let after = if forms.first_space_goes && begins()? { After::Space } else { After::Nothing };
        Ok(Some(forms.compile(form, after)?))
    }
}

/// How many tokens there are.
fn words(input: &Input) -> usize {
    match input {
        Input::Tokens(tokens) => tokens.vocabulary,
        Input::Patches(_) => 0,
    }
}

impl Forms {
    /// For the texts of a model with `count` tokens; `form` is what was asked for.
    fn new(tokenizer: &Tokenizer, count: usize, form: &Form) -> Result<Self, Error> {
        let Some(found) = tokenizer.token_bytes(count)? else {
            let what = "cannot be kept to by this model: its tokenizer changes texts when they are whole";
            return Err(form.refused(what, "take a model with another tokenizer"));
        };
        let mut tokens = found.tokens;
        for (id, bytes) in (0..).zip(&mut tokens) {
            // This byte is in no text, and a mark of the trie's.
            let marks = bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER);
            // As a byte, the first space of a text would stay.
            let stays = found.first_space_goes && tokenizer.token(id) == Some("<0x20>");
            if bytes.len() > TOKEN_BYTES || marks || stays {
                bytes.clear();
            }
        }
        let size: usize = tokens.iter().map(Vec::len).sum();
        if size == 0 || size > BYTES {
            let what = format!("cannot be kept to by this model: its tokens are {size} bytes");
            return Err(form.refused(what, "take a model with another vocabulary"));
        }
        let mut text = vec![0_u32; count.div_ceil(32)];
        for (id, _) in tokens.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            text[id / 32] |= 1 << (id % 32);
        }
        // Which tokens end a text is the engine's business.
        let trie = TokTrie::from(&TokRxInfo::new(count as u32, INVALID_TOKEN), &tokens);
        let mut factory = ParserFactory::new_simple(&(Arc::new(ApproximateTokEnv::new(trie)) as _))
            .map_err(|error| form.refused(format!("cannot be kept to: {error}"), "take another model"))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Self {
            factory,
            text: text.into(),
            first_space_goes: found.first_space_goes,
            kept: Mutex::default(),
        })
    }

    /// Reads a form, with room for what is nested: the caller's stack may be small.
    fn read(&self, form: &Form, after: After) -> Result<TokenParser, String> {
        let read = || self.factory.create_parser(form.grammar(after)).map_err(|error| error.to_string());
        thread::scope(|scope| {
            let reader = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, read);
            let read = reader.map_err(|error| format!("there is no thread: {error}"))?.join();
            read.unwrap_or_else(|_| Err("its reader panicked".to_owned()))
        })
    }

    /// A form, ready to be followed.
    fn compile(&self, form: &Form, after: After) -> Result<Arc<Compiled>, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().iter().find(|known| known.after == after && known.form == *form) {
            return Ok(known.compiled.clone());
        }
        form.check()?;
        let parser = self.read(form, after).map_err(|said| {
            let first = said.lines().next().unwrap_or("it is broken");
            form.refused(
                format!("cannot be kept to: {first}"),
                "leave that part out, or write it in another way",
            )
        })?;
        let compiled = Arc::new(Compiled::new(parser, self.text.clone()));
        let mut kept = kept();
        kept.push_front(Kept { form: form.clone(), after, compiled: compiled.clone() });
        kept.truncate(KEPT);
        Ok(compiled)
    }
}

/// What a form may cost: some hundredths of a second to begin with and at each token, and some 50 MB.
fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 32_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use glassformer_engine::{Allowed, Matcher};
    use regex_automata::meta::Regex;
    use serde_json::{Value, json};

    use super::*;

    /// Numbers that look as if they were drawn.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }

    fn tokenizer(name: &str) -> Tokenizer {
        Tokenizer::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokens").join(name))
            .unwrap()
    }

    /// The tokens of a text of the form that is written by chance; none where no token could come.
    fn walk(compiled: &Compiled, tokenizer: &Tokenizer, draws: &mut Draws) -> Option<Vec<u32>> {
        let mut matcher: Box<dyn Matcher> = compiled.start();
        let mut ids = Vec::new();
        for _ in 0..400 {
            // Another way is tried first, which this one must not notice.
            let mut other = matcher.fork();
            let Allowed { tokens, end } = other.allowed().unwrap();
            let all = 0..tokens.len() as u32 * 32;
            let open: Vec<u32> = all.filter(|id| tokens[*id as usize / 32] >> (id % 32) & 1 == 1).collect();
            assert!(open.iter().all(|&id| !tokenizer.is_special(id)), "a special token is no text");
            if end && (open.is_empty() || draws.below(3) == 0) {
                return Some(ids);
            }
            if open.is_empty() {
                return None;
            }
            other.push(open[draws.below(open.len())]);
            other.allowed().unwrap();
            let next = open[draws.below(open.len())];
            assert!(matcher.allowed().unwrap().tokens[next as usize / 32] >> (next % 32) & 1 == 1);
            matcher.push(next);
            ids.push(next);
        }
        None
    }

    #[test]
    fn texts_that_are_written_by_chance_have_the_form_in_every_vocabulary() {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "string", "maxLength": 4 }, "b": { "type": "integer", "maximum": 99, "minimum": 0 } },
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        let words = "[a-e]{2,5}( the [a-z]{1,5})?";
        let pattern = Regex::new(&format!("^(?:{words})$")).unwrap();
        let forms = [Form::Regex(words.to_owned()), Form::JsonSchema(schema)];
        let mut draws = Draws(5);
        for name in [
            "gpt2",
            "roberta",
            "json-split",
            "json-unigram",
            "json-fallback",
            "unigram",
            "unigram-bytes",
            "bpe",
            "llama",
            "t5",
        ] {
            let tokenizer = tokenizer(name);
            let count = tokenizer.vocabulary().size();
            let (before, _) = tokenizer.vocabulary().iter().find(|(_, token)| *token == "a").expect(name);
            let made = Forms::new(&tokenizer, count, &forms[0]).unwrap();
            let marks = ["{", "}", "\"", ":"].iter().all(|mark| tokenizer.id(mark).is_some());
            let mut whole = [0; 2];
            for round in 0..40 {
                let form = &forms[round % 2];
                let after =
                    if made.first_space_goes && round % 4 < 2 { After::Space } else { After::Nothing };
                let compiled = made.compile(form, after).unwrap();
                let Some(ids) = walk(&compiled, &tokenizer, &mut draws) else { continue };
                let decode = |ids: &[u32]| tokenizer.decode(ids, SpecialText::Skip).unwrap();
                let text = match after {
                    After::Space => decode(&ids),
                    After::Nothing => {
                        let all: Vec<u32> = [before].into_iter().chain(ids).collect();
                        decode(&all).strip_prefix(&decode(&[before])).expect("the text grows").to_owned()
                    }
                };
                whole[round % 2] += 1;
                if matches!(form, Form::Regex(_)) {
                    assert!(pattern.is_match(&text), "{name}: {text:?}");
                } else {
                    let value: Value = serde_json::from_str(&text).expect(&text);
                    assert!(value["a"].as_str().expect(&text).chars().count() <= 4, "{name}: {text}");
                    assert!(value["b"].as_u64().expect(&text) <= 99, "{name}: {text}");
                }
            }
            assert!(whole[0] > 9, "{name}: only {} texts", whole[0]);
            assert!(whole[1] > 9 || !marks, "{name}: only {} objects", whole[1]);
        }
    }

    #[test]
    fn a_form_is_read_once() {
        let made = Forms::new(&tokenizer("gpt2"), 300, &Form::Json).unwrap();
        let form = |at: usize| Form::Regex(format!("a{{{at}}}"));
        let first = made.compile(&form(1), After::Nothing).unwrap();
        assert!(Arc::ptr_eq(&first, &made.compile(&form(1), After::Nothing).unwrap()));
        assert!(!Arc::ptr_eq(&first, &made.compile(&form(1), After::Space).unwrap()));
        for at in 2..2 + KEPT {
            made.compile(&form(at), After::Nothing).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &made.compile(&form(1), After::Nothing).unwrap()));
        assert_eq!(made.kept.lock().unwrap().len(), KEPT);
    }
}
