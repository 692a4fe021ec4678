//! The scalars of a CTranslate2 model: flags and sizes beside its tensors.

use glassformer_formula::Activation;

use super::Spec;
use crate::Error;

/// How the names of scalars that are read, and of tensors that may be left, end.
pub(super) const SKIPPED: &[&str] = &[
    "/activation",
    "/alibi",
    "/alibi_use_positive_positions", // only shifts all scores of a row
    "/alignment_heads",              // for showing, not for the outputs
    "/alignment_layer",
    "/embeddings_merge",
    "/head_dim",
    "/max_position_embeddings",
    "/multi_query",
    "/multi_query_attention", // said again by num_heads_kv
    "/multiply_by_sqrt_depth",
    "/num_heads",
    "/num_heads_kv",
    "/original_max_position_embeddings",
    "/pre_norm",
    "/queries_scale",
    "/relative_attention_max_distance",
    "/rotary_base",
    "/rotary_dim",
    "/rotary_high_freq_factor",
    "/rotary_interleave",
    "/rotary_low_freq_factor",
    "/rotary_scaling_factor",
    "/rotary_scaling_type",
    "/scale_alibi",
    "/scale_embeddings",
    "/scale_outputs",
    "/start_from_zero_embedding",
    "pooler_activation",
    // Tensors: read together with their integers, or other names of one that is read.
    "/weight_scale",
    "decoder/embeddings/weight",
    "decoder/projection/weight",
    "/relative_attention_bias",
];

impl Spec<'_> {
    /// The scalar `name`.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let Some(view) = self.weights.get(name) else { return Ok(None) };
        match *view.values() {
            [number] if number.is_finite() => Ok(Some(number.into())),
            [number] => Err(self.bad(format!("{name} is {number}"))),
            _ => Err(self.bad(format!("{name} is {:?}, and should be one number", view.shape()))),
        }
    }

    /// The scalar `name` as a whole number.
    pub(super) fn size(&self, name: &str) -> Result<Option<usize>, Error> {
        match self.number(name)? {
            Some(number) if number < 0.0 || number.fract() != 0.0 => {
                Err(self.bad(format!("{name} is {number}, and should be a whole number")))
            }
            number => Ok(number.map(|number| number as usize)),
        }
    }

    /// The scalar `name` as true or false.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.number(name)?.map_or(default, |number| number != 0.0))
    }

    pub(super) fn activation(&self, name: &str) -> Result<Activation, Error> {
        Ok(match self.size(name)?.unwrap_or(0) {
            0 => Activation::Relu,
            1 => Activation::GeluTanh,
            2 => Activation::Silu,
            3 => Activation::Gelu,
            5 => Activation::Tanh,
            6 => Activation::Sigmoid,
            other => return Err(self.bad(format!("{name} is {other}, an activation that is not supported"))),
        })
    }

    /// Refuses scalars that nothing here reads, and layers that differ: one formula stands for all of them.
    pub(super) fn check_scalars(&self) -> Result<(), Error> {
        let is_scalar = |name: &&str| self.weights.shape(name).is_some_and(<[usize]>::is_empty);
        let mut unread = Vec::new();
        for name in self.weights.names().filter(is_scalar) {
            if !SKIPPED.iter().any(|end| name.ends_with(end)) && !self.says_nothing(name)? {
                unread.push(name);
            }
            if let Some(first) = in_first_layer(name)
                && self.number(&first)? != self.number(name)?
            {
                return Err(self.bad(format!("{name} is not {first}: layers that differ are not supported")));
            }
        }
        if unread.is_empty() {
            return Ok(());
        }
        let names = unread.join(", ");
        Err(self.bad(format!(
            "{names} not understood, and may change the results; update Glassformer or report it"
        )))
    }

    /// Whether a scalar is a flag that is off.
    fn says_nothing(&self, name: &str) -> Result<bool, Error> {
        let flags = ["/layer_norm_use_residual", "/with_relative_position", "with_relative_position"];
        Ok(flags.iter().any(|end| name.ends_with(end)) && self.number(name)? == Some(0.0))
    }
}

/// The same place in layer 0: `decoder/layer_0/…` for `decoder/layer_3/…`.
fn in_first_layer(name: &str) -> Option<String> {
    let (before, after) = name.split_once("/layer_")?;
    let (number, rest) = after.split_once('/')?;
    number.parse::<usize>().is_ok().then(|| format!("{before}/layer_0/{rest}"))
}
