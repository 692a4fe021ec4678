//! What was read already: the pages of requests that are over are kept until others need them, and a request that begins alike goes on
//! from there.
//!
//! Tokens are compared, not sums of them, so that no two texts can be taken for each other; and only with those of the same owner, so
//! that nobody learns from the time of an answer what somebody else has asked.

use glassformer_graph::{PAGE, Pages};

/// Texts that are kept at once, at most.
const MOST: usize = 1024;

/// Kept texts of one kind of pages.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    texts: Vec<Text>,
    /// Which texts of an owner are kept.
    each: Each,
    /// Counts how often something was kept or found.
    clock: u64,
}

/// Which texts of an owner are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Each {
    /// All of them.
    #[default]
    All,
    /// The last.
    Last,
}

#[derive(Debug)]
struct Text {
    owner: u64,
    tokens: Vec<u32>,
    /// Where its keys and values are: one row for each token.
    table: usize,
    /// When it was wanted last.
    used: u64,
}

impl Kept {
    /// Keeps these of each owner.
    pub fn of(each: Each) -> Self {
        Self { each, ..Self::default() }
    }

    /// Which texts of an owner are kept.
    pub fn each(&self) -> Each {
        self.each
    }

    /// A table that begins with the longest beginning of `tokens` that was read for `owner`, and how long that is.
    pub fn begin(&mut self, pages: &mut Pages, owner: u64, tokens: &[u32]) -> Option<(usize, usize)> {
        let common = |text: &Text| text.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let own = self.texts.iter().enumerate().filter(|(_, text)| text.owner == owner);
        let (len, at) = own.map(|(at, text)| (common(text), at)).max()?;
        // Less than a page is read as fast as it is found.
        (len >= PAGE).then(|| (pages.fork_first(self.touch(at), len), len))
    }

    /// A table of all of `tokens` and nothing else, if that was read for `owner`.
    pub fn whole(&mut self, pages: &mut Pages, owner: u64, tokens: &[u32]) -> Option<usize> {
        let same = |text: &Text| text.owner == owner && text.tokens == tokens;
        let at = self.texts.iter().position(same)?;
        Some(pages.fork(self.touch(at)))
    }

    /// Notes that a text is wanted; its table.
    fn touch(&mut self, at: usize) -> usize {
        self.clock += 1;
        self.texts[at].used = self.clock;
        self.texts[at].table
    }

    /// Keeps `table`, which holds these tokens. Where another text begins so, that one is enough; where this one goes on from others, they
    /// are let go.
    pub fn keep(&mut self, pages: &mut Pages, owner: u64, tokens: Vec<u32>, table: usize) {
        let begins_so = |text: &Text| text.owner == owner && text.tokens.starts_with(&tokens);
        if let Some(at) = self.texts.iter().position(begins_so) {
            self.touch(at);
            return pages.close(table);
        }
        let each = self.each;
        self.let_go_of(pages, |text| {
            text.owner == owner && (each == Each::Last || tokens.starts_with(&text.tokens))
        });
        if self.texts.len() == MOST {
            self.let_go(pages);
        }
        self.clock += 1;
        self.texts.push(Text { owner, tokens, table, used: self.clock });
    }

    /// Lets go of all texts of `owner`.
    pub fn forget(&mut self, pages: &mut Pages, owner: u64) {
        self.let_go_of(pages, |text| text.owner == owner);
    }

    fn let_go_of(&mut self, pages: &mut Pages, is: impl Fn(&Text) -> bool) {
        let (over, left): (Vec<Text>, _) = self.texts.drain(..).partition(is);
        self.texts = left;
        for text in over {
            pages.close(text.table);
        }
    }

    /// Lets go of the text that was not wanted for the longest time. False where there is none.
    pub fn let_go(&mut self, pages: &mut Pages) -> bool {
        let oldest = self.texts.iter().enumerate().min_by_key(|(_, text)| text.used);
        let Some((at, _)) = oldest else { return false };
        pages.close(self.texts.swap_remove(at).table);
        true
    }

    /// Lets go of texts until `need` pages are free. False where they cannot be.
    pub fn make_room(&mut self, pages: &mut Pages, need: usize) -> bool {
        while pages.free() < need {
            if !self.let_go(pages) {
                return false;
            }
        }
        true
    }
}
