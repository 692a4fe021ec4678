//! An encoder or a decoder of a CTranslate2 model, as its tensors tell.

use glassformer_formula::{
    Attention, Counting, Depth, FeedForward, Heads, InputScale, Mix, Norm, NormSites, Pairing, Position,
    ProjectionBias, Reach, Reads, Rotary, Scale, Scaling, Side, Spread, Stack, Sublayer, Tokens, When,
};

use super::Spec;
use crate::Error;
use crate::blocks::{across, attention, input, tokens};

impl Spec<'_> {
    /// The name of a side's table of tokens.
    pub(super) fn table(&self, scope: &str) -> String {
        let numbered = format!("{scope}/embeddings_0/weight");
        if self.has(&numbered) { numbered } else { format!("{scope}/embeddings/weight") }
    }

    /// The side whose tensors begin with `scope`.
    pub(super) fn side(&self, scope: &str) -> Result<Side, Error> {
        let (rows, width) = self.matrix(&self.table(scope))?;
        let zero = scope == "decoder" && self.starts_from_zero()?;
        let norm = self.norm(&format!("{scope}/layernorm_embedding"));
        let scale = self.input_scale(scope, width)?;
        let words = Tokens { scale, norm, types: self.types(scope)?, ..tokens(rows + usize::from(zero)) };
        Ok(Side { input: input(words), stack: self.stack(scope, width)? })
    }

    /// A second table whose rows are added is that of token types (BERT).
    fn types(&self, scope: &str) -> Result<Option<usize>, Error> {
        let second = format!("{scope}/embeddings_1/weight");
        if !self.has(&second) {
            return Ok(None);
        }
        let added = self.size(&format!("{scope}/embeddings_merge"))? == Some(1);
        if !added || self.model.spec() != "TransformerEncoderSpec" {
            return Err(self.bad(format!("{second}: source features are not supported")));
        }
        Ok(Some(self.matrix(&second)?.0))
    }

    fn input_scale(&self, scope: &str, width: usize) -> Result<InputScale, Error> {
        let name = format!("{scope}/scale_embeddings");
        let old = format!("{scope}/embeddings/multiply_by_sqrt_depth");
        let name = if self.has(&name) { name } else { old };
        let root = (width as f64).sqrt();
        match self.number(&name)? {
            None => Ok(InputScale::RootWidth),
            Some(0.0) => Ok(InputScale::One),
            Some(1.0) => {
                // A flag is an integer; as a floating-point number it is the factor itself.
                let flag = self.weights.integers(&name).is_some();
                Ok(if flag { InputScale::RootWidth } else { InputScale::One })
            }
            Some(scale) if (scale - root).abs() < 1e-5 * root => Ok(InputScale::RootWidth),
            Some(scale) => {
                Err(self.bad(format!("{name} is {scale}, and should be 1 or the root of {width}")))
            }
        }
    }

    fn stack(&self, scope: &str, width: usize) -> Result<Stack, Error> {
        let layer = |n: usize| format!("{scope}/layer_{n}/self_attention/linear_0/weight");
        let layers = (0..1 << 16).take_while(|&n| self.has(&layer(n))).count();
        Ok(Stack {
            width,
            depth: Depth::Layers(layers),
            position: self.position(scope)?,
            block: self.block(scope)?,
            others: Vec::new(),
            final_norm: self.norm(&format!("{scope}/layer_norm")),
        })
    }

    fn block(&self, scope: &str) -> Result<Vec<Sublayer>, Error> {
        let layer = format!("{scope}/layer_0");
        if self.has(&format!("{layer}/pre_feedforward_layer_norm/gamma")) {
            return Err(
                self.bad(format!("{layer} has norms before and after each part, which is not supported"))
            );
        }
        let reach = if scope == "decoder" { Reach::Past } else { Reach::Both };
        let own = self.attention(scope, reach)?;
        let memory = self.has(&format!("{layer}/attention/linear_0/weight")).then(|| across(&own));
        let first = |names: &[&str]| names.iter().find_map(|name| self.norm(&format!("{layer}/{name}")));
        let beside = first(&["input_layer_norm", "shared_layer_norm"]).is_some();
        let pre = self.flag(&format!("{scope}/pre_norm"), true)?;
        let site = if pre { before } else { after };
        let norm = |names: &[&str]| site(first(names));
        let mut block = vec![Sublayer {
            mix: Mix::Attend(own),
            reads: Reads::Rows,
            norm: norm(&["self_attention/layer_norm", "input_layer_norm", "shared_layer_norm"]),
        }];
        block.extend(memory.map(|memory| Sublayer {
            mix: Mix::Attend(memory),
            reads: Reads::Rows,
            norm: norm(&["attention/layer_norm"]),
        }));
        block.push(Sublayer {
            mix: Mix::Feed(self.feed(scope)?),
            reads: if beside { Reads::Block } else { Reads::Rows },
            norm: norm(&["ffn/layer_norm", "post_attention_layer_norm", "shared_layer_norm"]),
        });
        Ok(block)
    }

    /// Query heads, key heads and the size of each, as the fused projection of layer 0 says.
    pub(super) fn heads(&self, scope: &str) -> Result<Heads, Error> {
        let own = format!("{scope}/layer_0/self_attention");
        let query = self.size(&format!("{scope}/num_heads"))?.unwrap_or(8);
        let one = self.flag(&format!("{own}/multi_query"), false)?;
        let key = if one { 1 } else { self.size(&format!("{own}/num_heads_kv"))?.unwrap_or(query) };
        let name = format!("{own}/linear_0/weight");
        let (rows, _) = self.matrix(&name)?;
        let parts = query.saturating_add(key.saturating_mul(2));
        if parts == 0 || !rows.is_multiple_of(parts) {
            return Err(self.bad(format!(
                "{name} has {rows} rows, which {query} heads and {key} key heads do not share"
            )));
        }
        Ok(Heads { query, key, size: rows / parts })
    }

    fn attention(&self, scope: &str, reach: Reach) -> Result<Attention, Error> {
        let own = format!("{scope}/layer_0/self_attention");
        let (inner, output) =
            (self.has(&format!("{own}/linear_0/bias")), self.has(&format!("{own}/linear_1/bias")));
        let bias = ProjectionBias { query: inner, key: inner, value: inner, output };
        let scale = match self.number(&format!("{own}/queries_scale"))? {
            None => Scale::RootSize,
            Some(1.0) => Scale::One,
            Some(scale) => Scale::By(scale as f32),
        };
        let norm = self.norm(&format!("{own}/q_norm"));
        Ok(Attention { scale, norm, ..attention(self.heads(scope)?, reach, bias) })
    }

    fn feed(&self, scope: &str) -> Result<FeedForward, Error> {
        let first = format!("{scope}/layer_0/ffn/linear_0");
        let (hidden, _) = self.matrix(&format!("{first}/weight"))?;
        let (act, bias) =
            (self.activation(&format!("{scope}/activation"))?, self.has(&format!("{first}/bias")));
        let gated = self.has(&format!("{first}_noact/weight"));
        Ok(if gated {
            FeedForward::Gated { hidden, act, bias }
        } else {
            FeedForward::Plain { hidden, act, bias }
        })
    }

    fn position(&self, scope: &str) -> Result<Position, Error> {
        let own = format!("{scope}/layer_0/self_attention");
        let stored = format!("{scope}/position_encodings/encodings");
        if self.flag(&format!("{scope}/alibi"), false)? {
            if self.flag(&format!("{scope}/scale_alibi"), false)? {
                return Err(self.bad(format!("{scope}/scale_alibi is not supported")));
            }
            return Ok(Position::Alibi);
        }
        if let Some(turning) = self.size(&format!("{own}/rotary_dim"))? {
            return Ok(Position::Rotary(self.rotary(&own, turning)?));
        }
        let table = format!("{own}/relative_attention_bias");
        if self.has(&table) {
            let (count, _) = self.matrix(&table)?;
            let name = format!("{own}/relative_attention_max_distance");
            let max_distance = self.size(&name)?.ok_or_else(|| self.bad(format!("{name} is missing")))?;
            let other = |n: &usize| format!("{scope}/layer_{n}/self_attention/relative_attention_bias");
            if let Some(n) =
                (1..1 << 16).take_while(|n| self.has(&other(n))).find(|n| !self.same(&other(n), &table))
            {
                return Err(self.bad(format!("{} is not that of layer 0, which is not supported", other(&n))));
            }
            return Ok(Position::Buckets { count, max_distance });
        }
        if self.has(&stored) {
            return Ok(Position::Learned {
                max: self.matrix(&stored)?.0,
                offset: 0,
                counting: Counting::Every,
            });
        }
        // Without a table they are computed as OpenNMT does: counted from 1, and the slowest reaches its base.
        let (layout, spread) = (Pairing::Halves, Spread::Closed);
        Ok(Position::Sinusoidal {
            base: 10_000.0,
            layout,
            spread,
            offset: 1,
            when: When::Once,
            counting: Counting::Every,
        })
    }

    fn rotary(&self, own: &str, turning: usize) -> Result<Rotary, Error> {
        let number = |end: &str| self.number(&format!("{own}/{end}"));
        let original = self.size(&format!("{own}/original_max_position_embeddings"))?.unwrap_or(0);
        let factor = number("rotary_scaling_factor")?.unwrap_or(1.0);
        let kind = number("rotary_scaling_type")?.map(|kind| kind as i64);
        let scaling = match kind {
            None | Some(-1) if original == 0 => Scaling::None,
            Some(0) if original == 0 => Scaling::Linear { factor },
            // Converters have left these two out, and without them there is no saying how far angles are stretched.
            Some(2) if original == 0 || !self.has(&format!("{own}/rotary_scaling_factor")) => {
                let why = "rotary_scaling_factor or original_max_position_embeddings is missing; use the original model";
                return Err(self.bad(format!("{own}/{why}")));
            }
            Some(2) => Scaling::Llama3 {
                factor,
                low: number("rotary_low_freq_factor")?.unwrap_or(1.0),
                high: number("rotary_high_freq_factor")?.unwrap_or(4.0),
                original,
            },
            _ => {
                return Err(
                    self.bad(format!("{own}/rotary_scaling_type is {kind:?}, which is not supported"))
                );
            }
        };
        let interleaved = self.flag(&format!("{own}/rotary_interleave"), true)?;
        let layout = if interleaved { Pairing::Interleaved } else { Pairing::Halves };
        let base = number("rotary_base")?.unwrap_or(10_000.0);
        Ok(Rotary { base, size: (turning > 0).then_some(turning), layout, scaling })
    }
}

fn before(norm: Option<Norm>) -> NormSites {
    NormSites { input: norm, ..NormSites::default() }
}

fn after(norm: Option<Norm>) -> NormSites {
    NormSites { output: norm, ..NormSites::default() }
}
