//! Languages by name, and how models spell them.
//!
//! Multilingual translators are told languages by tokens, and each family spells them in its own way: M2M100 `__zh__`,
//! NLLB `zho_Hans`, mBART `zh_CN`, Marian `>>cmn_Hans<<`; T5 is told in English. People write `zh`, `zh-Hant`, `Chinese`.

use glassformer_tokens::Tokenizer;

/// A language that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language {
    /// Two letters (ISO 639-1).
    pub two: &'static str,
    /// Three letters (ISO 639-3).
    pub three: &'static str,
    /// The script that it is mostly written in.
    pub script: &'static str,
    /// The country that mBART names with it.
    pub country: &'static str,
    /// Its name in English.
    pub name: &'static str,
}

const fn language(
    two: &'static str,
    three: &'static str,
    script: &'static str,
    country: &'static str,
    name: &'static str,
) -> Language {
    Language { two, three, script, country, name }
}

/// Chinese as it is written in Taiwan, Hong Kong and Macau.
const TRADITIONAL: Language = language("zh", "zho", "Hant", "TW", "Traditional Chinese");

/// The languages that are known by name. Others can be written as the model's own token.
const LANGUAGES: &[Language] = &[
    language("af", "afr", "Latn", "ZA", "Afrikaans"),
    language("am", "amh", "Ethi", "ET", "Amharic"),
    language("ar", "arb", "Arab", "AR", "Arabic"),
    language("az", "azj", "Latn", "AZ", "Azerbaijani"),
    language("be", "bel", "Cyrl", "BY", "Belarusian"),
    language("bg", "bul", "Cyrl", "BG", "Bulgarian"),
    language("bn", "ben", "Beng", "IN", "Bengali"),
    language("bs", "bos", "Latn", "BA", "Bosnian"),
    language("ca", "cat", "Latn", "ES", "Catalan"),
    language("cs", "ces", "Latn", "CZ", "Czech"),
    language("cy", "cym", "Latn", "GB", "Welsh"),
    language("da", "dan", "Latn", "DK", "Danish"),
    language("de", "deu", "Latn", "DE", "German"),
    language("el", "ell", "Grek", "GR", "Greek"),
    language("en", "eng", "Latn", "XX", "English"),
    language("es", "spa", "Latn", "XX", "Spanish"),
    language("et", "est", "Latn", "EE", "Estonian"),
    language("eu", "eus", "Latn", "ES", "Basque"),
    language("fa", "pes", "Arab", "IR", "Persian"),
    language("fi", "fin", "Latn", "FI", "Finnish"),
    language("fr", "fra", "Latn", "XX", "French"),
    language("ga", "gle", "Latn", "IE", "Irish"),
    language("gl", "glg", "Latn", "ES", "Galician"),
    language("gu", "guj", "Gujr", "IN", "Gujarati"),
    language("he", "heb", "Hebr", "IL", "Hebrew"),
    language("hi", "hin", "Deva", "IN", "Hindi"),
    language("hr", "hrv", "Latn", "HR", "Croatian"),
    language("hu", "hun", "Latn", "HU", "Hungarian"),
    language("hy", "hye", "Armn", "AM", "Armenian"),
    language("id", "ind", "Latn", "ID", "Indonesian"),
    language("is", "isl", "Latn", "IS", "Icelandic"),
    language("it", "ita", "Latn", "IT", "Italian"),
    language("ja", "jpn", "Jpan", "XX", "Japanese"),
    language("ka", "kat", "Geor", "GE", "Georgian"),
    language("kk", "kaz", "Cyrl", "KZ", "Kazakh"),
    language("km", "khm", "Khmr", "KH", "Khmer"),
    language("ko", "kor", "Hang", "KR", "Korean"),
    language("lt", "lit", "Latn", "LT", "Lithuanian"),
    language("lv", "lvs", "Latn", "LV", "Latvian"),
    language("mk", "mkd", "Cyrl", "MK", "Macedonian"),
    language("ml", "mal", "Mlym", "IN", "Malayalam"),
    language("mn", "khk", "Cyrl", "MN", "Mongolian"),
    language("mr", "mar", "Deva", "IN", "Marathi"),
    language("ms", "zsm", "Latn", "MY", "Malay"),
    language("my", "mya", "Mymr", "MM", "Burmese"),
    language("ne", "npi", "Deva", "NP", "Nepali"),
    language("nl", "nld", "Latn", "XX", "Dutch"),
    language("no", "nob", "Latn", "NO", "Norwegian"),
    language("pl", "pol", "Latn", "PL", "Polish"),
    language("ps", "pbt", "Arab", "AF", "Pashto"),
    language("pt", "por", "Latn", "XX", "Portuguese"),
    language("ro", "ron", "Latn", "RO", "Romanian"),
    language("ru", "rus", "Cyrl", "RU", "Russian"),
    language("si", "sin", "Sinh", "LK", "Sinhala"),
    language("sk", "slk", "Latn", "SK", "Slovak"),
    language("sl", "slv", "Latn", "SI", "Slovenian"),
    language("so", "som", "Latn", "SO", "Somali"),
    language("sq", "als", "Latn", "AL", "Albanian"),
    language("sr", "srp", "Cyrl", "RS", "Serbian"),
    language("sv", "swe", "Latn", "SE", "Swedish"),
    language("sw", "swh", "Latn", "KE", "Swahili"),
    language("ta", "tam", "Taml", "IN", "Tamil"),
    language("te", "tel", "Telu", "IN", "Telugu"),
    language("th", "tha", "Thai", "TH", "Thai"),
    language("tl", "tgl", "Latn", "XX", "Tagalog"),
    language("tr", "tur", "Latn", "TR", "Turkish"),
    language("uk", "ukr", "Cyrl", "UA", "Ukrainian"),
    language("ur", "urd", "Arab", "PK", "Urdu"),
    language("uz", "uzn", "Latn", "UZ", "Uzbek"),
    language("vi", "vie", "Latn", "VN", "Vietnamese"),
    language("xh", "xho", "Latn", "ZA", "Xhosa"),
    language("yo", "yor", "Latn", "NG", "Yoruba"),
    language("zh", "zho", "Hans", "CN", "Chinese"),
    language("zu", "zul", "Latn", "ZA", "Zulu"),
];

