//! Transformer-XL (Dai et al. 2019): relative sinusoids with two biases, a memory of earlier segments, and a vocabulary in
//! clusters at both ends.

use glassformer_formula::check::limits;
use glassformer_formula::{
    Activation, Biases, Clusters, Depth, Formula, Global, Head, Heads, InputScale, Mix, Norm, Pattern,
    Position, ProjectionBias, Reach, Side, Stack, Start, Tokens,
};
use serde_json::{Value, json};

use crate::blocks::{attention, input, plain, post_norm, pre_norm, tokens};
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family, Rule};

/// The longest memory that is believed; it is filled with zeros before anything is read.
const LONGEST: usize = 1 << 16;

/// `TransfoXLLMHeadModel` and `TransfoXLModel`.
pub(crate) fn transfo_xl(config: &Config) -> Result<Family, Error> {
    config.only("adaptive", &[json!(true)])?;
    config.only("attn_type", &[json!(0)])?;
    config.only("sample_softmax", &[json!(-1), json!(0)])?;
    let tied = config.flag("tie_word_embeddings")?;
    let clusters = clusters(config)?;
    let side = side(config, &clusters)?;
    let (width, vocabulary) = (side.stack.width, config.size("vocab_size")?);
    let rules = [rules(), cluster_rules(config, &clusters, (vocabulary, width))?].concat();
    let head = match config.architecture() {
        "TransfoXLModel" => Head::Rows,
        "TransfoXLLMHeadModel" | "" => Head::Adaptive { clusters, tied },
        other => {
            let why = format!("is {other:?}, and should be TransfoXLModel or TransfoXLLMHeadModel");
            return Err(Error::Key { key: "architectures".into(), why });
        }
    };
    let mut family = Family::new(Formula { source: None, target: Some(side), pooler: None, head }, rules);
    family.prefixes = &["transformer."];
    family.skipped = &["pos_emb.inv_freq", "crit.out_layers.*", "crit.out_projs.*"];
    Ok(family)
}

/// Where the vocabulary is cut. With a divisor of 1 their tables are one, and our clusters are its rows.
fn clusters(config: &Config) -> Result<Clusters, Error> {
    let bad = || Error::Key { key: "cutoffs".into(), why: "is not a list of whole numbers".into() };
    let cuts = match config.get("cutoffs") {
        None => return Err(bad()),
        Some(list) => {
            let whole = |n: &Value| n.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(bad);
            let list = list.as_array().ok_or_else(bad)?;
            // The formula's check says the same, but only after rules were made for each.
            if list.len() > limits::CUTS {
                let why = format!("has {} cuts, and should have at most {}", list.len(), limits::CUTS);
                return Err(Error::Key { key: "cutoffs".into(), why });
            }
            list.iter().map(whole).collect::<Result<_, _>>()?
        }
    };
    let width = config.size("d_model")?;
    let first = config.size("d_embed")?;
    let divisor = config.size("div_val")?;
    Ok(Clusters { cuts, divisor, width: (first != width).then_some(first) })
}

fn side(config: &Config, clusters: &Clusters) -> Result<Side, Error> {
    let query = config.size("n_head")?;
    let memory = config.size("mem_len")?;
    if memory > LONGEST {
        let why = format!(
            "is {memory}, and should be at most {LONGEST}: so many rows of zeros stand before a text"
        );
        return Err(Error::Key { key: "mem_len".into(), why });
    }
    let heads = Heads { query, key: query, size: config.size("d_head")? };
    let mut own = attention(heads, Reach::Past, ProjectionBias::NONE);
    if config.flag("same_length")? {
        // Every row sees `mem_len` rows, itself included, wherever it stands in its segment.
        let Some(window @ 1..) = memory.checked_sub(1) else {
            let why =
                format!("is true, and leaves rows with {memory} rows to see: mem_len should be 2 or more");
            return Err(Error::Key { key: "same_length".into(), why });
        };
        own.pattern = Pattern::Sliding { window, global: Global::None };
    }
    let norm = Norm::Layer { epsilon: config.float("layer_norm_epsilon")? as f32, bias: true };
    let sites = if config.flag("pre_lnorm")? { pre_norm } else { post_norm };
    let feed = plain(config.size("d_inner")?, Activation::Relu);
    let clamp = config.float("clamp_len")?;
    let stack = Stack {
        width: config.size("d_model")?,
        depth: Depth::Layers(config.size("n_layer")?),
        position: Position::TransformerXl {
            memory,
            biases: if config.flag("untie_r")? { Biases::Layer } else { Biases::Stack },
            clamp: (clamp > 0.0).then_some(clamp as usize),
            start: Start::Zeros,
        },
        block: sites(vec![Mix::Attend(own), feed], norm),
        others: Vec::new(),
        final_norm: None,
    };
    let words = Tokens {
        clusters: Some(clusters.clone()),
        scale: InputScale::RootWidth,
        ..tokens(config.size("vocab_size")?)
    };
    Ok(Side { input: input(words), stack })
}

