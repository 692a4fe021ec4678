//! The walkthrough's order: the encoder's steps once, the decoder's steps once for each word. The script names what it shows; what
//! stands behind `=` is made from the operation that ran.

use std::collections::HashMap;

use glassformer_formula::print;
use glassformer_model::Model;
use serde::Deserialize;

use super::{END, Origin, SEED, SOURCE, START, TARGET, origins, read, word};
use crate::equation::Equations;
use crate::{Error, Fact, Judged, Layout, Shown, Step, Style, Text, Trace, Walkthrough, Words};

/// The sentences, as `steps.toml` holds them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    title: Text,
    encoder: Vec<Scene>,
    decoder: Vec<Scene>,
    closing: Vec<Scene>,
}

/// One step before it has numbers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    section: String,
    chapter: Option<Text>,
    title: Text,
    #[serde(default)]
    facts: Facts,
    text: Vec<Line>,
    #[serde(default)]
    show: Vec<Exhibit>,
}

/// A paragraph, and for which words it is said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    when: When,
    en: String,
    zh: String,
}

/// For which words of the answer a paragraph is said.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    #[default]
    Always,
    First,
    Later,
    End,
}

/// Which facts a step lists.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Facts {
    #[default]
    None,
    Weights,
    Tokens,
    Next,
    Answer,
}

/// A tensor to show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exhibit {
    tensor: String,
    /// What the document calls it.
    symbol: String,
    #[serde(default)]
    style: Style,
    #[serde(default)]
    layout: Layout,
}

/// Where in the story a step is told.
struct Moment<'a> {
    model: &'a Model,
    trace: &'a Trace,
    equations: Equations<'a>,
    answer: &'a [u32],
    /// How many words were written before.
    written: usize,
}

/// Puts everything in order.
pub(super) fn tell(
    model: &Model,
    traces: &[Trace],
    answer: &[u32],
    claims: Vec<Judged>,
) -> Result<Walkthrough, Error> {
    let script: Script = read("steps.toml", include_str!("steps.toml"))?;
    let exhibits = script.encoder.iter().chain(&script.decoder).flat_map(|scene| &scene.show);
    let names =
        exhibits.map(|exhibit| (exhibit.tensor.clone(), exhibit.symbol.clone())).collect::<HashMap<_, _>>();
    let mut steps = Vec::new();
    for (written, trace) in traces.iter().enumerate() {
        let moment = Moment { model, trace, equations: Equations::of(trace, &names), answer, written };
        let scenes = if written == 0 { &script.encoder[..] } else { &[] };
        for scene in scenes.iter().chain(&script.decoder) {
            steps.push(moment.step(scene)?);
        }
        let scenes = if written + 1 == traces.len() { &script.closing[..] } else { &[] };
        for scene in scenes {
            steps.push(moment.step(scene)?);
        }
    }
    for judged in claims {
        let place = steps.iter_mut().find(|step| step.section == judged.claim.section);
        let no_step =
            || Error::Data { file: "claims.toml", why: format!("{}: no such step", judged.claim.id) };
        place.ok_or_else(no_step)?.claims.push(judged);
    }
    Ok(Walkthrough { title: script.title, summary: None, steps })
}

impl Moment<'_> {
    fn step(&self, scene: &Scene) -> Result<Step, Error> {
        let words = self.words();
        let show = |exhibit: &Exhibit| -> Result<Shown, Error> {
            let (symbol, operands) = match self.equations.equation(&exhibit.tensor) {
                Some((equation, _)) => (equation.text, equation.operands),
                None => (exhibit.symbol.clone(), Vec::new()),
            };
            let shown = Shown::of(self.trace, &exhibit.tensor, &symbol, &words)?;
            let shown = Shown { style: exhibit.style, operands, ..shown };
            Ok(match exhibit.layout {
                Layout::AsHeld => shown,
                Layout::Transposed => shown.transposed(),
            })
        };
        let said = scene.text.iter().filter(|line| self.is_now(line.when));
        Ok(Step {
            section: self.fill(&Text::same(&scene.section)).en,
            chapter: scene.chapter.as_ref().map(|chapter| self.fill(chapter)),
            title: self.fill(&scene.title),
            text: said.map(|line| self.fill(&Text { en: line.en.clone(), zh: line.zh.clone() })).collect(),
            facts: self.facts(scene.facts)?,
            tensors: scene.show.iter().map(show).collect::<Result<_, _>>()?,
            claims: Vec::new(),
        })
    }

    /// The tokens that the decoder has at this moment.
    fn input(&self) -> Vec<&'static str> {
        let ids = [START].into_iter().chain(self.answer[..self.written].iter().copied());
        ids.map(|id| word(&TARGET, id)).collect()
    }

    fn words(&self) -> Words {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Words { source: owned(&SOURCE), target: owned(&self.input()), vocabulary: owned(&TARGET) }
    }

    fn next(&self) -> u32 {
        self.answer[self.written]
    }

    fn is_now(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::First => self.written == 0,
            When::Later => self.written > 0,
            When::End => self.next() == END,
        }
    }

    fn fill(&self, text: &Text) -> Text {
        let input = self.input();
        let answer: Vec<&str> = self.answer.iter().map(|&id| word(&TARGET, id)).collect();
        text.fill(&[
            ("step", &(self.written + 1).to_string()),
            ("input", &format!("[{}]", input.join(", "))),
            ("last", input.last().copied().unwrap_or_default()),
            ("next", word(&TARGET, self.next())),
            ("answer", &answer.join(" ")),
            ("seed", &SEED.to_string()),
            ("formula", &print::unicode(self.model.formula()).replace(" · ○", "\n· ○")),
        ])
    }

    fn facts(&self, facts: Facts) -> Result<Vec<Fact>, Error> {
        let id = |(id, word): (usize, &&str)| Fact {
            name: Text::same(*word),
            text: Text::same(format!("id {id}")),
        };
        Ok(match facts {
            Facts::None => Vec::new(),
            Facts::Weights => weights(self.model)?,
            Facts::Tokens => SOURCE.iter().enumerate().map(id).collect(),
            Facts::Next => vec![Fact {
                name: Text { en: "next word".into(), zh: "下一个词".into() },
                text: Text::same(format!("{} (id {})", word(&TARGET, self.next()), self.next())),
            }],
            Facts::Answer => {
                vec![Fact { name: Text::same(SOURCE.join(" ")), text: self.fill(&Text::same("{answer}")) }]
            }
        })
    }
}

/// Which weights come from where.
fn weights(model: &Model) -> Result<Vec<Fact>, Error> {
    let origins = origins(model)?;
    let from = |wanted: Origin, en: &str, zh: &str| {
        let names = origins.iter().filter(|(_, origin)| *origin == wanted).map(|(name, _)| name.as_str());
        let text = Text::same(names.collect::<Vec<_>>().join(", "));
        Fact { name: Text { en: en.to_owned(), zh: zh.to_owned() }, text }
    };
    Ok(vec![
        from(Origin::Document, "document", "文档给出"),
        from(Origin::Identity, "identity", "单位矩阵"),
        from(Origin::Neutral, "1 and 0", "1 和 0"),
        from(Origin::Seed, &format!("seed {SEED}"), &format!("种子 {SEED}")),
    ])
}
