//! The walkthrough of any model that writes: from the tokens of a text to each word of the answer.
//!
//! Chapters follow the data: tokens, embeddings, the layers of the encoder and of the decoder, and for each word that was
//! written the words that it was chosen from. Every tensor is one of the run; nothing is computed here.

use glassformer_engine::Sequence;
use glassformer_graph::Backend;
use glassformer_model::Model;

use crate::trace::PROBABILITIES;
use crate::{Error, Fact, Labels, Layout, Shown, Step, Style, Text, Trace, Walkthrough, Words};

/// A text that a model read, and what it wrote.
pub struct Tour<'t> {
    /// What was read.
    pub text: &'t str,
    /// What was written.
    pub answer: &'t str,
    /// The tokens that the encoder read; none where there is no encoder.
    pub source: Vec<u32>,
    /// The tokens that the decoder read, and at the end those that it wrote.
    pub target: Vec<u32>,
    /// How many tokens of `target` it wrote.
    pub written: usize,
    /// How many beams the search followed; 1 where it took the most likely token each time.
    pub beams: usize,
    /// What a token is called.
    pub token: &'t dyn Fn(u32) -> String,
    /// How much of the layers is told.
    pub detail: Detail,
}

/// How much of the layers is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The first layer of each stack in full, of the others who looks at whom and the result.
    #[default]
    First,
    /// Every layer in full.
    All,
}

/// Words that a word was chosen from, as many as are shown.
const CANDIDATES: usize = 5;

/// What the last step of a value's name stands for, after the document's formulas.
const SYMBOLS: [(&str, &str); 19] = [
    ("words", "E = embedding of each token"),
    ("scaled", "E · √d"),
    ("positions", "P = position of each token"),
    ("sum_positions", "X = E + P"),
    ("sum_types", "X = E + types"),
    ("query", "Q = X · W_Q"),
    ("key", "K = X · W_K"),
    ("value", "V = X · W_V"),
    ("scores", "S = Q · Kᵀ / √d_k"),
    ("probs", "A = softmax(S)"),
    ("heads", "A · V"),
    ("output", "(A · V) · W_O"),
    ("up", "U = X · W₁ + b₁"),
    ("gate", "G = X · W_G"),
    ("hidden", "H = activation(U)"),
    ("down", "H · W₂ + b₂"),
    ("sum", "X + sublayer(X)"),
    ("norm_out", "norm(X + sublayer(X))"),
    ("norm", "norm(X)"),
];

