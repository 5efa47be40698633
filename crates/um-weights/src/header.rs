//! The header of a safetensors file.

use safetensors::tensor::TensorInfo as Declared;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::info::{self, TensorInfo};
use crate::kinds;
use crate::shard::{Content, Shard};
use crate::unique::Unique;

/// The largest header or index that is read, in bytes: the limit of the crate `safetensors`.
pub(crate) const MOST_HEADER: u64 = 100_000_000;
/// The number before the header, which has its size.
const LENGTH: u64 = 8;

/// Reads and checks the header: the tensors cover the file behind it without gaps.
pub(crate) fn read(shard: &Shard) -> Result<Content> {
    let mut length = [0; LENGTH as usize];
    if shard.bytes < LENGTH {
        let reason = "a safetensors file begins with 8 bytes, the size of its header";
        return Err(shard.wrong(shard.bytes, reason.to_owned()));
    }
    shard.read(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    let text = shard.text(LENGTH, length)?;
    let invalid = |text: String| shard.wrong(LENGTH, format!("the header is not valid: {text}"));
    let items: Unique<&RawValue> =
        serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    let mut content = Content {
        format: "safetensors",
        ..Content::default()
    };
    let mut declared: Vec<(String, Declared)> = Vec::with_capacity(items.0.len());
    for (name, text) in items.0 {
        let read = if name == "__metadata__" {
            let metadata = serde_json::from_str(text.get());
            metadata.map(|entries: Option<Unique<String>>| {
                content.metadata = entries.into_iter().flat_map(|entries| entries.0).collect();
            })
        } else {
            serde_json::from_str(text.get()).map(|tensor| declared.push((name.clone(), tensor)))
        };
        read.map_err(|error| invalid(format!("tensor {name:?}: {error}")))?;
    }
    declared.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let start = LENGTH + length;
    let mut end = 0;
    for (name, tensor) in declared {
        let info = check(shard, start, end, name, tensor)?;
        end += info.bytes as u64;
        content.tensors.push(info);
    }
    content.end = start + end;
    Ok(content)
}

/// Checks a tensor, whose bytes begin at `expected` behind the header.
fn check(
    shard: &Shard,
    start: u64,
    expected: u64,
    name: String,
    declared: Declared,
) -> Result<TensorInfo> {
    let Declared {
        dtype,
        shape,
        data_offsets,
    } = declared;
    let (from, to) = (data_offsets.0 as u64, data_offsets.1 as u64);
    let (at, has) = (start.saturating_add(from), shard.bytes - start);
    let bits = info::elements(&shape).and_then(|elements| elements.checked_mul(dtype.bitsize()));
    let reason = match (kinds::of_safetensors(dtype), bits) {
        (None, _) => format!("the type {dtype} is not known"),
        (_, None) => format!("shape {shape:?} of {dtype} is larger than any memory"),
        _ if from > to => format!("its bytes {from}..{to} end before they begin"),
        (_, Some(bits)) if (to - from).checked_mul(8) != Some(bits as u64) => format!(
            "shape {shape:?} of {dtype} has {bits} bits, and its bytes {from}..{to} are {}",
            to - from
        ),
        _ if to > has => format!(
            "its bytes {from}..{to} end behind the file, which has {has} bytes after the header: is it truncated?"
        ),
        _ if from != expected => format!(
            "it begins at byte {from} after the header, and the tensor before it ends at {expected}: no bytes overlap or belong to no tensor"
        ),
        (Some(kind), Some(bits)) => {
            return Ok(TensorInfo {
                name: name.into(),
                kind,
                shape,
                bytes: bits / 8,
                file: shard.path.clone(),
                shard: 0,
                offset: at,
            });
        }
    };
    Err(shard.wrong_tensor(&name, at, reason))
}
