//! Splits a model's `model.safetensors` into the two shards that `glassformer-translator` and `glassformer-translator-encoder` carry,
//! with their index: a package is at most 10 MB large. No number changes.
//!
//! `cargo run -p glassformer-translator-encoder --example split -- crates/translator/model`

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Whether a tensor belongs in a shard.
type Belongs = fn(&str) -> bool;

/// The shards.
const SHARDS: [(&str, Belongs); 2] = [
    ("model-00001-of-00002.safetensors", is_encoder_layer),
    ("model-00002-of-00002.safetensors", |name| !is_encoder_layer(name)),
];

/// `source.3.feed.up.weight`, but not `source.embed.tokens`.
fn is_encoder_layer(name: &str) -> bool {
    name.strip_prefix("source.").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder of the model")?;
    let folder = Path::new(&folder);
    let file = fs::read(folder.join("model.safetensors"))?;
    let (length, rest) = file.split_first_chunk::<8>().ok_or("the file is too short")?;
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Map<String, Value> = serde_json::from_slice(header)?;
    let mut weight_map = Map::new();
    for (shard, belongs) in SHARDS {
        let bytes = select(&header, data, belongs)?;
        fs::write(folder.join(shard), bytes)?;
        let own = header.keys().filter(|name| *name != "__metadata__" && belongs(name));
        weight_map.extend(own.map(|name| (name.clone(), shard.into())));
    }
    let index = json!({ "metadata": { "total_size": data.len() }, "weight_map": weight_map });
    fs::write(folder.join("model.safetensors.index.json"), serde_json::to_string_pretty(&index)? + "\n")?;
    fs::remove_file(folder.join("model.safetensors"))?;
    Ok(())
}

/// A safetensors file of those tensors that belong in it, in their order.
fn select(
    header: &Map<String, Value>,
    data: &[u8],
    belongs: fn(&str) -> bool,
) -> Result<Vec<u8>, Box<dyn Error>> {
    const CODING: &str = "glassformer.coding"; // which tensors are in few bits: a text of JSON, from names to types
    let mut metadata = header["__metadata__"].clone();
    if let Some(coding) = metadata[CODING].as_str() {
        let mut coding: Map<String, Value> = serde_json::from_str(coding)?;
        coding.retain(|name, _| belongs(name));
        metadata[CODING] = serde_json::to_string(&coding)?.into();
    }
    let (mut own, mut bytes) = (Map::from_iter([("__metadata__".to_owned(), metadata)]), Vec::new());
    for (name, tensor) in header.iter().filter(|(name, _)| *name != "__metadata__" && belongs(name)) {
        let [from, to]: [usize; 2] = serde_json::from_value(tensor["data_offsets"].clone())?;
        let start = bytes.len();
        bytes.extend(data.get(from..to).ok_or("a tensor lies outside of the file")?);
        let mut tensor = tensor.clone();
        tensor["data_offsets"] = json!([start, bytes.len()]);
        own.insert(name.clone(), tensor);
    }
    let mut header = serde_json::to_vec(&own)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes()[..], &header, &bytes].concat())
}
