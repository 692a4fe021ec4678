//! Edits as data: a small JSON that can be shared and replayed. It may come from anyone, so nothing in it is trusted.
//!
//! ```json
//! {"schema": 1, "edits": [
//!   {"do": "ablate_head", "side": "target", "layer": 3, "head": 5},
//!   {"do": "ablate_neuron", "layer": 0, "neuron": 17, "with": "mean"},
//!   {"do": "ablate_sublayer", "layer": 2, "sublayer": "feed"},
//!   {"do": "ablate_layer", "layer": 2},
//!   {"do": "scale", "value": "target.3.feed.down", "by": 2.0, "rows": [0, 1]},
//!   {"do": "patch", "value": "target.3.attend.heads", "rows": [4], "from": {"text": "Another text", "rows": [4]}},
//!   {"do": "cut", "layer": 3, "head": 5, "query": 4, "key": 1}
//! ]}
//! ```
//!
//! Layers, heads, neurons, rows, queries and keys are counted from 0, as in the names of values. Where a `side` is left out, it is the
//! last stack's. `sublayer` is `attend` for heads and cuts, `feed` for neurons, unless it is said.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The version of the JSON.
pub const SCHEMA: u32 = 1;
/// The longest text of edits that is read, and the most edits in it.
const MOST_BYTES: usize = 1 << 20;
const MOST_EDITS: usize = 1024;

/// What is done to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edits {
    /// The version: 1.
    pub schema: u32,
    /// What is done, in this order where several are about one value.
    pub edits: Vec<Edit>,
}

/// A stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// The encoder.
    Source,
    /// The decoder.
    Target,
}

/// What is put in the place of what is taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum With {
    /// Zeros.
    #[default]
    Zero,
    /// The mean of the rows of this run, column by column.
    Mean,
}

/// Where a patch comes from: another input, or this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// Another text that the model reads; without it, this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its second text, where the model reads pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<String>,
    /// Which of its rows, as many as are patched; without them, rows of the same numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<usize>>,
}

/// An edge of an attention that is taken away: its score is −∞ before the softmax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// In which stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Stack>,
    /// In which attention of the layer: `attend` or `cross`.
    #[serde(default = "attend")]
    pub sublayer: String,
    /// In which layer.
    pub layer: usize,
    /// In which head; without it, in every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// Who no longer looks.
    pub query: usize,
    /// At whom.
    pub key: usize,
}

/// One edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// A head's result, before the output projection, is taken away. All heads together leave the projection's bias.
    AblateHead {
        /// In which stack.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Stack>,
        /// In which attention of the layer: `attend` or `cross`.
        #[serde(default = "attend")]
        sublayer: String,
        /// In which layer.
        layer: usize,
        /// Which head.
        head: usize,
        /// What is put in its place.
        #[serde(default)]
        with: With,
    },
    /// A neuron of a feed-forward, behind its activation, is taken away.
    AblateNeuron {
        /// In which stack.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Stack>,
        /// In which feed-forward of the layer.
        #[serde(default = "feed")]
        sublayer: String,
        /// In which layer.
        layer: usize,
        /// Which neuron.
        neuron: usize,
        /// What is put in its place.
        #[serde(default)]
        with: With,
    },
    /// What a sublayer adds to the rows is taken away, its bias too.
    AblateSublayer {
        /// In which stack.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Stack>,
        /// Which one: `attend`, `cross`, `feed`.
        sublayer: String,
        /// In which layer.
        layer: usize,
        /// What is put in its place.
        #[serde(default)]
        with: With,
    },
    /// What every sublayer of a layer adds is taken away.
    AblateLayer {
        /// In which stack.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Stack>,
        /// Which layer.
        layer: usize,
        /// What is put in its place.
        #[serde(default)]
        with: With,
    },
    /// A value is multiplied by a number.
    Scale {
        /// The value's name.
        value: String,
        /// By what.
        by: f32,
        /// Which rows; all without them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<Vec<usize>>,
        /// From which column, and up to which one, that one left out; all without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        columns: Option<[usize; 2]>,
    },
    /// Rows of a value are replaced by those of another run, or by others of this one.
    Patch {
        /// The value's name.
        value: String,
        /// Which rows; all without them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<Vec<usize>>,
        /// From which column, and up to which one, that one left out; all without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        columns: Option<[usize; 2]>,
        /// Where they come from.
        #[serde(default)]
        from: From,
    },
    /// An edge of an attention is taken away.
    Cut(Cut),
}

fn attend() -> String {
    "attend".to_owned()
}

fn feed() -> String {
    "feed".to_owned()
}

impl Edits {
    /// These edits.
    pub fn of(edits: Vec<Edit>) -> Self {
        Self { schema: SCHEMA, edits }
    }

    /// Reads edits.
    ///
    /// # Errors
    /// If they are no JSON of this version, say something that is not known, or are too many.
    pub fn read(text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::Edits { why };
        if text.len() > MOST_BYTES {
            return Err(bad(format!("they take {} bytes, and {MOST_BYTES} are read at most", text.len())));
        }
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(SCHEMA) => {}
            Some(version) => return Err(bad(format!("their schema is {version}, and {SCHEMA} is known"))),
            None => return Err(bad(format!("\"schema\": {SCHEMA} is missing"))),
        }
        let edits: Self = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        if edits.edits.len() > MOST_EDITS {
            return Err(bad(format!("there are {}, and {MOST_EDITS} are read at most", edits.edits.len())));
        }
        let finite = |edit: &Edit| if let Edit::Scale { by, .. } = edit { by.is_finite() } else { true };
        if !edits.edits.iter().all(finite) {
            return Err(bad("a value is multiplied by what is no number".into()));
        }
        Ok(edits)
    }
}

impl With {
    /// `numbers`, rows of `width`, with this in the columns `range`.
    pub(super) fn put(self, numbers: &[f32], width: usize, range: &Range<usize>) -> Vec<f32> {
        let rows = numbers.len() / width.max(1);
        let mut put = numbers.to_vec();
        for column in range.clone() {
            let filling = match self {
                Self::Zero => 0.0,
                Self::Mean => {
                    let sum: f64 = (0..rows).map(|row| f64::from(numbers[row * width + column])).sum();
                    (sum / rows.max(1) as f64) as f32
                }
            };
            (0..rows).for_each(|row| put[row * width + column] = filling);
        }
        put
    }
}
