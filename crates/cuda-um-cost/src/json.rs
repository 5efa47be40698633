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
/// Keys that are missing in models of earlier versions. These models take the built-in values of PCIe 5 for them.
const ADDED: &[&str] = &[
    "remote_us",
    "staging_us",
    "staged_us",
    "host_map_page_us",
    "host_cold_page_us",
    "host_discarded_page_us",
    "managed_alloc_large_us",
    "managed_alloc_block_us",
    "device_alloc_block_us",
    "pinned_alloc_us",
    "host_write_bytes_per_s",
    "graph_capture_us",
    "graph_capture_node_us",
    "graph_instantiate_us",
    "graph_instantiate_node_us",
    "graph_launch_us",
    "graph_start_us",
    "graph_kernel_us",
    "graph_params_us",
    "peer_us",
    "peer_prefetch_us",
    "peer_bytes_per_s",
    "peer_prefetch_bytes_per_s",
    "peer_fault_bytes_per_s",
    "peer_duplicate_bytes_per_s",
];

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

    /// Reads a model. Unknown fields are refused, and every field is required, except fields that earlier models do not have.
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
        let format = take(&mut object, FORMAT_KEY)?;
        if format.as_u64() != Some(FORMAT) {
            return Err(invalid(FORMAT_KEY, &format, "1"));
        }
        let source = take(&mut object, SOURCE_KEY)?;
        let text = source.as_str().filter(|text| text.len() <= LONGEST_SOURCE);
        // Every field is overwritten, except those that an earlier version did not have.
        let mut model = Self::built_in(LinkKind::Pcie5);
        model.source = text
            .ok_or_else(|| invalid(SOURCE_KEY, &source, "a string of at most 4 KiB"))?
            .to_owned();
        for (key, _) in Self::h200().values() {
            if ADDED.contains(&key) && !object.contains_key(key) {
                continue;
            }
            let value = take(&mut object, key)?;
            let number = value
                .as_f64()
                .ok_or_else(|| invalid(key, &value, "a number"))?;
            model.set(key, number)?;
        }
        match object.keys().next() {
            Some(field) => Err(CostError::Unknown {
                field: field.clone(),
            }),
            None => Ok(model),
        }
    }
}

fn take(object: &mut Map<String, Value>, field: &str) -> Result<Value, CostError> {
    object.remove(field).ok_or_else(|| CostError::Missing {
        field: field.to_owned(),
    })
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
    fn a_model_of_an_earlier_version_is_read() {
        let text = CostModel::pascal().to_json();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let object = value.as_object_mut().unwrap();
        for key in ADDED {
            assert!(object.remove(*key).is_some(), "{key} is not a field");
        }
        let read = CostModel::from_json(&value.to_string()).unwrap();
        let built_in = CostModel::h200();
        let of = |model: &CostModel, key| {
            let mut values = model.values().into_iter();
            values
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        for (key, value) in read.values() {
            let from = match ADDED.contains(&key) {
                true => &built_in,
                false => &CostModel::pascal(),
            };
            assert_eq!(Some(value), of(from, key), "{key}");
        }
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
        assert_eq!(
            changed(|o| drop(o.remove("copy_us"))),
            "the cost model has no \"copy_us\""
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
