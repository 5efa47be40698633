//! JSON objects whose names differ: serde's own maps keep the last of equal names.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The entries of an object, in the order of the text.
pub(crate) struct Unique<V>(pub(crate) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(entry) = map.next_entry()? {
            self.0.push(entry);
        }
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(A::Error::custom(format_args!(
                "{:?} is there twice",
                pair[0]
            ))),
            None => Ok(self),
        }
    }
}
