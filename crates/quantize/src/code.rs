//! Rows in few bits as a file holds them.

use glassformer_tensor::{CodedRow, Coding};
use glassformer_weights::put_together;

/// A weight in few bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coded {
    /// Its rows, one behind the other.
    pub bytes: Vec<u8>,
    /// Their scales.
    pub scales: Vec<f32>,
}

impl Coded {
    /// Appends a row.
    ///
    /// # Errors
    /// If it is beyond what few bits can say.
    pub fn push(&mut self, coding: Coding, row: &CodedRow) -> Result<(), &'static str> {
        if !row.is_finite() {
            return Err("holds numbers that are too large: it cannot be written in few bits");
        }
        if coding == Coding::INT4 {
            put_together(row, &mut self.bytes);
        } else {
            self.bytes.extend(row.codes.iter().map(|code| code ^ 128));
        }
        self.scales.extend_from_slice(&row.scales);
        Ok(())
    }
}

/// Refuses weights that hold no numbers.
///
/// # Errors
/// What is wrong with it.
pub fn check(values: &[f32]) -> Result<(), &'static str> {
    if values.iter().all(|x| x.is_finite()) {
        return Ok(());
    }
    Err("holds numbers that are infinite or none: it cannot be written in few bits")
}
