//! Sentences in both languages.

use serde::{Deserialize, Serialize};

/// A language that walkthroughs speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lang {
    /// English.
    English,
    /// 中文.
    Chinese,
}

impl Lang {
    /// The language of a locale such as `zh_CN.UTF-8`; English where it is none of ours.
    pub fn of_locale(locale: &str) -> Self {
        if locale.to_ascii_lowercase().starts_with("zh") { Self::Chinese } else { Self::English }
    }
}

/// One text in every language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// In English.
    pub en: String,
    /// In Chinese.
    pub zh: String,
}

impl Text {
    /// The same text in both languages: names and formulas.
    pub fn same(text: impl Into<String>) -> Self {
        let en = text.into();
        Self { zh: en.clone(), en }
    }

    /// The text in `lang`.
    pub fn get(&self, lang: Lang) -> &str {
        match lang {
            Lang::English => &self.en,
            Lang::Chinese => &self.zh,
        }
    }

    /// The text with every `{key}` replaced by its value.
    #[must_use]
    pub fn fill(&self, values: &[(&str, &str)]) -> Self {
        let fill = |text: &str| {
            values
                .iter()
                .fold(text.to_owned(), |text, (key, value)| text.replace(&format!("{{{key}}}"), value))
        };
        Self { en: fill(&self.en), zh: fill(&self.zh) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_chooses_its_language() {
        assert_eq!(Lang::of_locale("zh_CN.UTF-8"), Lang::Chinese);
        assert_eq!(Lang::of_locale("zh"), Lang::Chinese);
        assert_eq!(Lang::of_locale("de_DE.UTF-8"), Lang::English);
        assert_eq!(Lang::of_locale("C"), Lang::English);
    }

    #[test]
    fn placeholders_are_filled_in_both_languages() {
        let text = Text { en: "after {last}".into(), zh: "{last} 之后".into() };
        let filled = text.fill(&[("last", "猫")]);
        assert_eq!((filled.en.as_str(), filled.zh.as_str()), ("after 猫", "猫 之后"));
    }
}