impl Language {
    /// The language that a person means by `name`: a code of two or three letters, with a script or a country behind it where
    /// that matters (`zh-Hant`, `zh-TW`), or its English name.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.trim().replace('_', "-").to_lowercase();
        match name.as_str() {
            "zh-hant"
            | "zh-tw"
            | "zh-hk"
            | "zh-mo"
            | "zho-hant"
            | "traditional chinese"
            | "繁體中文"
            | "繁体中文" => {
                return Some(TRADITIONAL);
            }
            "cmn" | "mandarin" | "中文" | "简体中文" | "simplified chinese" => return Self::of("zh"),
            _ => {}
        }
        let code = match name.split('-').next().unwrap_or_default() {
            // The table has the member of a group that NLLB names; Marian and most people name the group.
            "ara" => "ar",
            "aze" => "az",
            "fas" => "fa",
            "lav" => "lv",
            "mon" => "mn",
            "msa" => "ms",
            "nep" => "ne",
            "nor" => "no",
            "pus" => "ps",
            "sqi" => "sq",
            "swa" => "sw",
            "uzb" => "uz",
            code => code,
        };
        let known = |language: &&Self| {
            language.two == code || language.three == code || language.name.to_lowercase() == name
        };
        LANGUAGES.iter().find(known).copied()
    }

    /// How models may spell it as a token, the most exact first.
    fn spellings(self) -> Vec<String> {
        let Self { two, three, script, country, .. } = self;
        let marian = if three == "zho" { "cmn" } else { three };
        let mut spellings = vec![
            format!("{three}_{script}"),
            format!("{two}_{country}"),
            format!(">>{marian}_{script}<<"),
            format!(">>{three}_{script}<<"),
            format!(">>{two}_{}<<", country.to_lowercase()),
        ];
        if self != TRADITIONAL {
            spellings.extend([
                format!("__{two}__"),
                format!(">>{marian}<<"),
                format!(">>{three}<<"),
                format!(">>{two}<<"),
            ]);
        }
        spellings
    }

    /// The token that stands for it in this vocabulary.
    pub fn token(self, tokenizer: &Tokenizer) -> Option<u32> {
        self.spellings().iter().find_map(|spelling| tokenizer.id(spelling))
    }
}

