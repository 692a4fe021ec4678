//! Which score is asked about: one of a row, or how far it is above another.

use glassformer_engine::{Asked, Sequence};
use glassformer_graph::{Graph, Rows};
use serde::Serialize;

use crate::Error;

/// A score of the head: why this one? Or the difference of two: why this one and not that one?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Focus {
    /// The row of `logits`: a token of the last stack, or 0 where a text has one row of scores.
    pub row: usize,
    /// Which score of it.
    pub column: usize,
    /// The score that is subtracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<usize>,
}

impl Focus {
    /// The score, or the difference, in `logits` of this width.
    pub fn of(&self, logits: &[f32], width: usize) -> Option<f64> {
        let at = |column: usize| {
            (column < width).then(|| logits.get(self.row * width + column).copied().map(f64::from)).flatten()
        };
        let score = at(self.column)?;
        match self.against {
            Some(other) => Some(score - at(other)?),
            None => Some(score),
        }
    }

    /// Refuses a row or a score that `graph` does not have for `rows` rows.
    pub(super) fn check(&self, graph: &Graph, rows: usize) -> Result<(), Error> {
        let logits = graph.value("logits").map_err(|_| no_head())?;
        let shape = graph.shape(logits);
        let rows = if let Rows::Sequences(_) = shape.rows { 1 } else { rows };
        let beyond = [Some(self.column), self.against].into_iter().flatten().find(|at| *at >= shape.width);
        if let Some(column) = beyond {
            return Err(Error::Why {
                what: format!("there is no score {column}: there are {}", shape.width),
            });
        }
        if self.row >= rows {
            return Err(Error::Why { what: format!("there is no row {}: there are {rows}", self.row) });
        }
        Ok(())
    }

    /// `sequence` where the head is asked about this row alone, and which row of `logits` it then is.
    pub(super) fn alone(&self, graph: &Graph, sequence: &Sequence) -> (Sequence, usize) {
        let logits = graph.value("logits").map(|logits| graph.shape(logits).rows);
        match logits {
            Ok(Rows::Picked(_)) => (Sequence { asked: Asked::Rows(vec![self.row]), ..sequence.clone() }, 0),
            Ok(_) | Err(_) => (sequence.clone(), self.row),
        }
    }
}

/// That there is nothing to ask about.
pub(super) fn no_head() -> Error {
    Error::Why { what: "the model has no head that scores: its rows are the result".into() }
}
