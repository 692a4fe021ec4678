//! Names that are near what was typed.

use strsim::levenshtein;

/// At most this many names are offered.
const OFFERED: usize = 3;

/// The names in `known` that could have been meant by `typed`, nearest first.
pub fn near<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in known {
        let small = name.to_lowercase();
        // Who forgets or mistakes the organisation means a name all the same.
        let whole = levenshtein(&typed, &small);
        let part = levenshtein(&last(&typed), &last(&small));
        let limit = |text: &str| (text.chars().count() / 4).max(1);
        if whole <= limit(&typed) || part <= limit(&last(&typed)) {
            found.push((whole.min(part + 1), name));
        }
    }
    found.sort_unstable();
    found.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn typing_mistakes_and_forgotten_owners_are_near() {
        let known = ["google-bert/bert-base-uncased", "Helsinki-NLP/opus-mt-zh-en", "org/SmolLM2-135M"];
        assert_eq!(near("google-bert/bert-base-uncasd", known), ["google-bert/bert-base-uncased"]);
        assert_eq!(near("smollm2-135m", known), ["org/SmolLM2-135M"]);
        assert_eq!(near("Other/opus-mt-zh-en", known), ["Helsinki-NLP/opus-mt-zh-en"]);
        assert!(near("openai/whisper-tiny", known).is_empty());
    }
}
