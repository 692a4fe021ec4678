//! What a text claims about a run, and whether it is so.

use glassformer_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{Error, Trace};

/// How a text says that something is a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// With =.
    #[default]
    #[serde(rename = "=")]
    Equal,
    /// With ≈.
    #[serde(rename = "≈")]
    About,
}

/// Where a number stands in a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// It is this element.
    Element(Vec<usize>),
    /// It is the size of this axis.
    Axis(usize),
}

/// Where a number stands in a run of the text's own earlier numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnPlace {
    /// The tensor of that run.
    pub tensor: String,
    /// The element.
    pub element: Vec<usize>,
}

/// A number that a text prints, and the element of the run that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name among all claims.
    pub id: String,
    /// The section of the text.
    pub section: String,
    /// What the text says it is, in the text's notation. Neighbours with the same `what` form one vector.
    pub what: String,
    /// The number, exactly as printed.
    pub printed: String,
    /// Whether the text says = or ≈.
    #[serde(default)]
    pub relation: Relation,
    /// The tensor that it is about.
    pub tensor: String,
    /// Where in that tensor.
    #[serde(flatten)]
    pub place: Place,
    /// Where it stands in the run of the text's own earlier numbers, if it follows from such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnPlace>,
}

/// Whether a printed number is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is the truth, rounded to the printed digits.
    Right,
    /// It is not.
    Wrong,
}

impl Verdict {
    /// ✓ or ✗.
    pub fn mark(self) -> char {
        match self {
            Self::Right => '✓',
            Self::Wrong => '✗',
        }
    }
}

/// What the text's own earlier numbers give in place of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OwnTruth {
    /// The number.
    pub value: f32,
    /// Whether the text prints it.
    pub verdict: Verdict,
}

/// A claim with the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// The number of the run.
    pub truth: f32,
    /// Whether the claim is right.
    pub verdict: Verdict,
    /// What follows from the text's own earlier numbers, where that was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_own: Option<OwnTruth>,
}

impl Claim {
    /// Judges the claim by the run of `trace`; `own` gives the tensors of the text's own numbers.
    ///
    /// # Errors
    /// If the claim is about a tensor or an element that does not exist.
    pub fn judge(&self, trace: &Trace, own: impl Fn(&str) -> Option<Tensor>) -> Result<Judged, Error> {
        let truth = self.read(&trace.get(&self.tensor)?.tensor, &self.place)?;
        let given_own = match &self.own {
            None => None,
            Some(place) => {
                let missing = || Error::NoTensor { name: place.tensor.clone(), nearest: String::new() };
                let tensor = own(&place.tensor).ok_or_else(missing)?;
                let value = self.read(&tensor, &Place::Element(place.element.clone()))?;
                Some(OwnTruth { value, verdict: self.verdict(value)? })
            }
        };
        Ok(Judged { claim: self.clone(), truth, verdict: self.verdict(truth)?, given_own })
    }

    /// The number at `place`.
    fn read(&self, tensor: &Tensor, place: &Place) -> Result<f32, Error> {
        let shape = tensor.shape();
        let number = match place {
            Place::Axis(axis) => shape.get(*axis).map(|&size| size as f32),
            Place::Element(element) => offset(shape, element).map(|at| tensor.data()[at]),
        };
        number.ok_or_else(|| Error::NoElement {
            claim: self.id.clone(),
            place: format!("{place:?}"),
            tensor: self.tensor.clone(),
            shape: shape.to_vec(),
        })
    }

    /// Right if `truth`, rounded to the printed digits, is what is printed: within half a unit of the last one.
    fn verdict(&self, truth: f32) -> Result<Verdict, Error> {
        let not_a_number =
            |_| Error::Data { file: "claims", why: format!("{}: {:?} is no number", self.id, self.printed) };
        let printed: f64 = self.printed.parse().map_err(not_a_number)?;
        let truth = f64::from(truth);
        // Two f32 roundings of the truth may part by this much; no half unit of a printed digit is as small.
        let rounding = 1e-6 * truth.abs().max(1.0);
        let half_unit = 0.5 * 10_f64.powi(-(self.decimals() as i32));
        Ok(if (printed - truth).abs() <= half_unit + rounding { Verdict::Right } else { Verdict::Wrong })
    }

    /// How many digits are printed after the point.
    pub fn decimals(&self) -> usize {
        self.printed.split_once('.').map_or(0, |(_, digits)| digits.len())
    }
}

/// Where `element` of a row-major tensor of `shape` lies.
fn offset(shape: &[usize], element: &[usize]) -> Option<usize> {
    let inside = shape.len() == element.len() && shape.iter().zip(element).all(|(size, at)| at < size);
    inside.then(|| shape.iter().zip(element).fold(0, |offset, (size, at)| offset * size + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(printed: &str, truth: f32) -> Verdict {
        let claim = Claim {
            id: "a".into(),
            section: "1".into(),
            what: "a".into(),
            printed: printed.into(),
            relation: Relation::Equal,
            tensor: "a".into(),
            place: Place::Axis(0),
            own: None,
        };
        claim.verdict(truth).unwrap()
    }

    #[test]
    fn a_printed_number_is_right_if_the_truth_rounds_to_it() {
        assert_eq!(verdict("1.5", 1.52), Verdict::Right);
        assert_eq!(verdict("1.5", 1.549), Verdict::Right);
        assert_eq!(verdict("1.9", 1.84), Verdict::Wrong);
        assert_eq!(verdict("0.8", 0.88), Verdict::Wrong);
        assert_eq!(verdict("0.9990", 1.0), Verdict::Wrong);
        assert_eq!(verdict("10.73", 10.730_001), Verdict::Right);
        assert_eq!(verdict("4", 4.0), Verdict::Right);
        assert_eq!(verdict("1.0", f32::NAN), Verdict::Wrong);
    }

    #[test]
    fn elements_are_found_row_by_row_and_never_outside() {
        assert_eq!(offset(&[3, 4], &[1, 2]), Some(6));
        assert_eq!(offset(&[3, 3, 1], &[1, 2, 0]), Some(5));
        assert_eq!(offset(&[3, 4], &[3, 0]), None);
        assert_eq!(offset(&[3, 4], &[1]), None);
    }
}
