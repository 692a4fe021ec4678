//! JSON from files that are not trusted.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::error::clip;

/// The longest header or index that is read, in bytes: what safetensors allow.
pub(crate) const LONGEST: u64 = 100_000_000;

/// An object with strings as keys; a key that comes twice is an error, not a guess.
pub(crate) struct Unique<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor(PhantomData))
    }
}

struct UniqueVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueVisitor<V> {
    type Value = Unique<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value()?;
            insert(&mut map, key, value)?;
        }
        Ok(Unique(map))
    }
}

/// Adds an entry, unless there is one with its key.
pub(crate) fn insert<V, E: Error>(map: &mut BTreeMap<String, V>, key: String, value: V) -> Result<(), E> {
    if map.contains_key(&key) {
        return Err(E::custom(format_args!("{:?} appears twice", clip(&key))));
    }
    map.insert(key, value);
    Ok(())
}
