//! Good files changed at random. Other crates' tests include this file by its path.
#![allow(dead_code, reason = "not every test uses all of these")]

use std::time::{Duration, Instant};

use glassformer_tensor::Random;
use serde_json::{Map, Value, json};

/// Numbers at which code goes wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 60,
    i64::MAX as u64,
    u64::MAX,
];

/// `good` changed in one to four places.
pub fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    // What describes lies at the front, or in zip archives at the end; the rest is only numbers.
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let near = bytes.len().min(2000);
        let at = match random.below(4) {
            0 => random.below(bytes.len()),
            1 => bytes.len() - 1 - random.below(near),
            _ => random.below(near),
        };
        match random.below(7) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = bytes[at].wrapping_add(if random.below(2) == 0 { 1 } else { 255 }),
            3 => {
                let number = random.pick(&NUMBERS).to_le_bytes();
                let width = (1 << random.below(4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = bytes.len().min(at + random.below(64));
                drop(bytes.drain(at..end));
            }
            _ => {
                let from = random.below(bytes.len());
                let part = bytes[from..bytes.len().min(from + random.below(64))].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// Passes of a fuzz test: one, the same everywhere, and then more for as many seconds as `GLASSFORMER_FUZZ_SECONDS` says.
pub fn passes() -> impl Iterator<Item = u64> {
    let seconds = std::env::var("GLASSFORMER_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let (begin, longer) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(0)));
    (0..).take_while(move |&pass| pass == 0 || begin.elapsed() < longer)
}

/// `good` with one to three of its values replaced, removed or repeated.
pub fn mutate_json(good: &Value, random: &mut Random) -> Value {
    let mut value = good.clone();
    for _ in 0..=random.below(3) {
        let donor = pick(&value, random).clone();
        change(&mut value, &donor, random, 0);
    }
    value
}

/// How deep a walk goes on its own: most of what is said stands near the top.
const DEEP: usize = 6;

/// Any value inside.
fn pick<'v>(mut value: &'v Value, random: &mut Random) -> &'v Value {
    for _ in 0..random.below(DEEP) {
        let inner: Vec<&Value> = match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        };
        if inner.is_empty() {
            break;
        }
        value = inner[random.below(inner.len())];
    }
    value
}

/// Goes down to some value and changes it.
fn change(value: &mut Value, donor: &Value, random: &mut Random, depth: usize) {
    let down = depth < DEEP && (depth == 0 || random.below(4) > 0);
    match value {
        Value::Array(list) if down && !list.is_empty() => {
            let at = random.below(list.len());
            match random.below(8) {
                0 => rearrange(list, at, random),
                _ => change(&mut list[at], donor, random, depth + 1),
            }
        }
        Value::Object(map) if down && !map.is_empty() => {
            let key = map.keys().nth(random.below(map.len())).cloned().unwrap_or_default();
            match random.below(8) {
                0 => rename(map, &key, donor, random),
                _ => change(&mut map[&key], donor, random, depth + 1),
            }
        }
        _ => *value = strange(value, donor, random),
    }
}

fn rearrange(list: &mut Vec<Value>, at: usize, random: &mut Random) {
    match random.below(3) {
        0 => drop(list.remove(at)),
        1 => list.truncate(at),
        _ => {
            let again = list[at].clone();
            list.extend(std::iter::repeat_n(again, 1 + random.below(100)));
        }
    }
}

fn rename(map: &mut Map<String, Value>, key: &str, donor: &Value, random: &mut Random) {
    match random.below(3) {
        0 => drop(map.remove(key)),
        1 => drop(map.insert(format!("{key}x"), donor.clone())),
        _ => {
            let value = map.remove(key).unwrap_or_default();
            map.insert("surprise".to_owned(), value);
        }
    }
}

/// What nobody expects in the place of `value`.
fn strange(value: &Value, donor: &Value, random: &mut Random) -> Value {
    let near = value.as_i64().unwrap_or(0);
    match random.below(24) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(0),
        3 => json!(1),
        4 => json!(1e308),
        5 => json!(-1e-308),
        6 => json!(0.5),
        7 => json!(1_u64 << random.below(64)),
        8 => json!(u64::MAX),
        9 => json!(i64::MIN),
        10 => json!(true),
        11 => json!(false),
        12 => json!(""),
        13 => json!("x".repeat(1 << random.below(16))),
        14 => json!([[[[[[]]]]]]),
        15 => json!({}),
        16 => json!([value, value]),
        17 => json!({ "a": value }),
        18 => json!(near.wrapping_add(1)),
        19 => json!(near.wrapping_sub(1)),
        20 => json!(near.wrapping_mul(2)),
        21 => json!(value.to_string()),
        _ => donor.clone(),
    }
}
