//! Ways to break a good model.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// What is done to a folder.
pub type Change = Box<dyn Fn(&Path)>;

/// Copies the files of the model `name` of the fixtures.
pub fn copy(name: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// `file` with these bytes.
pub fn write(file: &'static str, bytes: impl Into<Vec<u8>>) -> Change {
    let bytes = bytes.into();
    Box::new(move |folder| fs::write(folder.join(file), &bytes).unwrap())
}

/// The first change, then the second.
pub fn both(first: Change, second: Change) -> Change {
    Box::new(move |folder| {
        first(folder);
        second(folder);
    })
}

pub fn remove(file: &'static str) -> Change {
    Box::new(move |folder| fs::remove_file(folder.join(file)).unwrap())
}

/// `file` with its bytes changed.
pub fn bytes(file: &'static str, change: impl Fn(&mut Vec<u8>) + 'static) -> Change {
    Box::new(move |folder| {
        let mut bytes = fs::read(folder.join(file)).unwrap();
        change(&mut bytes);
        fs::write(folder.join(file), bytes).unwrap();
    })
}

/// `file`, which is JSON, changed.
pub fn json(file: &'static str, change: impl Fn(&mut Value) + 'static) -> Change {
    bytes(file, move |bytes| {
        let mut value: Value = serde_json::from_slice(bytes).unwrap();
        change(&mut value);
        *bytes = value.to_string().into_bytes();
    })
}

/// `config.json` with another value for one key.
pub fn config(key: &'static str, value: Value) -> Change {
    json("config.json", move |config| config[key] = value.clone())
}

/// `tokenizer.json` changed.
pub fn tokenizer(change: impl Fn(&mut Value) + 'static) -> Change {
    json("tokenizer.json", change)
}

/// The weights with their header and data changed.
pub fn header(change: impl Fn(&mut Map<String, Value>, &mut Vec<u8>) + 'static) -> Change {
    bytes("model.safetensors", move |bytes| {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let mut data = bytes[8 + length..].to_vec();
        change(&mut header, &mut data);
        *bytes = safetensors(&Value::Object(header).to_string(), &data);
    })
}

/// A file of this header and this data.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Another file of weights instead.
pub fn weights(file: &'static str, bytes: impl Into<Vec<u8>>) -> Change {
    both(remove("model.safetensors"), write(file, bytes))
}

/// An index that says where tensors are, with the weights as its one shard.
pub fn index(text: String) -> Change {
    Box::new(move |folder| {
        fs::rename(folder.join("model.safetensors"), folder.join("a.safetensors")).unwrap();
        fs::write(folder.join("model.safetensors.index.json"), &text).unwrap();
    })
}

/// Other files of a tokenizer instead of `tokenizer.json`.
pub fn vocabulary(files: &'static [(&'static str, &'static [u8])]) -> Change {
    Box::new(move |folder| {
        remove("tokenizer.json")(folder);
        for (file, bytes) in files {
            write(file, *bytes)(folder);
        }
    })
}

/// A zip archive of one stored entry, `m/data.pkl`.
pub fn torch(pickle: &[u8]) -> Vec<u8> {
    let name = b"m/data.pkl";
    let size = (pickle.len() as u32).to_le_bytes();
    let sizes = [&size[..], &size, &(name.len() as u16).to_le_bytes(), &[0; 2]].concat();
    let local = [b"PK\x03\x04", &[0; 14][..], &sizes, name, pickle].concat();
    let record = [b"PK\x01\x02", &[0; 16][..], &sizes, &[0; 14], name].concat();
    let (length, at) = ((record.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06", &[0; 4][..], &[1, 0, 1, 0], &length, &at, &[0; 2]].concat();
    [local, record, end].concat()
}

/// The first bytes of a GGUF file, and what follows them.
pub fn gguf(version: u32, tensors: u64, entries: u64, rest: &[u8]) -> Vec<u8> {
    [b"GGUF", &version.to_le_bytes()[..], &tensors.to_le_bytes(), &entries.to_le_bytes(), rest].concat()
}