/// The token that stands for the language `name`: by its name, or written as the model spells it.
pub(crate) fn token(name: &str, tokenizer: &Tokenizer) -> Option<u32> {
    Language::of(name).and_then(|language| language.token(tokenizer)).or_else(|| tokenizer.id(name))
}

/// Whether two names mean one language: one that is known by any of its names, another as it is written.
pub(crate) fn same(name: &str, other: &str) -> bool {
    match (Language::of(name), Language::of(other)) {
        (None, None) => name.eq_ignore_ascii_case(other),
        (name, other) => name == other,
    }
}

/// Whether a language may belong to a group of them. Which ones do is not known here, and a model of a group is not told its language.
pub(crate) fn may_be_of(name: &str, group: &str) -> bool {
    Language::of(name).is_some() && GROUPS.split_whitespace().any(|known| group.eq_ignore_ascii_case(known))
}

/// Groups of languages that published translators read (ISO 639-5, and names of their own).
const GROUPS: &str = "mul aav afa alv bat ber bnt cau ccs cel cpf cpp cus dra euq fiu gem gmq gmw grk iir inc ine ira itc map mkh \
    nic phi poz pqe roa sal sem sit sla taw trk tut urj wa zle zls zlw ROMANCE NORTH_EU SCANDINAVIA NORWAY CELTIC SAMI";

/// The tokens of a vocabulary that stand for languages, for a hint.
pub(crate) fn tokens(tokenizer: &Tokenizer) -> Vec<&'static str> {
    let known = |language: &&Language| language.token(tokenizer).is_some();
    LANGUAGES.iter().filter(known).map(|language| language.two).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplified_and_traditional_are_told_apart() {
        for name in ["zh", "zh-CN", "zho", "cmn", "Chinese", "zh_Hans", "中文"] {
            assert_eq!(Language::of(name).unwrap().script, "Hans", "{name}");
        }
        for name in ["zh-TW", "zh_Hant", "zh-HK", "Traditional Chinese"] {
            assert_eq!(Language::of(name).unwrap().script, "Hant", "{name}");
        }
        assert!(
            !TRADITIONAL
                .spellings()
                .iter()
                .any(|spelling| Language::of("zh").unwrap().spellings().contains(spelling))
        );
        assert_eq!(Language::of("English").unwrap().spellings()[..2], ["eng_Latn", "en_XX"]);
        assert_eq!(Language::of("Klingon"), None);
    }

    #[test]
    fn a_language_is_the_same_by_any_of_its_names() {
        for (name, other) in [("en", "eng"), ("German", "deu"), ("zh", "zho"), ("ar", "ara"), ("tlh", "TLH")]
        {
            assert!(same(name, other) && same(other, name), "{name} {other}");
        }
        for (name, other) in [("en", "de"), ("zh-Hant", "zho"), ("fr", "ROMANCE"), ("Klingon", "zle")] {
            assert!(!same(name, other) && !same(other, name), "{name} {other}");
        }
    }

    #[test]
    fn a_language_may_be_of_a_group_and_a_group_is_no_language() {
        assert!(may_be_of("fr", "ROMANCE") && may_be_of("Russian", "zle") && may_be_of("zh", "mul"));
        assert!(!may_be_of("fr", "en") && !may_be_of("Klingon", "mul") && !may_be_of("fr", "zho"));
        assert_eq!(GROUPS.split_whitespace().find(|group| Language::of(group).is_some()), None);
    }

    #[test]
    fn no_code_stands_for_two_languages() {
        for (index, language) in LANGUAGES.iter().enumerate() {
            let twice = |other: &&Language| {
                other.two == language.two || other.three == language.three || other.name == language.name
            };
            assert_eq!(LANGUAGES[index + 1..].iter().find(twice), None);
        }
    }
}
