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
        let reason =
            format!("a safetensors file begins with {LENGTH} bytes, the size of its header");
        return Err(shard.wrong(shard.bytes, reason));
    }
    shard.read(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    let most = MOST_HEADER.min(shard.bytes - LENGTH);
    if length > most {
        let reason = format!("the header has {length} bytes, and at most {most} are allowed here");
        return Err(shard.wrong(0, reason));
    }
    let mut text = vec![0; length as usize];
    shard.read(LENGTH, &mut text)?;
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
            serde_json::from_str(text.get()).map(|metadata: Option<Unique<String>>| {
                content
                    .metadata
                    .extend(metadata.into_iter().flat_map(|metadata| metadata.0));
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
    if start + end != shard.bytes {
        let unused = shard.bytes - start - end;
        let reason = format!("the last {unused} bytes belong to no tensor");
        return Err(shard.wrong(start + end, reason));
    }
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
    let (dtype, shape) = (declared.dtype, declared.shape);
    let (from, to) = (
        declared.data_offsets.0 as u64,
        declared.data_offsets.1 as u64,
    );
    let at = start.saturating_add(from);
    let wrong = |reason: String| Err(shard.wrong_tensor(&name, at, reason));
    let Some(kind) = kinds::of_safetensors(dtype) else {
        return wrong(format!("the type {dtype} is not known"));
    };
    let bits = info::elements(&shape).and_then(|elements| elements.checked_mul(dtype.bitsize()));
    let Some(bits) = bits else {
        return wrong(format!(
            "shape {shape:?} of {dtype} is larger than any memory"
        ));
    };
    if from > to {
        return wrong(format!("its bytes {from}..{to} end before they begin"));
    }
    if !bits.is_multiple_of(8) || bits as u64 / 8 != to - from {
        let has = to - from;
        return wrong(format!(
            "shape {shape:?} of {dtype} has {bits} bits, and its bytes {from}..{to} are {has}"
        ));
    }
    if start.checked_add(to).is_none_or(|end| end > shard.bytes) {
        let has = shard.bytes - start;
        return wrong(format!(
            "its bytes {from}..{to} end behind the file, which has {has} bytes after the header: is it truncated?"
        ));
    }
    if from != expected {
        return wrong(format!(
            "it begins at byte {from} after the header, and the tensor before it ends at {expected}: no bytes overlap or belong to no tensor"
        ));
    }
    Ok(TensorInfo {
        name: name.into(),
        kind,
        shape,
        bytes: bits / 8,
        file: shard.path.clone(),
        shard: 0,
        offset: at,
    })
}
