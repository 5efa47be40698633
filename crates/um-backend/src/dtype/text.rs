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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dtype_is_text() {
        let dtypes = [DType::BF16, DType::Opaque(18)];
        let text = serde_json::to_string(&dtypes).unwrap();
        assert_eq!(text, r#"["bf16","opaque18"]"#);
        assert_eq!(serde_json::from_str::<[DType; 2]>(&text).unwrap(), dtypes);
        let error = serde_json::from_str::<DType>(r#""f33""#).unwrap_err();
        assert!(
            error.to_string().contains(r#"a dtype cannot be "f33""#),
            "{error}"
        );
    }
}
