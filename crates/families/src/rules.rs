//! Which tensor of a file is which of our parameters, as data.

/// Our parameter `ours` is their tensor `theirs`, changed as `how` says.
///
/// In both names `{n}` stands for one number, the same on both sides; `{wb}` for `weight` or `bias`; `{norm}` for our `gain`
/// or `bias`, which are their `weight` or `bias`. Of several rules for one parameter the first whose tensor exists counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Our name.
    pub ours: String,
    /// Their name.
    pub theirs: String,
    /// What is done to it.
    pub how: How,
}

/// What is done to a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// Nothing.
    Same,
    /// Rows become columns (GPT-2 stores `[in, out]`).
    Transposed,
    /// Part `part` of `of` equal parts of its rows: fused q, k and v.
    Part {
        /// Which one.
        part: usize,
        /// Of how many.
        of: usize,
    },
    /// The rows `from..to`: fused q, k and v of different sizes.
    Rows {
        /// The first.
        from: usize,
        /// The one after the last.
        to: usize,
    },
    /// The same of its columns, which then become rows.
    TransposedPart {
        /// Which one.
        part: usize,
        /// Of how many.
        of: usize,
    },
    /// Rows are `heads` groups of `of` parts; part `part` of each group (GPT-NeoX).
    HeadPart {
        /// How many groups.
        heads: usize,
        /// Which part.
        part: usize,
        /// Of how many.
        of: usize,
    },
    /// All rows one after the other, as one vector (Transformer-XL's u and v, a row for each head).
    Flattened,
    /// 1 is added (Gemma's gains).
    PlusOne,
    /// One row more at the end, of this number: a token that the file does not have.
    RowMore(f32),
    /// A nought for each of its rows: a bias that the file does not have.
    Noughts,
    /// A nought for each of its rows, and then this number: a bias that the file does not have.
    NoughtsThen(f32),
}

/// `ours` is `theirs`.
pub(crate) fn rule(ours: &str, theirs: &str) -> Rule {
    how(ours, theirs, How::Same)
}

/// `ours` is `theirs`, changed.
pub(crate) fn how(ours: &str, theirs: &str, how: How) -> Rule {
    Rule { ours: ours.to_owned(), theirs: theirs.to_owned(), how }
}

impl Rule {
    /// Their name of our parameter `name`, if this rule is about it.
    pub fn theirs(&self, name: &str) -> Option<String> {
        let mut number = None;
        let mut end = None;
        let (mut pattern, mut rest) = (self.ours.as_str(), name);
        while let Some(at) = pattern.find('{') {
            rest = rest.strip_prefix(&pattern[..at])?;
            let close = at + pattern[at..].find('}')?;
            match &pattern[at + 1..close] {
                "n" => {
                    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                    number = Some(rest.get(..digits).filter(|digits| !digits.is_empty())?);
                    rest = &rest[digits..];
                }
                "wb" => {
                    end = Some(["weight", "bias"].into_iter().find(|end| *end == rest)?);
                    rest = "";
                }
                "norm" => {
                    let ends = [("gain", "weight"), ("bias", "bias")];
                    end = Some(ends.into_iter().find(|(ours, _)| *ours == rest)?.1);
                    rest = "";
                }
                _ => return None,
            }
            pattern = &pattern[close + 1..];
        }
        (pattern == rest).then(|| {
            let theirs = self.theirs.replace("{n}", number.unwrap_or_default());
            theirs.replace("{wb}", end.unwrap_or_default()).replace("{norm}", end.unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_translates_numbers_and_ends() {
        let norm =
            rule("source.{n}.attend.norm_out.{norm}", "encoder.layer.{n}.attention.output.LayerNorm.{norm}");
        assert_eq!(
            norm.theirs("source.11.attend.norm_out.gain").as_deref(),
            Some("encoder.layer.11.attention.output.LayerNorm.weight")
        );
        assert_eq!(norm.theirs("source.x.attend.norm_out.gain"), None);
        assert_eq!(norm.theirs("source.1.attend.norm_out.gain.more"), None);
        let query = rule("source.{n}.attend.query.{wb}", "h.{n}.q.{wb}");
        assert_eq!(query.theirs("source.0.attend.query.bias").as_deref(), Some("h.0.q.bias"));
        assert_eq!(query.theirs("source.0.attend.query.gain"), None);
    }
}
