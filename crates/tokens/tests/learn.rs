//! Vocabularies that are learned here: what they hold, and that every text comes back.

use glassformer_tokens::{Error, Learn, Marks, Pieces, Special, SpecialText, Tokenizer};

const TEXT: [&str; 12] = [
    "The cat sat on the mat.",
    "The cats sat on the mats, and the dog sat with them.",
    "猫坐在垫子上。",
    "猫和狗都坐在垫子上，天气很好。",
    "Where is the station? It is over there.",
    "火车站在哪里？火车站在那边。",
    "今天天气很好，我们去公园散步吧。",
    "The weather is nice today, let us go for a walk in the park.",
    "我爱你。我也爱你。",
    "I love you. I love you too.",
    "In 1999 there were 365 days.",
    "1999年有365天。",
];

fn learn(pieces: Pieces, size: usize, around: Marks) -> Tokenizer {
    let learn = Learn { pieces, size, coverage: 1.0, around };
    let learned = learn.from_lines(TEXT.iter().copied()).expect("it learns");
    let folder =
        std::env::temp_dir().join(format!("glassformer-learn-{}-{pieces:?}-{around:?}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    learned.save(&folder).expect("it is written");
    let tokenizer = Tokenizer::open(&folder).expect("it opens");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    tokenizer
}

#[test]
fn every_text_comes_back_whatever_its_characters() {
    for (pieces, size) in [(Pieces::Unigram, 480), (Pieces::Pairs, 480), (Pieces::BytePairs, 400)] {
        let tokenizer = learn(pieces, size, Marks::End);
        assert!(tokenizer.vocabulary().len() <= size, "{pieces:?}: {}", tokenizer.vocabulary().len());
        for text in TEXT.iter().copied().chain(["A 🐈 and an ö: <0x41> </x>", "从未见过的字：龘。", "x"])
        {
            let encoding = tokenizer.encode(text, Special::Add).expect("it encodes");
            assert_eq!(encoding.ids.last().copied(), tokenizer.special().eos, "{pieces:?}");
            assert!(
                !encoding.ids.contains(&tokenizer.special().unk.expect("there is one")),
                "{pieces:?} {text}"
            );
            let back = tokenizer.decode(&encoding.ids, SpecialText::Skip).expect("it decodes");
            assert_eq!(back, text, "{pieces:?}");
        }
    }
}

#[test]
fn what_comes_often_is_one_token_in_both_languages() {
    for pieces in [Pieces::Unigram, Pieces::Pairs] {
        let tokenizer = learn(pieces, 480, Marks::End);
        let count = |text: &str| tokenizer.encode(text, Special::Leave).expect("it encodes").ids.len();
        // 23 characters; on so little text the pieces stay short.
        assert!(count("The cat sat on the mat.") <= 12, "{pieces:?}: {}", count("The cat sat on the mat."));
        assert!(count("火车站在哪里？") <= 5, "{pieces:?}: {}", count("火车站在哪里？"));
        // Digits stay apart, and so do full stops.
        assert_eq!(count("365") - count("36"), 1, "{pieces:?}");
    }
}

#[test]
fn special_tokens_come_first_and_stand_where_they_should() {
    let translator = learn(Pieces::Unigram, 480, Marks::End);
    let special = translator.special();
    assert_eq!((special.pad, special.eos, special.unk), (Some(0), Some(1), Some(2)));
    let encoder = learn(Pieces::Pairs, 480, Marks::Around);
    let pair = encoder.encode_pair("I love you.", "我爱你。", Special::Add).expect("it encodes");
    let (cls, sep) = (encoder.special().cls.expect("[CLS]"), encoder.special().sep.expect("[SEP]"));
    assert_eq!((pair.ids[0], pair.ids[pair.ids.len() - 1]), (cls, sep));
    assert_eq!(pair.ids.iter().filter(|id| **id == sep).count(), 2);
    assert_eq!((pair.types[0], pair.types[pair.types.len() - 1]), (0, 1));
    let decoder = learn(Pieces::BytePairs, 400, Marks::None);
    let text = "two  spaces\nand a line\n";
    let ids = decoder.encode(text, Special::Add).expect("it encodes").ids;
    assert!(!ids.contains(&decoder.special().eos.expect("</s>")));
    assert_eq!(decoder.decode(&ids, SpecialText::Skip).expect("it decodes"), text);
}

#[test]
fn characters_are_one_token_each() {
    let tokenizer = learn(Pieces::Characters, 0, Marks::None);
    let text = "The cat 猫。";
    let ids = tokenizer.encode(text, Special::Leave).expect("it encodes").ids;
    assert_eq!(ids.len(), text.chars().count());
    assert_eq!(tokenizer.decode(&ids, SpecialText::Skip).expect("it decodes"), text);
}

#[test]
fn rare_characters_get_no_token_where_coverage_says_so() {
    let all = Learn { size: 500, coverage: 1.0, ..Learn::default() };
    let most = Learn { size: 500, coverage: 0.9, ..Learn::default() };
    let has = |learn: &Learn, token: &str| {
        let files = learn.from_lines(TEXT.iter().copied()).expect("it learns").files();
        files[0].1.contains(&format!("\"{token}\""))
    };
    assert!(has(&all, "散") && !has(&most, "散"));
    assert!(has(&most, "的") == has(&all, "的"));
}

#[test]
fn what_cannot_be_learned_is_said() {
    let small = Learn { size: 270, ..Learn::default() }.from_lines(TEXT.iter().copied());
    assert!(matches!(&small, Err(Error::Learn { size: 270, .. })), "{small:?}");
    let nothing = Learn::default().from_lines([]);
    assert!(matches!(nothing, Err(Error::Learn { .. })));
}
