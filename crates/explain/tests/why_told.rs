//! How answers look in a terminal: golden files at 80 and 120 columns, in every kind of colour, in both languages.

use glassformer_engine::Sequence;
use glassformer_explain::why::{
    Asked, Each, Edit, Edits, Focus, Looked, Method, Stack, Why, With, attribute, edited, effect, gradients,
    heads, lens, sweep,
};
use glassformer_explain::{Error, Lang, Likely, Paint, Terminal, Text, Token, Trace};
use glassformer_formula::named::{Original, original};
use glassformer_graph::Reference;
use glassformer_model::Model;
use unicode_width::UnicodeWidthStr as _;

use crate::worked_example::golden;

const WORDS: [&str; 12] = ["<pad>", "</s>", "␣The", "␣cat", "␣sat", "猫", "坐着", "狗", "在", "é", "ﬁ", "🙂"];

/// Every answer about a run of a small translator, in numbers that are the same on every machine.
fn why() -> Result<Why, Error> {
    let formula = original(Original {
        width: 8,
        heads: 2,
        hidden: 16,
        source_layers: 2,
        target_layers: 5,
        source_vocabulary: WORDS.len(),
        target_vocabulary: WORDS.len(),
    });
    let model = Model::random(formula, 3)?;
    let sequence = Sequence { source: vec![2, 3, 4, 1], target: vec![0, 5, 6], ..Sequence::default() };
    let trace = Trace::run(&model, &Reference, &sequence)?;
    let focus = Focus { row: 1, column: 6, against: Some(7) };
    let looked = [(0, 5), (1, 6), (2, 1)].map(|(row, wanted)| Looked { row, wanted: Some(wanted) });
    let name = |id: usize| WORDS[id].to_owned();
    let edits = Edits::of(vec![
        Edit::AblateHead {
            side: Some(Stack::Target),
            sublayer: "cross".into(),
            layer: 1,
            head: 0,
            with: With::Mean,
        },
        Edit::Scale { value: "target.0.feed.hidden".into(), by: 3.0, rows: None, columns: None },
    ]);
    let none = |_: &str, _: Option<&str>| Ok(Sequence::default());
    let after = edited(&model, &Reference, (&sequence, Likely::Softmax), &edits, &none)?;
    let mut effect = effect(&trace, &after, &looked, 5)?;
    for place in &mut effect.places {
        place.before.name(&name);
        place.after.name(&name);
    }
    let mut lens = lens(&trace, &Reference, &looked, 3)?;
    lens.readings.iter_mut().flat_map(|reading| &mut reading.cells).for_each(|cell| cell.name(&name));
    let mut gradients = gradients(&trace, &Reference, focus, Method::Integrated { steps: 8 })?;
    for share in &mut gradients.tokens {
        let ids = if share.part == "source" { &sequence.source } else { &sequence.target };
        share.text = name(ids[share.token] as usize);
    }
    let tokens = |ids: &[u32]| ids.iter().map(|&id| Token { id, text: name(id as usize) }).collect();
    Ok(Why {
        schema: 1,
        title: Text::same("“The cat sat” → “猫坐着”"),
        source: tokens(&sequence.source),
        target: tokens(&sequence.target),
        asked: Some(Asked { focus, place: Text::same("2"), text: name(6), against_text: Some(name(7)) }),
        edits: Some(edits),
        effect: Some(effect),
        lens: Some(lens),
        attribution: Some(attribute(&trace, focus)?),
        ablation: Some(sweep(&trace, &Reference, focus, (Each::Heads, With::Zero))?),
        gradients: Some(gradients),
        heads: Some(heads(&trace, &Reference)?),
    })
}

/// `text` without escape sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn answers_are_the_golden_ones() {
    let why = why().expect("it runs");
    for (width, lang) in
        [(80, Lang::English), (120, Lang::English), (80, Lang::Chinese), (120, Lang::Chinese)]
    {
        let language = if lang == Lang::English { "en" } else { "zh" };
        let paints = [
            (Paint::Plain, "plain"),
            (Paint::Ascii, "ascii"),
            (Paint::Colour, "256"),
            (Paint::TrueColour, "true"),
        ];
        for (paint, colours) in paints {
            // Letters instead of blocks are the same everywhere else.
            if paint != Paint::Plain && (width, lang) != (80, Lang::English) && paint != Paint::TrueColour {
                continue;
            }
            let text = Terminal { lang, paint, width }.why(&why);
            golden(&format!("why.{language}.{width}.{colours}.txt"), &text);
            for line in text.lines() {
                let line = plain(line);
                assert!(line.width() <= width, "{} columns of {width}: {line}", line.width());
                let ends = paint.is_coloured() || line.trim_end() == line;
                assert!(ends, "nothing invisible stands at the end of a line: {line:?}");
            }
            assert_eq!(text.contains('\x1b'), paint.is_coloured());
        }
    }
}

/// What a program reads is whole, and in it are no colours and no prose but titles.
#[test]
fn json_has_every_answer() {
    let value = serde_json::to_value(why().expect("it runs")).expect("it has a form");
    assert_eq!(value["schema"], 1);
    assert_eq!(value["asked"]["text"], "坐着");
    assert_eq!(value["asked"]["row"], 1);
    assert_eq!(value["lens"]["readings"][0]["part"], "embed");
    assert_eq!(value["lens"]["readings"].as_array().map(Vec::len), Some(1 + 3 * 5));
    assert_eq!(value["heads"].as_array().map(Vec::len), Some(2 * (2 + 5 + 5)));
    assert_eq!(value["ablation"]["without"].as_array().map(Vec::len), Some(2 * (2 + 5 + 5)));
    assert_eq!(value["edits"]["edits"][0]["do"], "ablate_head");
    assert_eq!(value["gradients"]["tokens"].as_array().map(Vec::len), Some(4 + 3));
    let parts = value["attribution"]["parts"].as_array().expect("a list");
    let sum: f64 = parts.iter().filter_map(|part| part["share"].as_f64()).sum();
    assert!((sum - value["attribution"]["score"].as_f64().expect("a score")).abs() < 1e-4);
}
