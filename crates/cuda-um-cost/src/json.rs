//! The model as JSON, times in microseconds and rates in bytes a second.

use crate::{CostError, CostModel, LinkKind};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Must be increased when the meaning of a field changes.
const FORMAT: u64 = 1;
const FORMAT_KEY: &str = "format";
const SOURCE_KEY: &str = "source";
/// A model has about 2 KB. Longer texts are refused before parsing, because parsed values take many times as much memory.
const LONGEST_BYTES: usize = 64 << 10;
const LONGEST_SOURCE: usize = 4 << 10;
impl CostModel {
    /// The model as JSON. [`from_json`](Self::from_json) reads this format.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert(FORMAT_KEY.to_owned(), FORMAT.into());
        object.insert(SOURCE_KEY.to_owned(), self.source.clone().into());
        for (key, value) in self.values() {
            object.insert(key.to_owned(), value.into());
        }
        format!("{:#}\n", Value::Object(object))
    }

    /// Reads a model from a file of at most 64 KiB: see [`from_json`](Self::from_json).
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is larger; otherwise as for [`from_json`](Self::from_json).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, CostError> {
        let unread = |reason: String| CostError::File { reason };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| unread(error.to_string()))?;
        let mut head = file.take(LONGEST_BYTES as u64 + 1);
        let read = head.read_to_string(&mut text);
        if head.limit() == 0 {
            return Err(unread(format!("it is larger than {LONGEST_BYTES} bytes")));
        }
        read.map_err(|error| unread(error.to_string()))?;
        Self::from_json(&text)
    }

    /// Reads a model. Unknown fields are refused; those that are missing have the values of the built-in model of PCIe 5.
    ///
    /// # Errors
    ///
    /// [`CostError`] names the field, its value and the allowed values.
    pub fn from_json(text: &str) -> Result<Self, CostError> {
        let json = |reason: String| CostError::Json { reason };
        if text.len() > LONGEST_BYTES {
            let bytes = text.len();
            let reason = format!("it has {bytes} bytes, and at most {LONGEST_BYTES} are read");
            return Err(json(reason));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| json(error.to_string()))?;
        let Value::Object(mut object) = value else {
            return Err(json("it is not an object".to_owned()));
        };
        let format = object.remove(FORMAT_KEY).unwrap_or_default();
        if format.as_u64() != Some(FORMAT) {
            return Err(invalid(FORMAT_KEY, &format, "1"));
        }
        let source = object.remove(SOURCE_KEY).unwrap_or_default();
        let text = source.as_str().filter(|text| text.len() <= LONGEST_SOURCE);
        let mut model = Self::built_in(LinkKind::Pcie5);
        model.source = text
            .ok_or_else(|| invalid(SOURCE_KEY, &source, "a string of at most 4 KiB"))?
            .to_owned();
        for (key, value) in &object {
            let number = value.as_f64();
            model.set(key, number.ok_or_else(|| invalid(key, value, "a number"))?)?;
        }
        Ok(model)
    }
}

fn invalid(field: &str, value: &Value, allowed: &'static str) -> CostError {
    CostError::Invalid {
        field: field.to_owned(),
        value: value.to_string(),
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: impl FnOnce(&mut Map<String, Value>)) -> String {
        let mut value: Value = serde_json::from_str(&CostModel::h200().to_json()).unwrap();
        change(value.as_object_mut().unwrap());
        CostModel::from_json(&value.to_string())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn every_preset_comes_back_as_it_was() {
        for model in [
            CostModel::h200(),
            CostModel::h100(),
            CostModel::a100(),
            CostModel::gh200(),
            CostModel::pcie4(),
            CostModel::pascal(),
            CostModel::maxwell(),
            CostModel::integrated(),
        ] {
            assert_eq!(CostModel::from_json(&model.to_json()), Ok(model));
        }
    }

    #[test]
    fn a_field_that_is_missing_is_that_of_the_built_in_model() {
        let text = r#"{"format": 1, "source": "mine", "launch_us": 2.5}"#;
        let read = CostModel::from_json(text).unwrap();
        let mut expected = CostModel::built_in(LinkKind::Pcie5);
        expected.source = "mine".to_owned();
        expected.set("launch_us", 2.5).unwrap();
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let set = |key: &'static str, value: Value| changed(|o| drop(o.insert(key.into(), value)));
        assert_eq!(
            set("pinned_bytes_per_s", 0.into()),
            "\"pinned_bytes_per_s\" of the cost model is 0; allowed is bytes a second, from 1e6 to 1e15"
        );
        assert!(set("launch_us", (-1).into()).contains("\"launch_us\" of the cost model is -1"));
        assert!(set("launch_us", "2".into()).contains("\"2\""));
        assert!(set("remote_bytes_per_s", Value::Null).contains("null"));
        assert!(set("format", 2.into()).contains("allowed is 1"));
        assert_eq!(
            set("launch_ms", 2.into()),
            "a cost model has no field \"launch_ms\""
        );
        assert!(
            changed(|o| drop(o.remove("source"))).contains("\"source\" of the cost model is null")
        );
        for text in ["", "[]", "{", "3"] {
            let error = CostModel::from_json(text).unwrap_err();
            assert!(matches!(error, CostError::Json { .. }), "{error}");
        }
        let long = CostModel::h200().to_json() + &" ".repeat(1 << 16);
        let error = CostModel::from_json(&long).unwrap_err().to_string();
        assert!(error.contains("and at most 65536 are read"), "{error}");
    }
}
