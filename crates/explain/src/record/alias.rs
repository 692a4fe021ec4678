//! What TransformerLens calls a value, for who knows its names: `blocks.3.attn.hook_pattern` for `target.3.attend.probs`. A model of two
//! stacks has its names of T5: `encoder.3.attn.hook_q`, `decoder.3.cross_attn.hook_pattern`.

use glassformer_graph::Side;

use crate::names::Path;

/// The TransformerLens name of the value `name` in a model of this kind.
pub(super) fn alias(name: &str, model: Kind) -> Option<String> {
    let path = Path::of(name);
    let side = path.side?;
    let block = |layer: usize| match (model.stacks, side) {
        (2, Side::Source) => format!("encoder.{layer}"),
        (2, Side::Target) => format!("decoder.{layer}"),
        (_, _) => format!("blocks.{layer}"),
    };
    let Some(layer) = path.layer else {
        return Some(match (path.part, path.last) {
            // With two stacks one name would stand for both.
            ("embed", _) if model.stacks > 1 => return None,
            ("embed", "words") => "hook_embed".to_owned(),
            ("embed", "positions") => "hook_pos_embed".to_owned(),
            ("embed", "typed") => "hook_token_type_embed".to_owned(),
            ("norm", "norm") if model.norm == Norms::Layer => match (model.stacks, side) {
                (2, Side::Source) => "encoder_final_ln.hook_normalized".to_owned(),
                (2, Side::Target) => "decoder_final_ln.hook_normalized".to_owned(),
                (_, _) => "ln_final.hook_normalized".to_owned(),
            },
            _ => return None,
        });
    };
    if path.global || name.contains(".recalled.") {
        return None;
    }
    let attention = match path.part {
        "attend" => "attn",
        "cross" => "cross_attn",
        "feed" => "mlp",
        _ => return None,
    };
    // The stream after the last sublayer is the layer's; that of others stands between.
    let after = match path.part {
        "attend" => "hook_resid_mid",
        "cross" => "hook_resid_mid_cross",
        _ => "hook_resid_post",
    };
    let place = match (path.part, model.crosses && side == Side::Target) {
        ("attend", _) => "ln1",
        ("cross", _) | ("feed", false) => "ln2",
        (_, _) => "ln3",
    };
    let inside = match (path.part, path.last) {
        ("attend" | "cross", "query") => format!("{attention}.hook_q"),
        ("attend" | "cross", "key") => format!("{attention}.hook_k"),
        ("attend" | "cross", "value") => format!("{attention}.hook_v"),
        ("attend", "query_rotated") => format!("{attention}.hook_rot_q"),
        ("attend", "key_rotated") => format!("{attention}.hook_rot_k"),
        ("attend" | "cross", "scores") => format!("{attention}.hook_attn_scores"),
        ("attend" | "cross", "probs") => format!("{attention}.hook_pattern"),
        ("attend" | "cross", "heads") => format!("{attention}.hook_z"),
        ("attend", "output") => "hook_attn_out".to_owned(),
        ("cross", "output") => "hook_cross_attn_out".to_owned(),
        ("feed", "up") if model.gated => "mlp.hook_pre_linear".to_owned(),
        ("feed", "up" | "gate") => "mlp.hook_pre".to_owned(),
        ("feed", "hidden") => "mlp.hook_post".to_owned(),
        ("feed", "down") => "hook_mlp_out".to_owned(),
        (_, "norm_in") if model.norm == Norms::Layer => format!("{place}.hook_normalized"),
        // Where a norm comes after the sum, the stream is what the norm gives (as in its BERT).
        (_, "norm_out") if path.part == "feed" => "hook_normalized_resid_post".to_owned(),
        (_, "sum") => after.to_owned(),
        _ => return None,
    };
    Some(format!("{}.{inside}", block(layer)))
}

/// What names depend on besides the value's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// How many stacks there are.
    pub stacks: usize,
    /// Whether the target looks at the source.
    pub crosses: bool,
    /// Whether feed-forward layers are gated.
    pub gated: bool,
    pub norm: Norms,
}

/// What norms do. TransformerLens' `hook_normalized` is behind the gain in a layer norm, and before it in an RMS norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Norms {
    Layer,
    Rms,
}
