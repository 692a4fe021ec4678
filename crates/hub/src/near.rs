//! Names that are near what was typed.

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
        let whole = distance(&typed, &small);
        let part = distance(&last(&typed), &last(&small));
        let limit = |text: &str| (text.chars().count() / 4).max(1);
        if whole <= limit(&typed) || part <= limit(&last(&typed)) {
            found.push((whole.min(part + 1), name));
        }
    }
    found.sort_unstable();
    found.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// How many letters must be put in, left out or changed to come from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
