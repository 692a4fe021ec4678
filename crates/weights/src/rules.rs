//! How the tensors of one family become another's: names, cuts and layouts, as data.
//!
//! Rules know nothing of models. A family writes down a list of them, [`Weights::remap`](crate::Weights::remap) follows
//! it, and no number moves before it is read.

/// An ordered list of rules. Each sees the names that the rules before it left.
///
/// ```
/// # use glassformer_weights::Rules;
/// // GPT-2 keeps query, key and value in one matrix, transposed.
/// let rules = Rules::new()
///     .transpose("h.*.attn.c_attn.weight")
///     .split("h.*.attn.c_attn.weight", ["decoder.*.query", "decoder.*.key", "decoder.*.value"])
///     .rename("wte.weight", "embed")
///     .tie("embed", "head");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Vec<Rule>);

/// One rule: for which tensors, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The names that it is for. `*` stands for one or more characters other than `.` and `/`, `**` for any characters
    /// or none. In a name that an action gives, the same marks stand, one after another, for what they stood for here.
    pub pattern: String,
    /// What happens to each tensor of such a name.
    pub action: Action,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Calls it something else, or keeps its name by saying it again.
    Rename(String),
    /// Leaves it out on purpose.
    Drop,
    /// Exchanges its last two dimensions (GPT-2's `Conv1D` is `[in, out]`).
    Transpose,
    /// Divides its rows into named parts, each of a share of them.
    ///
    /// The rows are `groups` groups of the same layout, and each part takes its share from every group. One group: the
    /// parts follow one another (GPT-2, BERT in one matrix). As many groups as heads: query, key and value of a head are
    /// neighbours (GPT-NeoX, BLOOM). As many as key heads, with several shares for the query: grouped attention in one
    /// matrix (InternLM2).
    Split {
        /// The number of groups.
        groups: usize,
        /// The parts in their order, and how many shares each has.
        parts: Vec<(String, usize)>,
    },
    /// Reorders the rows of a query or key for another way of rotating them.
    Rotary {
        /// The heads that the rows belong to.
        heads: usize,
        /// The way that is wanted; the rows are laid out for the other.
        to: Pairing,
    },
    /// Adds a constant to every number (Gemma scales by 1 + γ and stores γ).
    Add(f32),
    /// Gives it a second name, instead of any tensor that had it: an output projection that is the embedding.
    Tie(String),
}

/// Which two rows of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Row i and row i + half: Hugging Face, GPT-NeoX.
    Halves,
    /// Rows 2i and 2i + 1: LLaMA as it was published, GGUF's `llama`, GPT-J.
    Neighbours,
}

impl Rules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// With [`Action::Rename`].
    #[must_use]
    pub fn rename(self, pattern: &str, name: &str) -> Self {
        self.with(pattern, Action::Rename(name.into()))
    }

    /// With [`Action::Rename`] to the same name: without a rule a tensor is left over.
    #[must_use]
    pub fn keep(self, pattern: &str) -> Self {
        self.rename(pattern, pattern)
    }

    /// With [`Action::Drop`].
    #[must_use]
    pub fn drop(self, pattern: &str) -> Self {
        self.with(pattern, Action::Drop)
    }

    /// With [`Action::Transpose`].
    #[must_use]
    pub fn transpose(self, pattern: &str) -> Self {
        self.with(pattern, Action::Transpose)
    }

    /// With [`Action::Split`] into equal parts that follow one another.
    #[must_use]
    pub fn split<const PARTS: usize>(self, pattern: &str, parts: [&str; PARTS]) -> Self {
        self.split_groups(pattern, 1, &parts.map(|name| (name, 1)))
    }

    /// With [`Action::Split`].
    #[must_use]
    pub fn split_groups(self, pattern: &str, groups: usize, parts: &[(&str, usize)]) -> Self {
        let parts = parts.iter().map(|&(name, share)| (name.to_owned(), share)).collect();
        self.with(pattern, Action::Split { groups, parts })
    }

    /// With [`Action::Rotary`].
    #[must_use]
    pub fn rotary(self, pattern: &str, heads: usize, to: Pairing) -> Self {
        self.with(pattern, Action::Rotary { heads, to })
    }

    /// With [`Action::Add`].
    #[must_use]
    pub fn add(self, pattern: &str, constant: f32) -> Self {
        self.with(pattern, Action::Add(constant))
    }

    /// With [`Action::Tie`].
    #[must_use]
    pub fn tie(self, pattern: &str, name: &str) -> Self {
        self.with(pattern, Action::Tie(name.into()))
    }

    fn with(mut self, pattern: &str, action: Action) -> Self {
        self.0.push(Rule { pattern: pattern.into(), action });
        self
    }
}