impl Tour<'_> {
    /// Runs `model` over the text and what was written, and tells the run.
    ///
    /// # Errors
    /// If the model cannot run.
    pub fn walk(&self, model: &Model, backend: &dyn Backend) -> Result<Walkthrough, Error> {
        if self.written >= self.target.len() {
            return Err(Error::Written { written: self.written, target: self.target.len() });
        }
        let read = self.target.len() - 1;
        let sequence = Sequence {
            source: self.source.clone(),
            target: self.target[..read].to_vec(),
            ..Sequence::default()
        };
        let trace = Trace::run(model, backend, &sequence)?;
        let words = self.words(read);
        let mut steps = vec![self.tokens(), Self::formula(model)];
        let mut chapter = String::new();
        for group in groups(&trace) {
            let place = Place::of(&group[0]);
            let names = group.iter().filter(|name| self.is_told(&place, name));
            let tensors = names.map(|name| shown(&trace, name, &words)).collect::<Result<Vec<_>, _>>()?;
            if tensors.is_empty() {
                continue;
            }
            let opens = place.chapter != chapter;
            chapter.clone_from(&place.chapter);
            steps.push(Step {
                section: place.section.clone(),
                chapter: opens.then(|| place.heading()),
                title: place.title(),
                text: place.text().into_iter().collect(),
                facts: Vec::new(),
                tensors,
                claims: Vec::new(),
            });
        }
        for at in self.target.len() - self.written..self.target.len() {
            steps.push(self.choice(&trace, at, &words)?);
        }
        steps.push(self.end());
        let title = Text {
            en: format!("“{}” → “{}”, every number on the way", self.text, self.answer),
            zh: format!("“{}” → “{}”，途中的每一个数", self.text, self.answer),
        };
        Ok(Walkthrough { title, steps })
    }

    fn name(&self, id: u32) -> String {
        (self.token)(id)
    }

    fn words(&self, read: usize) -> Words {
        let names = |ids: &[u32]| ids.iter().map(|&id| self.name(id)).collect();
        Words { source: names(&self.source), target: names(&self.target[..read]), vocabulary: Vec::new() }
    }

    /// Whether a value is told: all of a first layer, of later ones who looks at whom, and the result.
    fn is_told(&self, place: &Place, name: &str) -> bool {
        let last = last(name);
        let known = SYMBOLS.iter().any(|(step, _)| *step == last);
        match self.detail {
            Detail::All => known,
            Detail::First if place.layer.is_none_or(|layer| layer == 0) => known,
            Detail::First => {
                last == "probs" || last == "norm_out" || (last == "sum" && name.contains("feed"))
            }
        }
    }

    fn tokens(&self) -> Step {
        let fact = |id: u32, more: (&str, &str)| Fact {
            name: Text::same(self.name(id)),
            text: Text { en: format!("{id}{}", more.0), zh: format!("{id}{}", more.1) },
        };
        let given = self.target.len() - self.written;
        let begins = if self.source.is_empty() {
            ("", "")
        } else {
            ("  the decoder begins with it", "  解码器以它开始")
        };
        let source = self.source.iter().map(|&id| fact(id, ("", "")));
        let target = self.target[..given].iter().map(|&id| fact(id, begins));
        Step {
            section: "tokens".to_owned(),
            chapter: Some(Text { en: "Words become tokens".into(), zh: "词变为词元".into() }),
            title: Text {
                en: "Each token is the number of a row in the table of embeddings".into(),
                zh: "每个词元是嵌入表中一行的行号".into(),
            },
            text: vec![Text::same(format!("“{}”", self.text))],
            facts: source.chain(target).collect(),
            tensors: Vec::new(),
            claims: Vec::new(),
        }
    }

    fn formula(model: &Model) -> Step {
        let formula = glassformer_formula::print::unicode(model.formula());
        Step {
            section: "formula".to_owned(),
            chapter: Some(Text { en: "The formula".into(), zh: "公式".into() }),
            title: Text {
                en: "All that follows is this, from right to left".into(),
                zh: "以下全部计算，即此式从右到左".into(),
            },
            text: formula.lines().map(Text::same).collect(),
            facts: Vec::new(),
            tensors: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// How the token at `at` of the target was chosen.
    fn choice(&self, trace: &Trace, at: usize, words: &Words) -> Result<Step, Error> {
        let first = at == self.target.len() - self.written;
        let chosen = self.target[at];
        let probabilities = trace.get(PROBABILITIES)?.tensor;
        let width = probabilities.shape()[1];
        let row = &probabilities.data()[(at - 1) * width..at * width];
        let mut best: Vec<usize> = (0..width).collect();
        let rank = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]).then(a.cmp(b));
        let shown = CANDIDATES.min(width);
        if shown > 0 && shown < width {
            best.select_nth_unstable_by(shown - 1, rank);
        }
        best.truncate(shown);
        best.sort_by(rank);
        let candidates = Shown {
            name: PROBABILITIES.to_owned(),
            symbol: "P(next) = softmax(logits)".to_owned(),
            style: Style::Bars,
            layout: Layout::AsHeld,
            shape: vec![1, best.len()],
            labels: vec![
                Labels::Count(1),
                Labels::Names(best.iter().map(|&id| self.name(id as u32)).collect()),
            ],
            numbers: best.iter().map(|&id| row[id]).collect(),
        };
        let mut tensors: Vec<Shown> = looks(trace, at - 1, words)?.into_iter().collect();
        tensors.push(candidates);
        let before: Vec<String> = self.target[..at].iter().map(|&id| self.name(id)).collect();
        let name = self.name(chosen);
        Ok(Step {
            section: format!("word {}", at + 1 - (self.target.len() - self.written)),
            chapter: first.then(|| Text { en: "Words are written".into(), zh: "逐词写出".into() }),
            title: Text {
                en: format!("After {} comes {name}", before.join(" ")),
                zh: format!("{} 之后是 {name}", before.join(" ")),
            },
            text: self.search().filter(|_| first).into_iter().collect(),
            facts: vec![Fact {
                name: Text { en: "chosen".into(), zh: "选中".into() },
                text: Text::same(format!("{name}  {:.4}", row[chosen as usize % width.max(1)])),
            }],
            tensors,
            claims: Vec::new(),
        })
    }

    /// What a reader should know of a search that looks further than a word.
    fn search(&self) -> Option<Text> {
        let beams = self.beams;
        (beams > 1).then(|| Text {
            en: format!(
                "The search followed {beams} beams and took the best text as a whole: a word need not be the likeliest at its \
                 place."
            ),
            zh: format!("束搜索同时跟踪 {beams} 条路径，取整体最佳的一条：其中的词不一定是该处概率最大的。"),
        })
    }

    fn end(&self) -> Step {
        Step {
            section: "answer".to_owned(),
            chapter: Some(Text { en: "The answer".into(), zh: "结果".into() }),
            title: Text::same(self.answer),
            text: Vec::new(),
            facts: Vec::new(),
            tensors: Vec::new(),
            claims: Vec::new(),
        }
    }
}

