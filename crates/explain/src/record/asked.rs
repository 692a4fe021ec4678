//! What a researcher asks of every run: what the rows after each sublayer would have said, what each head does, which word of the source
//! each word looks at.

use glassformer_graph::Backend;
use serde_json::{Value, json};

use crate::tour::{Ending, Telling, largest};
use crate::why::{HeadStatistics, Looked, heads, lens};
use crate::{Error, Trace};

/// How many guesses of each place are told.
const GUESSES: usize = 5;

/// The answers.
#[derive(Default)]
pub(super) struct Asked {
    pub lens: Value,
    pub heads: Vec<HeadStatistics>,
    pub alignment: Value,
}

/// What there is to say of the run of `telling`.
pub(super) fn asked(telling: &Telling<'_>, backend: &dyn Backend) -> Result<Asked, Error> {
    let heads = heads(&telling.trace, backend)?;
    let alignment = aligned(&telling.trace, &heads).unwrap_or(Value::Null);
    Ok(Asked { lens: looked(telling, backend)?, heads, alignment })
}

/// The logit lens at the places where something was chosen.
fn looked(telling: &Telling<'_>, backend: &dyn Backend) -> Result<Value, Error> {
    let tour = telling.tour();
    let plain = |row: usize| Looked { row, wanted: None };
    let places: Vec<Looked> = match &tour.ending {
        Ending::Written { count, .. } => {
            let (target, first) = (&tour.sequence.target, telling.given() - 1);
            let wanted = |row: usize| target.get(row + 1).map(|&id| id as usize);
            (first..first + count).map(|row| Looked { row, wanted: wanted(row) }).collect()
        }
        Ending::Blanks { places } => places.iter().map(|&row| plain(row)).collect(),
        Ending::Classes { .. } => vec![plain(0)],
        Ending::Tags { .. } => {
            (0..tour.sequence.source.len().max(tour.sequence.target.len())).map(plain).collect()
        }
        // Each column of a span is a distribution over the rows, and rows by themselves say nothing.
        Ending::Span { .. } | Ending::Rows => return Ok(Value::Null),
    };
    if places.is_empty() {
        return Ok(Value::Null);
    }
    let mut lens = lens(&telling.trace, backend, &places, GUESSES)?;
    let labels = tour.ending.vocabulary();
    let name = |id: usize| match labels.get(id) {
        Some(label) => label.clone(),
        None if matches!(tour.ending, Ending::Written { .. } | Ending::Blanks { .. }) => {
            (tour.token)(id as u32)
        }
        None => format!("LABEL_{id}"),
    };
    for reading in &mut lens.readings {
        reading.cells.iter_mut().for_each(|cell| cell.name(&name));
    }
    let rows: Vec<&str> = lens.readings.iter().map(|reading| reading.value.as_str()).collect();
    Ok(json!({ "rows": rows, "places": lens.places, "readings": lens.readings }))
}

/// Which source word each row of the target looks at the most, in the head that points the most sharply.
fn aligned(trace: &Trace, heads: &[HeadStatistics]) -> Option<Value> {
    let best = heads.iter().filter(|head| head.alignment.is_some());
    let best = best.max_by(|a, b| a.alignment.unwrap_or(0.0).total_cmp(&b.alignment.unwrap_or(0.0)))?;
    let HeadStatistics { part, sublayer, layer, head, .. } = best;
    let shares = &trace.value(&format!("{part}.{layer}.{sublayer}.probs"))?.tensor;
    let [rows, keys, heads] = *shares.shape() else { return None };
    let most = |row: usize| {
        let own: Vec<f32> = (0..keys).map(|key| shares.data()[(row * keys + key) * heads + head]).collect();
        Some([row, *largest(&own, 1).first()?])
    };
    let hard: Vec<[usize; 2]> = (0..rows).filter_map(most).collect();
    Some(json!({ "best_head": { "layer": layer, "head": head, "sublayer": sublayer }, "hard": hard }))
}