/// A longer name matches no pattern: it is no model's, and trying would take long.
const LONGEST_NAME: usize = 512;

/// What the marks of `pattern` stand for in `name`, if it is such a name.
pub(crate) fn matches<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
    let mut found = Vec::new();
    (name.len() <= LONGEST_NAME && find(pattern, name, &mut found)).then_some(found)
}

fn find<'n>(pattern: &str, name: &'n str, found: &mut Vec<&'n str>) -> bool {
    let Some(at) = pattern.find('*') else { return pattern == name };
    let (literal, rest) = pattern.split_at(at);
    let Some(name) = name.strip_prefix(literal) else { return false };
    let (rest, any) = match rest.strip_prefix("**") {
        Some(rest) => (rest, true),
        None => (&rest[1..], false),
    };
    let longest = if any { name.len() } else { name.find(['.', '/']).unwrap_or(name.len()) };
    let ends = (usize::from(!any)..=longest).filter(|&end| name.is_char_boundary(end));
    for end in ends {
        let (this, next) = name.split_at(end);
        found.push(this);
        if find(rest, next, found) {
            return true;
        }
        found.pop();
    }
    false
}

/// `name` with its marks replaced by what they stood for, or the reason why not.
pub(crate) fn fill(name: &str, found: &[&str]) -> Result<String, String> {
    let mut found = found.iter();
    let mut filled = String::new();
    let mut rest = name;
    while let Some(at) = rest.find('*') {
        let Some(this) = found.next() else {
            return Err(format!("{name:?} has more marks than the pattern"));
        };
        filled.push_str(&rest[..at]);
        filled.push_str(this);
        rest = rest[at..].trim_start_matches("**").trim_start_matches('*');
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_for_a_part_of_a_name_and_two_for_any_text() {
        let cases: [(&str, &str, Option<&[&str]>); 12] = [
            ("w", "w", Some(&[])),
            ("w", "ww", None),
            ("h.*.w", "h.12.w", Some(&["12"])),
            ("h.*.w", "h..w", None),
            ("h.*.w", "h.1.2.w", None),
            ("h/*/w", "h/a/w", Some(&["a"])),
            ("model.**", "model.a.b", Some(&["a.b"])),
            ("**.weight", "a.b.weight", Some(&["a.b"])),
            ("**", "", Some(&[""])),
            ("*.*", "é.ü", Some(&["é", "ü"])),
            ("layer_*.w*", "layer_3.w1", Some(&["3", "1"])),
            ("**.*.**", "a.b.c", Some(&["a", "b", "c"])),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name).as_deref(), expected, "{pattern} {name}");
        }
        assert_eq!(matches("**", &"x".repeat(LONGEST_NAME + 1)), None);
    }

    #[test]
    fn marks_in_a_new_name_are_filled_in_order() {
        assert_eq!(fill("a.*.b.*", &["1", "2"]), Ok("a.1.b.2".into()));
        assert_eq!(fill("**", &["x.y"]), Ok("x.y".into()));
        assert_eq!(fill("fixed", &["x"]), Ok("fixed".into()));
        assert!(fill("*.*", &["x"]).is_err());
    }
}
