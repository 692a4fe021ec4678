//! Questions about a text that was followed, and their answers in words that a reader knows: tokens by their text, classes by their names.

use glassformer_graph::Backend;
use glassformer_model::Model;
use glassformer_tokens::Tokenizer;
use serde::Serialize;

use super::apply::{Others, edited};
use super::attribute::{Attribution, attribute};
use super::edit::{Edits, With};
use super::effect::{Effect, effect};
use super::focus::{Focus, no_head};
use super::gradients::{Gradients, Method, gradients};
use super::heads::{HeadStatistics, heads};
use super::lens::{Lens, Looked, lens};
use super::sweep::{Each, Sweep, sweep};
use crate::tour::{Ending, Token, Tour, largest};
use crate::{Error, Text, Trace};

/// The version of what [`Why`] is as JSON.
pub const SCHEMA: u32 = 1;
/// How many guesses of a place are told.
const GUESSES: usize = 5;
/// What integrated gradients may miss of a score, and in how many steps they give up.
const MISSING: f64 = 0.02;
const STEPS: usize = 256;

/// What is asked about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// What would the model say behind each sublayer?
    pub lens: bool,
    /// What does each head look at?
    pub heads: bool,
    /// What wrote the score?
    pub attribute: bool,
    /// What becomes of the score without each head, or each sublayer?
    pub ablate: Option<(Each, With)>,
    /// Which tokens does the score hang on?
    pub gradients: Option<Method>,
    /// What would the model say with these edits? The other questions are then about the edited run.
    pub edits: Option<Edits>,
    /// Which score: a token, a class; without it, that of what was written or chosen.
    pub about: Option<String>,
    /// Why not this one: its score is subtracted.
    pub contrast: Option<String>,
    /// Where: the word that was written, the blank or the token, counted from 1.
    pub place: Option<usize>,
}

/// A score that is asked about, in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Which score.
    #[serde(flatten)]
    pub focus: Focus,
    /// Where: the number of the word that was written, or the token.
    pub place: Text,
    /// What the score is of.
    pub text: String,
    /// What the score is of that is subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_text: Option<String>,
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The version of this form: fields may be added within one, never renamed or removed.
    pub schema: u32,
    /// What was followed.
    pub title: Text,
    /// The tokens of the encoder.
    pub source: Vec<Token>,
    /// The tokens of the decoder.
    pub target: Vec<Token>,
    /// The score that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// The edits of the run that all else is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edits: Option<Edits>,
    /// What they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the model would say behind each sublayer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lens: Option<Lens>,
    /// What wrote the score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// What becomes of the score without each head or sublayer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ablation: Option<Sweep>,
    /// Which tokens the score hangs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<Gradients>,
    /// What each head looks at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<Vec<HeadStatistics>>,
}

/// A run that is asked.
pub(crate) struct Asking<'a> {
    pub tour: &'a Tour<'a>,
    pub model: &'a Model,
    pub backend: &'a dyn Backend,
    pub tokenizer: &'a Tokenizer,
    pub others: Others<'a>,
}

/// A place where something is chosen.
struct Place {
    row: usize,
    called: Text,
    /// What was chosen, where that is more than the largest score.
    chosen: Option<usize>,
    column: Option<usize>,
}