/// Where the tables and projections of each cluster are.
fn cluster_rules(config: &Config, clusters: &Clusters, of: (usize, usize)) -> Result<Vec<Rule>, Error> {
    let (vocabulary, width) = of;
    let but_first = config.flag("proj_share_all_but_first")?;
    let tied = |i: usize| match config.get("tie_projs") {
        None => Ok(but_first && i > 0),
        Some(Value::Array(list)) => Ok(list.get(i).and_then(Value::as_bool).unwrap_or(false)),
        Some(_) => Err(Error::Key { key: "tie_projs".into(), why: "is not a list of true and false".into() }),
    };
    let mut rules = vec![
        rule("head.clusters.weight", "crit.cluster_weight"),
        rule("head.clusters.bias", "crit.cluster_bias"),
    ];
    for (i, cluster) in clusters.list(vocabulary, width).into_iter().enumerate() {
        // With a divisor of 1 there is one table, one bias and one projection of the input for all clusters.
        let (table, part) = match clusters.divisor {
            1 => (0, How::Rows { from: cluster.from, to: cluster.to }),
            _ => (i, How::Same),
        };
        let up = format!("word_emb.emb_projs.{table}");
        let down = if tied(i)? { up.clone() } else { format!("crit.out_projs.{i}") };
        rules.extend([
            how(&format!("target.embed.{i}.tokens"), &format!("word_emb.emb_layers.{table}.weight"), part),
            rule(&format!("target.embed.{i}.up.weight"), &up),
            how(&format!("head.{i}.down.weight"), &down, How::Transposed),
            how(&format!("head.{i}.weight"), &format!("crit.out_layers.{table}.weight"), part),
            how(&format!("head.{i}.bias"), &format!("crit.out_layers.{table}.bias"), part),
        ]);
    }
    Ok(rules)
}

/// Where the tensors of the layers are.
fn rules() -> Vec<Rule> {
    let third = |part| How::Part { part, of: 3 };
    let attend = |ours: &str| format!("target.{{n}}.attend.{ours}");
    let theirs = |name: &str| format!("layers.{{n}}.dec_attn.{name}");
    let mut rules = vec![
        how("target.position.u", "r_w_bias", How::Flattened),
        how("target.position.v", "r_r_bias", How::Flattened),
        how(&attend("position.u"), &theirs("r_w_bias"), How::Flattened),
        how(&attend("position.v"), &theirs("r_r_bias"), How::Flattened),
        rule(&attend("position.weight"), &theirs("r_net.weight")),
        rule(&attend("output.weight"), &theirs("o_net.weight")),
        rule("target.{n}.feed.up.{wb}", "layers.{n}.pos_ff.CoreNet.0.{wb}"),
        rule("target.{n}.feed.down.{wb}", "layers.{n}.pos_ff.CoreNet.3.{wb}"),
    ];
    for (part, name) in ["query", "key", "value"].into_iter().enumerate() {
        rules.push(how(&attend(&format!("{name}.weight")), &theirs("qkv_net.weight"), third(part)));
    }
    for site in ["norm_in", "norm_out"] {
        rules.push(rule(&attend(&format!("{site}.{{norm}}")), &theirs("layer_norm.{norm}")));
        rules
            .push(rule(&format!("target.{{n}}.feed.{site}.{{norm}}"), "layers.{n}.pos_ff.layer_norm.{norm}"));
    }
    rules
}
