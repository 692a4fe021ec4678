//! What a model's files leave unsaid, and what is then meant: the reference's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::Sequence;
use glassformer_families::Checkpoint;
use glassformer_tasks::{Embed, Error, Merge, Tag, TextEncoder, complete, open, tokenizer};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// What the decoder of a classifier reads beside `source`.
fn target(checkpoint: &Checkpoint, source: &[u32]) -> Result<Vec<u32>, Error> {
    let mut sequence = Sequence { source: source.to_vec(), ..Sequence::default() };
    complete(&mut sequence, checkpoint)?;
    Ok(sequence.target)
}

/// Without the key nothing was put before the source, and classes were read off the last row.
#[test]
fn a_classifiers_decoder_reads_from_the_start_token_to_the_last_end() {
    let mut checkpoint = open(fixture("hf/bart-classes")).unwrap();
    for key in ["decoder_start_token_id", "eos_token_id", "pad_token_id"] {
        checkpoint.config.remove(key);
    }
    assert_eq!(target(&checkpoint, &[0, 7, 2]).unwrap(), [2, 0, 7]);
    assert_eq!(target(&checkpoint, &[0, 7, 2, 8, 2, 9, 9]).unwrap(), [2, 0, 7, 2, 8]);
    assert!(matches!(target(&checkpoint, &[0, 7]), Err(Error::Text { text: 0, .. })));
    checkpoint.kind = "mt5".to_owned();
    assert_eq!(target(&checkpoint, &[7, 8, 1]).unwrap(), [0, 7, 8]);
    // The language's token goes round.
    checkpoint.kind = "mbart".to_owned();
    assert_eq!(target(&checkpoint, &[7, 2, 9]).unwrap(), [9, 7]);
    assert_eq!(target(&checkpoint, &[7, 2, 9, 1, 1]).unwrap(), [9, 7]);
}

/// `S-PER` stayed as it was, and what is left of `X-O` was no `O`.
#[test]
fn names_of_entities_have_no_marks() {
    let folder = fixture("tasks/tags");
    let labels = |name: &str, merge: Merge| {
        let mut checkpoint = open(&folder).unwrap();
        checkpoint.labels.fill(name.to_owned());
        let encoder =
            TextEncoder::new(checkpoint, tokenizer(&folder).unwrap(), Arc::new(Cpu::new(1))).unwrap();
        let found = encoder.tag(&["the cat sat"], &Tag { merge, ..Tag::default() }).unwrap().remove(0);
        found.into_iter().map(|entity| entity.label).collect::<Vec<_>>()
    };
    assert!(labels("S-PER", Merge::Simple).iter().all(|label| label == "PER"));
    assert!(labels("S-PER", Merge::None).iter().all(|label| label == "S-PER"));
    assert!(!labels("S-PER", Merge::Simple).is_empty());
    assert!(labels("X-O", Merge::Simple).is_empty());
}

/// The folder of the first module was looked into for the model, and not for its tokenizer.
#[test]
fn a_model_of_sentences_may_lie_in_the_folder_of_its_first_module() {
    let folder = std::env::temp_dir().join(format!("glassformer-{}-modules", std::process::id()));
    let inner = folder.join("0_Transformer");
    fs::create_dir_all(&inner).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixture("tasks/tags").join(name), inner.join(name)).unwrap();
    }
    fs::create_dir_all(folder.join("1_Pooling")).unwrap();
    fs::write(folder.join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": true}"#).unwrap();
    let modules = r#"[{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
                      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]"#;
    fs::write(folder.join("modules.json"), modules).unwrap();
    let encoder = TextEncoder::open(&folder, Arc::new(Cpu::new(1))).unwrap();
    assert_eq!(encoder.embed(&["a cat"], &Embed::default()).unwrap().len(), 1);
    fs::remove_dir_all(&folder).unwrap();
}

/// A classifier's first row sees all; in the bare model, whose rows are pooled, it does not.
#[test]
fn no_row_sees_all_where_longformer_embeds() {
    let folder = fixture("hf/longformer-classes");
    assert_eq!(open(&folder).unwrap().global, [0]);
    assert_eq!(glassformer_families::open_for_embedding(&folder).unwrap().global, [0; 0]);
}