impl Asking<'_> {
    pub fn ask(&self, questions: &Questions) -> Result<Why, Error> {
        let sequence = self.tour.read();
        let likely = self.tour.ending.likely();
        let plain = Trace::likely(self.model, self.backend, &sequence, likely)?;
        let changed = match &questions.edits {
            Some(edits) => Some(edited(self.model, self.backend, (&sequence, likely), edits, self.others)?),
            None => None,
        };
        let trace = changed.as_ref().unwrap_or(&plain);
        let names = |ids: &[u32]| -> Vec<Token> {
            ids.iter().map(|&id| Token { id, text: self.tour.name(id) }).collect()
        };
        let mut why = Why {
            schema: SCHEMA,
            title: self.tour.title(),
            source: names(&sequence.source),
            target: names(&sequence.target),
            asked: None,
            edits: questions.edits.clone(),
            effect: None,
            lens: None,
            attribution: None,
            ablation: None,
            gradients: None,
            heads: None,
        };
        if questions.heads {
            why.heads = Some(heads(trace, self.backend)?);
        }
        let scores = questions.lens
            || questions.attribute
            || questions.ablate.is_some()
            || questions.gradients.is_some()
            || questions.edits.is_some();
        if !scores {
            return Ok(why);
        }
        let places = self.places(&plain)?;
        let asked = self.asked(&plain, &places, questions)?;
        let focus = asked.focus;
        why.asked = Some(asked);
        let looked: Vec<Looked> = places
            .iter()
            .map(|place| Looked {
                row: place.row,
                wanted: if place.row == focus.row { Some(focus.column) } else { place.chosen },
            })
            .collect();
        let name = |id: usize| self.column_name(id);
        if let Some(after) = &changed {
            let mut found = effect(&plain, after, &looked, GUESSES)?;
            for place in &mut found.places {
                place.before.name(&name);
                place.after.name(&name);
            }
            why.effect = Some(found);
        }
        if questions.lens {
            let mut found = lens(trace, self.backend, &looked, GUESSES)?;
            found
                .readings
                .iter_mut()
                .flat_map(|reading| &mut reading.cells)
                .for_each(|cell| cell.name(&name));
            why.lens = Some(found);
        }
        if questions.attribute {
            why.attribution = Some(attribute(trace, focus)?);
        }
        if let Some(how) = questions.ablate {
            why.ablation = Some(sweep(trace, self.backend, focus, how)?);
        }
        if let Some(method) = questions.gradients {
            let mut found = self.gradients(trace, focus, method)?;
            for share in &mut found.tokens {
                let ids = if share.part == "source" { &sequence.source } else { &sequence.target };
                share.text = ids.get(share.token).map_or_else(String::new, |&id| self.tour.name(id));
            }
            why.gradients = Some(found);
        }
        Ok(why)
    }

    /// Shares of tokens; integrated ones in so many steps that little is missing, as far as that can be had in reasonable time.
    fn gradients(&self, trace: &Trace, focus: Focus, method: Method) -> Result<Gradients, Error> {
        let found = gradients(trace, self.backend, focus, method)?;
        let (Method::Integrated { steps }, Some(baseline), Some(missing)) =
            (method, found.baseline, found.missing)
        else {
            return Ok(found);
        };
        if missing.abs() <= MISSING * (found.score - baseline).abs() || steps >= STEPS {
            return Ok(found);
        }
        self.gradients(trace, focus, Method::Integrated { steps: 2 * steps })
    }

    /// What score `column` is of.
    fn column_name(&self, column: usize) -> String {
        match &self.tour.ending {
            Ending::Written { .. } | Ending::Blanks { .. } => self.tour.name(column as u32),
            Ending::Classes { names, .. } | Ending::Tags { names, .. } => {
                names.get(column).cloned().unwrap_or_else(|| format!("LABEL_{column}"))
            }
            Ending::Span { .. } => ["start", "end"].get(column).copied().unwrap_or_default().to_owned(),
            Ending::Rows => column.to_string(),
        }
    }

    /// Where something is chosen, and what.
    fn places(&self, trace: &Trace) -> Result<Vec<Place>, Error> {
        let logits = trace.read("logits").map_err(|_| no_head())?;
        let (rows, width) = logits.matrix();
        let best = |row: usize| {
            let row = logits.data().get(row * width..(row + 1) * width).unwrap_or(&[]);
            largest(row, 1).first().copied()
        };
        let read = trace.sequence();
        let own = if read.target.is_empty() { &read.source } else { &read.target };
        let token = |row: usize| {
            let text = own.get(row).map_or_else(String::new, |&id| self.tour.name(id));
            Text::same(format!("{} {text}", row + 1))
        };
        Ok(match &self.tour.ending {
            Ending::Written { count, .. } if *count > 0 => {
                let given = read.target.len() + 1 - count;
                let written = |number: usize| {
                    let row = given - 2 + number;
                    let chosen = self.tour.sequence.target.get(row + 1).map(|&id| id as usize);
                    Place { row, called: Text::same(number.to_string()), chosen, column: None }
                };
                (1..=*count).map(written).collect()
            }
            // Nothing was written: what could be said next.
            Ending::Written { .. } => {
                let row = rows.saturating_sub(1);
                vec![Place { row, called: token(row), chosen: best(row), column: None }]
            }
            Ending::Blanks { places } => places
                .iter()
                .map(|&row| Place { row, called: token(row), chosen: best(row), column: None })
                .collect(),
            Ending::Classes { .. } => {
                vec![Place { row: 0, called: Text::same(""), chosen: best(0), column: None }]
            }
            Ending::Tags { .. } => (0..rows)
                .map(|row| Place { row, called: token(row), chosen: best(row), column: None })
                .collect(),
            Ending::Span { best: span } => {
                let side = |column: usize| {
                    (0..rows).max_by(|a, b| {
                        let at = |row: &usize| logits.data()[row * width + column];
                        at(a).total_cmp(&at(b))
                    })
                };
                let (start, end) = match span {
                    Some((start, end)) => (Some(*start), Some(*end)),
                    None => (side(0), side(1)),
                };
                let place = |(row, column): (usize, usize)| Place {
                    row,
                    called: token(row),
                    chosen: Some(column),
                    column: Some(column),
                };
                [start.map(|row| (row, 0)), end.map(|row| (row, 1))]
                    .into_iter()
                    .flatten()
                    .map(place)
                    .collect()
            }
            Ending::Rows => return Err(no_head()),
        })
    }

    /// The score that is asked about.
    fn asked(&self, trace: &Trace, places: &[Place], questions: &Questions) -> Result<Asked, Error> {
        let place = if let Some(number) = questions.place {
            let there = places.len();
            places.get(number.wrapping_sub(1)).ok_or(Error::Detail { what: "step", asked: number, there })?
        } else {
            // A word of spaces says little: the first that can be seen.
            let visible = |text: String| text.chars().any(|c| c.is_alphanumeric() && c != '␣');
            let seen = |place: &&Place| place.chosen.is_some_and(|id| visible(self.column_name(id)));
            places.iter().find(seen).or(places.first()).ok_or_else(no_head)?
        };
        let logits = trace.read("logits").map_err(|_| no_head())?;
        let width = logits.matrix().1;
        let row = &logits.data()[place.row * width..(place.row + 1) * width];
        let column = match &questions.about {
            Some(text) => self.column(text, row)?,
            None => place.column.or(place.chosen).ok_or_else(no_head)?,
        };
        let against = questions.contrast.as_deref().map(|text| self.column(text, row)).transpose()?;
        if against == Some(column) {
            let what = format!("why {0:?} and not {0:?} is no question", self.column_name(column));
            return Err(Error::Why { what });
        }
        Ok(Asked {
            focus: Focus { row: place.row, column, against },
            place: place.called.clone(),
            text: self.column_name(column),
            against_text: against.map(|id| self.column_name(id)),
        })
    }

    /// The score that `text` names: a class, or a token; of several that read alike the likeliest.
    fn column(&self, text: &str, scores: &[f32]) -> Result<usize, Error> {
        let words = matches!(self.tour.ending, Ending::Written { .. } | Ending::Blanks { .. });
        let likeliest = |wanted: &dyn Fn(&str) -> bool| {
            let all = (0..scores.len()).filter(|&id| wanted(&self.column_name(id)));
            all.max_by(|&a, &b| scores[a].total_cmp(&scores[b]))
        };
        let bare = |name: &str| name.trim_start_matches(['␣', '▁']).trim_start_matches("##").to_owned();
        if let Some(found) = likeliest(&|name| name == text).or_else(|| likeliest(&|name| bare(name) == text))
        {
            return Ok(found);
        }
        if words {
            let special = glassformer_tokens::Special::Leave;
            let ids = self.tokenizer.encode(text, special).map_err(glassformer_tasks::Error::from)?.ids;
            if let [id] = ids[..] {
                return Ok(id as usize);
            }
            let pieces: Vec<String> = ids.iter().map(|&id| self.tour.name(id)).collect();
            let what = if pieces.is_empty() {
                format!("{text:?} is no token of this model")
            } else {
                format!("{text:?} is no single token of this model: it is {}", pieces.join(" · "))
            };
            return Err(Error::Why { what });
        }
        let known: Vec<String> = (0..scores.len()).map(|id| self.column_name(id)).collect();
        Err(Error::Why { what: format!("there is no {text:?}: there are {}", known.join(", ")) })
    }
}
