//! Which of several tensors of a file counts as the head's: what the reference takes, whatever the configuration says.

use std::collections::BTreeMap;

use glassformer_families::{Checkpoint, from_parts};
use glassformer_formula::Head;
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;
use serde_json::{Map, Value, json};

type Tensors = BTreeMap<String, Tensor>;

/// The checkpoint of a fixture whose tensors are changed, and to whose configuration `more` is added.
fn changed(fixture: &str, more: &Value, change: impl Fn(&mut Tensors)) -> Result<Checkpoint, String> {
    let folder = crate::common::fixtures("hf").join(fixture);
    let text = std::fs::read_to_string(folder.join("config.json")).expect("it is a fixture");
    let mut config: Map<String, Value> = serde_json::from_str(&text).expect("it is an object");
    config.extend(more.as_object().cloned().unwrap_or_default());
    let weights = Weights::open(&folder).expect("it opens");
    let tensor = |name: &str| Some((name.to_owned(), weights.get(name)?.to_f32()));
    let mut tensors: Tensors = weights.names().filter_map(tensor).collect();
    change(&mut tensors);
    from_parts(&Value::Object(config).to_string(), Weights::from_tensors(tensors))
        .map_err(|error| error.to_string())
}

/// The same tensor with 1 added to every number.
fn shifted(tensor: &Tensor) -> Tensor {
    let mut tensor = tensor.clone();
    tensor.data_mut().iter_mut().for_each(|x| *x += 1.0);
    tensor
}

fn numbers(checkpoint: &Checkpoint, name: &str) -> Vec<f32> {
    checkpoint.model.tensor(name).expect(name).data().to_vec()
}

/// The other bias was added, in silence, and files that hold the decoder's alone were refused.
#[test]
fn the_bias_of_the_decoder_is_the_one_that_is_added() {
    let cases = [
        ("bert-mlm", "cls.predictions"),
        ("bert-pretraining", "cls.predictions"),
        ("roberta-mlm", "lm_head"),
        ("camembert-mlm", "lm_head"),
        ("longformer-mlm", "lm_head"),
        ("mpnet-mlm", "lm_head"),
        ("albert-mlm", "predictions"),
    ];
    for (fixture, head) in cases {
        let (old, new) = (format!("{head}.bias"), format!("{head}.decoder.bias"));
        let both = |tensors: &mut Tensors| _ = tensors.insert(new.clone(), shifted(&tensors[&old]));
        let only = |tensors: &mut Tensors| {
            both(tensors);
            tensors.remove(&old);
        };
        let usual = numbers(&changed(fixture, &json!({}), |_| ()).expect(fixture), "head.bias");
        let wanted: Vec<f32> = usual.iter().map(|x| x + 1.0).collect();
        for found in [changed(fixture, &json!({}), both), changed(fixture, &json!({}), only)] {
            assert_eq!(
                numbers(&found.unwrap_or_else(|error| panic!("{fixture}: {error}")), "head.bias"),
                wanted,
                "{fixture}"
            );
        }
    }
}

/// A head that the file holds was left out, in silence, where the configuration says that it is the table.
#[test]
fn a_head_that_is_not_the_table_counts_though_the_configuration_ties_them() {
    let cases = [
        ("bert-mlm", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("roberta-mlm", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
        ("longformer-mlm", "longformer.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
        ("mpnet-mlm", "mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
        ("albert-mlm", "albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"),
        ("electra-mlm", "electra.embeddings.word_embeddings.weight", "generator_lm_head.weight"),
        ("distilbert-mlm", "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
        ("modernbert-mlm", "model.embeddings.tok_embeddings.weight", "decoder.weight"),
        ("llama-tied", "model.embed_tokens.weight", "lm_head.weight"),
        ("mistral", "model.embed_tokens.weight", "lm_head.weight"),
        ("qwen2", "model.embed_tokens.weight", "lm_head.weight"),
        ("qwen3", "model.embed_tokens.weight", "lm_head.weight"),
        ("gemma", "model.embed_tokens.weight", "lm_head.weight"),
        ("gpt2", "transformer.wte.weight", "lm_head.weight"),
        ("gpt-neox", "gpt_neox.embed_in.weight", "embed_out.weight"),
        ("gpt-neox", "gpt_neox.embed_in.weight", "lm_head.weight"),
        ("bart", "model.shared.weight", "lm_head.weight"),
        ("mbart", "model.shared.weight", "lm_head.weight"),
        ("pegasus", "model.shared.weight", "lm_head.weight"),
        ("marian", "model.shared.weight", "lm_head.weight"),
        ("m2m100", "model.shared.weight", "lm_head.weight"),
        ("t5", "shared.weight", "lm_head.weight"),
    ];
    for (fixture, table, head) in cases {
        let set = |own: fn(&Tensor) -> Tensor| {
            move |tensors: &mut Tensors| {
                tensors.retain(|name, _| name != "embed_out.weight" && name != "lm_head.weight");
                tensors.insert(head.to_owned(), own(&tensors[table]));
            }
        };
        let tied = json!({"tie_word_embeddings": true});
        let own =
            changed(fixture, &tied, set(shifted)).unwrap_or_else(|error| panic!("{fixture}, own: {error}"));
        let side = if own.model.formula().source.is_some() { "source" } else { "target" };
        let wanted: Vec<f32> =
            numbers(&own, &format!("{side}.embed.tokens")).iter().map(|x| x + 1.0).collect();
        assert_eq!(numbers(&own, "head.weight"), wanted, "{fixture}");
        let same = changed(fixture, &tied, set(Tensor::clone))
            .unwrap_or_else(|error| panic!("{fixture}, same: {error}"));
        assert!(matches!(same.model.formula().head, Head::Words { tied: true, .. }), "{fixture}");
    }
}

#[test]
fn a_second_table_that_is_not_the_first_is_refused() {
    let cases = [
        ("bart", "model."),
        ("mbart", "model."),
        ("pegasus", "model."),
        ("marian", "model."),
        ("m2m100", "model."),
        ("t5", ""),
    ];
    for (fixture, prefix) in cases {
        for side in ["encoder", "decoder"] {
            let copy = format!("{prefix}{side}.embed_tokens.weight");
            let set = |own: fn(&Tensor) -> Tensor| {
                let copy = copy.clone();
                move |tensors: &mut Tensors| {
                    let table = own(&tensors[&format!("{prefix}shared.weight")]);
                    tensors.insert(copy.clone(), table);
                }
            };
            changed(fixture, &json!({}), set(Tensor::clone))
                .unwrap_or_else(|error| panic!("{fixture}: {error}"));
            let refused = changed(fixture, &json!({}), set(shifted)).expect_err(fixture);
            assert!(refused.contains(&copy), "{fixture}: {refused}");
        }
    }
}

/// The head was left out, in silence: it had nothing of its own in the file.
#[test]
fn words_without_a_bias_in_the_file_have_none() {
    for fixture in ["bart", "mbart", "pegasus", "marian", "marian-two-vocabularies"] {
        let without = changed(fixture, &json!({}), |tensors| _ = tensors.remove("final_logits_bias"));
        let without = without.unwrap_or_else(|error| panic!("{fixture}: {error}"));
        assert!(matches!(without.model.formula().head, Head::Words { .. }), "{fixture}");
        assert!(numbers(&without, "head.bias").iter().all(|&x| x == 0.0), "{fixture}");
    }
}
