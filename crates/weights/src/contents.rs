//! What every reader finds in a file, whatever its format: tensors, where they lie, and what is said beside them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::Dtype;
use crate::map::Map;
use crate::stored::Stored;

/// More dimensions than any tensor has; without a limit a header could become a list of many times its own size.
pub(crate) const DIMENSIONS: usize = 16;

/// What one file holds.
pub(crate) struct Contents {
    pub(crate) tensors: Vec<(String, Stored)>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Where a tensor lies in its file, checked.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) range: Range<usize>,
}

impl Place {
    /// The tensor there, under its name.
    pub(crate) fn tensor(self, map: &Arc<Map>) -> (String, Stored) {
        (self.name, Stored::file(map, self.range, self.dtype, &self.shape))
    }
}
