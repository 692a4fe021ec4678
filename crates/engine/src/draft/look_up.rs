//! Prompt lookup (Saxena 2023): where the last tokens stood before, what followed them may follow again.
//!
//! A text that is being copied goes on where the copy stands, whatever else begins alike. How often that was right is counted for
//! copies of each length, also while nothing is drafted, so that a text without repetitions drafts nothing and one that begins to
//! copy is noticed within a few tokens.

use std::collections::HashMap;

/// How many tokens must be alike before something is looked up, the longest first. One token says too little: what followed it last
/// followed again one time in ten (English, Python).
const RUNS: [usize; 2] = [3, 2];

/// Up to so many tokens alike are told apart in kinds.
const KINDS: usize = 8;

/// How quickly chances follow what happens.
const RATE: f64 = 0.125;

/// The index of a text that grows.
#[derive(Debug)]
pub(crate) struct LookUp {
    /// Source, prompt and what was written.
    text: Vec<u32>,
    /// What stands behind a run of tokens: the place behind where it stood last.
    behind: HashMap<u64, usize>,
    /// Where the token stands that may come next.
    at: Option<usize>,
    /// How many tokens before it are like the last ones.
    alike: usize,
    /// How likely a token is right, by how many before it are alike.
    chances: [f64; KINDS],
}

impl Default for LookUp {
    fn default() -> Self {
        let (text, behind) = (Vec::new(), HashMap::new());
        // Rather too low where little is alike: it costs a few tokens of a copy, and nothing where there is none.
        let chances = [0.1, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
        Self { text, behind, at: None, alike: 0, chances }
    }
}

impl LookUp {
    /// Appends tokens that nobody guesses.
    pub fn read(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.push(token);
        }
        self.find();
    }

    /// Appends a token that was written, and learns from it.
    pub fn written(&mut self, token: u32) {
        let guessed = self.at.map(|at| (at, self.text[at] == token));
        self.push(token);
        let Some((at, right)) = guessed else { return self.find() };
        let chance = &mut self.chances[kind(self.alike)];
        *chance += RATE * (f64::from(u8::from(right)) - *chance);
        if right {
            (self.at, self.alike) = (Some(at + 1), self.alike + 1);
        } else {
            self.find();
        }
    }

    /// Puts what may come next into `draft`: at most `most` tokens, which are all right with a chance of `least`.
    pub fn draft(&self, most: usize, least: f64, draft: &mut Vec<u32>) {
        let Some(at) = self.at else { return };
        let mut chance = 1.0;
        // What goes on into the draft itself goes round.
        for (ahead, &token) in self.text[at..].iter().cycle().enumerate().take(most) {
            chance *= self.chances[kind(self.alike + ahead)];
            if chance < least {
                return;
            }
            draft.push(token);
        }
    }

    fn push(&mut self, token: u32) {
        for run in RUNS.iter().filter_map(|&len| last(&self.text, len)) {
            self.behind.insert(run, self.text.len());
        }
        self.text.push(token);
    }

    /// Finds where the last tokens stood before.
    fn find(&mut self) {
        (self.at, self.alike) = (None, 0);
        for len in RUNS {
            let Some(&at) = last(&self.text, len).and_then(|run| self.behind.get(&run)) else { continue };
            let [before, now] = [&self.text[..at], &self.text[..]].map(|text| text.iter().rev());
            let alike = before.zip(now).take(KINDS).take_while(|(a, b)| a == b).count();
            // Two runs may share a number.
            if alike >= len {
                return (self.at, self.alike) = (Some(at), alike);
            }
        }
    }
}

/// A number for the last `len` tokens of `text` (FNV-1a).
fn last(text: &[u32], len: usize) -> Option<u64> {
    let run = &text[text.len().checked_sub(len)?..];
    let mix = |hash: u64, &token: &u32| (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01B3);
    Some(run.iter().fold(0xCBF2_9CE4_8422_2325 ^ len as u64, mix))
}

fn kind(alike: usize) -> usize {
    alike.clamp(1, KINDS) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(look_up: &LookUp, least: f64) -> Vec<u32> {
        let mut draft = Vec::new();
        look_up.draft(4, least, &mut draft);
        draft
    }

    #[test]
    fn what_followed_the_last_tokens_is_drafted() {
        let mut look_up = LookUp::default();
        look_up.read(&[1, 2, 3, 4, 5, 6, 7, 9, 3, 4]);
        assert_eq!(draft(&look_up, 0.0), [5, 6, 7, 9]);
        look_up.read(&[8, 1, 2]);
        assert_eq!(draft(&look_up, 0.0), [3, 4, 5, 6]);
        look_up.read(&[70, 80, 70, 80]);
        assert_eq!(draft(&look_up, 0.0), [70, 80, 70, 80], "it goes round");
        // Three tokens count for more than two that stood there later.
        look_up.read(&[30, 4, 60, 2, 3, 4]);
        assert_eq!(draft(&look_up, 0.0), [5, 6, 7, 9]);
        look_up.read(&[4]);
        assert!(draft(&look_up, 0.0).is_empty(), "4 4 never stood there");
    }

    #[test]
    fn a_copy_goes_on_where_it_stands_and_gains_trust() {
        let mut look_up = LookUp::default();
        let said: Vec<u32> = (0..40).collect();
        look_up.read(&said);
        look_up.read(&[90]);
        let drafted = |look_up: &mut LookUp, token: u32| {
            look_up.written(token);
            draft(look_up, 0.7).len()
        };
        let lens: Vec<usize> = (0..20).map(|token| drafted(&mut look_up, token)).collect();
        assert_eq!(lens[..3], [0, 0, 0], "little is alike");
        assert_eq!(lens[12..], [4; 8]);
        assert_eq!(drafted(&mut look_up, 99), 0, "the copy ends");
    }

    #[test]
    fn a_text_that_never_goes_on_as_before_drafts_nothing() {
        let mut look_up = LookUp::default();
        for part in 0..200 {
            // The same three tokens, and each time another one behind them.
            for token in [1, 2, 3, 10 + part] {
                look_up.written(token);
                if part > 20 && token == 3 {
                    assert!(draft(&look_up, 0.5).is_empty(), "part {part}");
                }
            }
        }
    }
}
