//! Which weights suffer from few bits, by the names that all models give them.

/// Rows of a table from which on it is one of a vocabulary.
const VOCABULARY: usize = 1024;

/// Whether the weight of this name is a table of words, whose rows are looked up and which a head may share.
pub fn is_table(name: &str) -> bool {
    name.contains(".embed.") && name.ends_with(".tokens")
}

/// Whether the weight of this name with so many rows is known to be sensitive: a head, whose errors go straight into the answer,
/// and what is added to the input. A vocabulary is not among them: its scores are compared with each other, and it is half of
/// what a small model reads for each word.
pub fn is_sensitive(name: &str, rows: usize) -> bool {
    if name.starts_with("head.") || is_table(name) {
        return rows < VOCABULARY;
    }
    name.contains(".embed.") && !name.ends_with(".weight")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_are_not_sensitive_and_labels_are() {
        for (name, rows, expected) in [
            ("head.weight", 30522, false),
            ("head.weight", 2, true),
            ("source.embed.tokens", 65001, false),
            ("source.embed.tokens", 33, true),
            ("source.embed.positions", 4096, true),
            ("source.embed.project.weight", 128, false),
            ("target.3.attend.q.weight", 64, false),
        ] {
            assert_eq!(is_sensitive(name, rows), expected, "{name} of {rows} rows");
        }
    }
}