/// Which words of the source the row `row` of the target looks at, in the last layer that looks there.
fn looks(trace: &Trace, row: usize, words: &Words) -> Result<Option<Shown>, Error> {
    let last = trace.values().iter().rev().find(|traced| traced.name.ends_with("cross.probs"));
    let Some(traced) = last else { return Ok(None) };
    let mut shown = Shown::of(trace, &traced.name, "A = softmax(S): where it looks, by head", words)?;
    let [rows, keys, heads] = shown.shape[..] else { return Ok(None) };
    if row >= rows {
        return Ok(None);
    }
    // One line a head: of the row, for every head its keys.
    let at = |head: usize, key: usize| shown.numbers[(row * keys + key) * heads + head];
    let numbers =
        (0..heads).flat_map(|head| (0..keys).map(move |key| (head, key))).map(|(head, key)| at(head, key));
    let numbers: Vec<f32> = numbers.collect();
    shown.labels = vec![
        Labels::Names((1..=heads).map(|head| format!("h{head}")).collect()),
        shown.labels.swap_remove(1),
    ];
    Ok(Some(Shown { style: Style::Heat, shape: vec![heads, keys], numbers, ..shown }))
}

/// The value `name` with its symbol.
fn shown(trace: &Trace, name: &str, words: &Words) -> Result<Shown, Error> {
    let last = last(name);
    let symbol = SYMBOLS.iter().find(|(step, _)| *step == last).map_or(last, |(_, symbol)| symbol);
    let shown = Shown::of(trace, name, symbol, words)?;
    Ok(Shown { style: if last == "probs" { Style::Heat } else { Style::Matrix }, ..shown })
}

/// The last step of a name: `query` of `source.0.attend.query`.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The names of the values of each sublayer, in the order of computation.
fn groups(trace: &Trace) -> Vec<Vec<String>> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for traced in trace.values() {
        let Some((sublayer, _)) = traced.name.rsplit_once('.') else { continue };
        // `heads.logsum` belongs to its attention.
        let sublayer = sublayer.strip_suffix(".heads").unwrap_or(sublayer);
        match groups.iter_mut().find(|(name, _)| name == sublayer) {
            Some((_, names)) => names.push(traced.name.clone()),
            None => groups.push((sublayer.to_owned(), vec![traced.name.clone()])),
        }
    }
    groups.into_iter().map(|(_, names)| names).collect()
}

/// Where in the model a value is.
struct Place {
    /// `source` or `target`, and what of it.
    chapter: String,
    section: String,
    layer: Option<usize>,
    sublayer: String,
}

impl Place {
    /// That of the value `name`: `source.0.attend.query` is in layer 0 of the source, in `attend`.
    fn of(name: &str) -> Self {
        let steps: Vec<&str> = name.split('.').collect();
        let side = steps[0];
        let layer = steps.get(1).and_then(|step| step.parse().ok());
        let sublayer = steps.get(if layer.is_some() { 2 } else { 1 }).copied().unwrap_or(side);
        let chapter = match layer {
            Some(layer) => format!("{side}.{layer}"),
            None => format!("{side}.{sublayer}"),
        };
        let section = if layer.is_some() { format!("{chapter}.{sublayer}") } else { chapter.clone() };
        Self { chapter, section, layer, sublayer: sublayer.to_owned() }
    }

    fn side(&self) -> Text {
        if self.chapter.starts_with("source") {
            Text { en: "Encoder".into(), zh: "编码器".into() }
        } else {
            Text { en: "Decoder".into(), zh: "解码器".into() }
        }
    }

    fn heading(&self) -> Text {
        let side = self.side();
        match self.layer {
            Some(layer) => Text {
                en: format!("{}, layer {}", side.en, layer + 1),
                zh: format!("{}第 {} 层", side.zh, layer + 1),
            },
            None => {
                Text { en: format!("{}, before its layers", side.en), zh: format!("{}各层之前", side.zh) }
            }
        }
    }

    fn title(&self) -> Text {
        let (en, zh) = match self.sublayer.as_str() {
            "embed" => ("Tokens become vectors, and get their positions", "词元变为向量，并加上位置"),
            "attend" => ("Every token looks at the others", "每个词元看向其他词元"),
            "cross" => ("Every word looks at the source", "每个词看向源句"),
            "feed" => ("Each token is thought over by itself", "每个词元各自经过前馈网络"),
            other => (other, other),
        };
        Text { en: en.into(), zh: zh.into() }
    }

    /// What a reader should know before the numbers, where it is said the first time.
    fn text(&self) -> Option<Text> {
        if self.layer.is_some_and(|layer| layer > 0) {
            return None;
        }
        let (en, zh) = match self.sublayer.as_str() {
            "attend" => (
                "Queries meet keys: each score says how much a token (row) asks of another (column). Softmax makes them \
                 shares of one, and values are mixed in those shares.",
                "查询与键相乘：每个得分表示某词元（行）对另一词元（列）的关注程度。softmax 把得分化为总和为一的份额，再按份额混合各个值。",
            ),
            "cross" => (
                "The same, but keys and values come from the encoder: this is how the source reaches the words.",
                "做法相同，但键和值来自编码器：源句由此传到目标词。",
            ),
            "feed" => (
                "A wider layer, a bend (activation), and back to the width of the model.",
                "先变宽，经激活函数，再变回模型的宽度。",
            ),
            _ => return None,
        };
        Some(Text { en: en.into(), zh: zh.into() })
    }
}
