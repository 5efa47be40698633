//! A `DType` as text in serde's formats.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::DType;

impl Serialize for DType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Name)
    }
}

struct Name;

impl Visitor<'_> for Name {
    type Value = DType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dtype")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<DType, E> {
        name.parse().map_err(E::custom)
    }
}
