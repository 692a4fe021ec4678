//! Where the tensors of a CTranslate2 model are.

use super::Spec;
use crate::rules::{how, rule};
use crate::{How, Rule};

/// The score of the row of noughts that decoders start from: it is never a word.
const NEVER: f32 = -1e9;

impl Spec<'_> {
    /// Where all tensors are.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let zero = self.starts_from_zero().unwrap_or(false);
        let longer = |value| if zero { How::RowMore(value) } else { How::Same };
        let mut rules = vec![
            how("head.weight", "decoder/projection/weight", longer(0.0)),
            how("head.bias", "decoder/projection/bias", longer(NEVER)),
            how("head.bias", "decoder/projection/weight", How::NoughtsThen(NEVER)),
            rule("pooler.dense.{wb}", "pooler_dense/{wb}"),
            rule("source.embed.types", "encoder/embeddings_1/weight"),
        ];
        for (ours, theirs) in [("source", "encoder"), ("target", "decoder")] {
            let has_zero =
                zero && (ours == "target" || self.same(&self.table("encoder"), &self.table("decoder")));
            let table = if has_zero { How::RowMore(0.0) } else { How::Same };
            let begin = format!("{theirs}/embeddings");
            rules.extend([
                how(&format!("{ours}.embed.tokens"), &format!("{begin}_0/weight"), table),
                how(&format!("{ours}.embed.tokens"), &format!("{begin}/weight"), table),
                rule(&format!("{ours}.embed.positions"), &format!("{theirs}/position_encodings/encodings")),
                rule(
                    &format!("{ours}.position.table"),
                    &format!("{theirs}/layer_0/self_attention/relative_attention_bias"),
                ),
            ]);
            norm(&mut rules, &format!("{ours}.embed.norm"), &format!("{theirs}/layernorm_embedding"));
            norm(&mut rules, &format!("{ours}.norm"), &format!("{theirs}/layer_norm"));
            self.layer(&mut rules, ours, theirs);
        }
        rules
    }

    fn layer(&self, rules: &mut Vec<Rule>, ours: &str, theirs: &str) {
        let (ours, layer) = (format!("{ours}.{{n}}"), format!("{theirs}/layer_{{n}}"));
        if let Ok(heads) = self.heads(theirs) {
            let (query, key) = (heads.query * heads.size, heads.key * heads.size);
            let fused =
                [("query", 0, query), ("key", query, query + key), ("value", query + key, query + 2 * key)];
            rules.extend(fused.map(|(part, from, to)| {
                let ours = format!("{ours}.attend.{part}.{{wb}}");
                how(&ours, &format!("{layer}/self_attention/linear_0/{{wb}}"), How::Rows { from, to })
            }));
        }
        let gated = self.has(&format!("{theirs}/layer_0/ffn/linear_0_noact/weight"));
        let up = if gated { "ffn/linear_0_noact/{wb}" } else { "ffn/linear_0/{wb}" };
        let half = |part| How::Part { part, of: 2 };
        let pairs = [
            ("attend.output.{wb}", "self_attention/linear_1/{wb}", How::Same),
            ("cross.query.{wb}", "attention/linear_0/{wb}", How::Same),
            ("cross.key.{wb}", "attention/linear_1/{wb}", half(0)),
            ("cross.value.{wb}", "attention/linear_1/{wb}", half(1)),
            ("cross.output.{wb}", "attention/linear_2/{wb}", How::Same),
            ("feed.gate.{wb}", "ffn/linear_0/{wb}", How::Same),
            ("feed.up.{wb}", up, How::Same),
            ("feed.down.{wb}", "ffn/linear_1/{wb}", How::Same),
        ];
        rules.extend(pairs.map(|(a, b, done)| how(&format!("{ours}.{a}"), &format!("{layer}/{b}"), done)));
        let norms = [
            ("attend", "self_attention/layer_norm"),
            ("attend", "input_layer_norm"),
            ("attend", "shared_layer_norm"),
            ("cross", "attention/layer_norm"),
            ("feed", "ffn/layer_norm"),
            ("feed", "post_attention_layer_norm"),
            ("feed", "shared_layer_norm"),
        ];
        for (sublayer, name) in norms {
            for site in ["norm_in", "norm_out"] {
                norm(rules, &format!("{ours}.{sublayer}.{site}"), &format!("{layer}/{name}"));
            }
        }
        norm(rules, &format!("{ours}.attend.query_norm"), &format!("{layer}/self_attention/q_norm"));
        norm(rules, &format!("{ours}.attend.key_norm"), &format!("{layer}/self_attention/k_norm"));
    }
}

fn norm(rules: &mut Vec<Rule>, ours: &str, theirs: &str) {
    rules.push(rule(&format!("{ours}.gain"), &format!("{theirs}/gamma")));
    rules.push(rule(&format!("{ours}.bias"), &format!("{theirs}/beta")));
}
