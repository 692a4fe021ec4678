//! What people type first comes out as a Chinese reader would accept, and everything else ends, sensibly.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use glassformer_cpu::Cpu;
use glassformer_graph::Precision;
use glassformer_tasks::{Error, TextGenerator, Translate};
use glassformer_translator::{FILES, translator};

#[test]
fn what_people_type_first_comes_out_well() {
    let translator = translator().expect("it opens");
    let accepted: [(&str, &[&str]); 6] = [
        ("The cat sat", &["猫坐着", "猫坐下了", "猫坐着。", "猫坐下了。", "那只猫坐着", "那只猫坐着。"]),
        ("Hello", &["你好", "你好。", "你好！"]),
        ("Good morning", &["早上好", "早上好。", "早上好！"]),
        ("How are you?", &["你好吗？", "你怎么样？"]),
        ("I love you", &["我爱你", "我爱你。"]),
        ("Where is the station?", &["车站在哪里？", "车站在哪儿？", "火车站在哪里？"]),
    ];
    for (english, accepted) in accepted {
        let chinese = translator.translate(english).expect("it translates");
        assert!(accepted.contains(&chinese.as_str()), "{english} → {chinese}");
    }
}

#[test]
fn what_is_not_english_stays() {
    let translator = translator().expect("it opens");
    for same in ["", " ", "你好，世界。", "😀👍🏽", "3.14", "\n\n", "Привет", "こんにちは"]
    {
        assert_eq!(translator.translate(same).expect("it stays"), same);
    }
    assert_eq!(translator.translate("Hello 😀\n\n你好").expect("it translates"), "你好 😀\n\n你好");
}

#[test]
fn every_text_ends_and_is_not_much_longer_than_its_source() {
    let translator = translator().expect("it opens");
    let long = "The old man went to the market and bought some fish, bread and apples. ".repeat(40);
    let strange =
        ["hello ".repeat(30), "a".repeat(100), "x y z ".repeat(20), "!?.,;:".repeat(9), "zzz qqq".into()];
    for text in [long].iter().chain(&strange) {
        let chinese = translator.translate(text).expect("it translates");
        let (given, written) = (text.chars().count(), chinese.chars().count());
        assert!(written <= 2 * given + 20, "{given} characters became {written}: {chinese}");
    }
    // A sentence that is longer than any it learned is refused, not cut in silence.
    let unbroken = "and the dog ran ".repeat(300);
    let error = translator.translate(&unbroken).expect_err("it is too long");
    assert!(matches!(error, Error::Long { text: 0, .. }), "{error}");
}

#[test]
fn texts_come_out_the_same_together_alone_and_from_several_threads() {
    let translator = translator().expect("it opens");
    let texts = ["Hello", "She is reading a book in the garden.", "😀", "Where do you live?\nI live here."];
    let together = translator.translate_all(&texts, &Translate::default()).expect("they translate");
    thread::scope(|scope| {
        for (text, expected) in texts.iter().zip(&together) {
            let translator = &translator;
            scope.spawn(move || assert_eq!(&translator.translate(text).expect("it translates"), expected));
        }
    });
}

/// The index named scales, which are no tensors of their own once the shards are read.
#[test]
fn the_folder_that_it_was_made_from_opens_as_the_same_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model");
    let backend = Arc::new(Cpu::default().with_precision(Precision::Stored));
    let generator = TextGenerator::open(folder, backend).expect("it opens");
    let text = "She is reading a book in the garden.";
    let expected = translator().expect("it opens").translate(text).expect("it translates");
    assert_eq!(generator.translate(&[text], &Translate::default()).expect("it translates"), [expected]);
}

#[test]
fn it_is_small() {
    // A package is at most 10 MB large: this crate has the second shard, glassformer-translator-encoder the first.
    assert!(FILES.weights.iter().all(|(_, shard)| shard.len() <= 8_000_000));
}
