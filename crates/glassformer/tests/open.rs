//! `Model::open` takes folders as people have them: straight from a hub, in shards, full of links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use glassformer::{Cpu, Forward, Model, Open, Sequence, Tensor, Weights, weights};

/// A model as a hub gives it.
fn bert() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hf/bert")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn rows(model: &Model) -> Vec<f32> {
    let sequence = Sequence { source: vec![5, 7, 9], ..Sequence::default() };
    let run = Forward::whole(model, &Cpu::new(1), &[sequence]).unwrap();
    run.output("hidden").unwrap().unwrap().numbers.into_owned()
}

/// `Model::open` wanted a `formula.toml`, whatever README said.
#[test]
fn a_model_opens_from_a_folder_of_a_hub() {
    let model = Model::open(bert()).unwrap();
    let found = rows(&model);
    assert!(found.iter().all(|x| x.is_finite()) && found.iter().any(|x| *x != 0.0));
    // A path is whatever names one.
    let text: String = bert().display().to_string();
    assert_eq!(rows(&Model::open(&text).unwrap()), found);
    assert_eq!(rows(&Model::open(text.as_str()).unwrap()), found);
    // And as Glassformer writes it.
    let ours = folder("open_ours");
    model.save(&ours).unwrap();
    assert_eq!(rows(&Model::open(&ours).unwrap()), found);
    assert!(Model::open(folder("open_empty")).unwrap_err().to_string().contains("open_empty"));
}

#[cfg(unix)]
#[test]
fn shards_behind_links_are_the_same_model() {
    let here = folder("open_links");
    let (blobs, snapshot) = (here.join("blobs"), here.join("snapshots/main"));
    for folder in [&blobs, &snapshot] {
        fs::create_dir_all(folder).unwrap();
    }
    let whole = Weights::open(bert().join("model.safetensors")).unwrap();
    let mut shards = [BTreeMap::new(), BTreeMap::new()];
    let mut places = Vec::new();
    for (at, name) in whole.names().enumerate() {
        let view = whole.get(name).unwrap();
        let tensor = Tensor::new(view.shape(), view.values().into_owned()).unwrap();
        shards[at % 2].insert(name.to_owned(), tensor);
        places.push(format!("{name:?}: \"model-0000{}-of-00002.safetensors\"", at % 2 + 1));
    }
    let link = |blob: &str, name: &str| {
        std::os::unix::fs::symlink(Path::new("../../blobs").join(blob), snapshot.join(name)).unwrap();
    };
    for (at, shard) in shards.iter().enumerate() {
        let blob = format!("shard{at}");
        let named = shard.iter().map(|(name, tensor)| (name.as_str(), tensor));
        weights::save(blobs.join(&blob), named, &BTreeMap::new()).unwrap();
        link(&blob, &format!("model-0000{}-of-00002.safetensors", at + 1));
    }
    let index = format!("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", places.join(", "));
    fs::write(blobs.join("index"), index).unwrap();
    link("index", "model.safetensors.index.json");
    fs::copy(bert().join("config.json"), blobs.join("config")).unwrap();
    link("config", "config.json");
    assert_eq!(rows(&Model::open(&snapshot).unwrap()), rows(&Model::open(bert()).unwrap()));
}
