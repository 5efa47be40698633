//! The header of a safetensors file.

use std::collections::BTreeMap;

use safetensors::tensor::TensorInfo as Declared;
use serde::de::{Error as _, MapAccess};

use crate::error::Result;
use crate::info::TensorInfo;
use crate::kinds;
use crate::shard::{Content, Shard};
use crate::unique::{Entry, Unique};

/// The largest header that is read, in bytes: the limit of the crate `safetensors`.
pub(crate) const MOST_HEADER: u64 = 100_000_000;
/// The number before the header, which has its size.
const LENGTH: u64 = 8;

enum Item {
    Metadata(BTreeMap<String, String>),
    Tensor(Declared),
}

impl<'de> Entry<'de> for Item {
    fn read<A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<Self, A::Error> {
        match name {
            "__metadata__" => {
                let metadata = map.next_value::<Option<Unique<String>>>()?;
                let entries = metadata.map(|metadata| metadata.0.into_iter().collect());
                Ok(Self::Metadata(entries.unwrap_or_default()))
            }
            name => match map.next_value() {
                Ok(declared) => Ok(Self::Tensor(declared)),
                Err(error) => Err(A::Error::custom(format_args!("tensor {name:?}: {error}"))),
            },
        }
    }
}

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
    let rest = shard.bytes - LENGTH;
    if length > MOST_HEADER || length > rest {
        return Err(shard.wrong(
            0,
            format!(
                "the header has {length} bytes, and at most {} are allowed ({rest} follow)",
                MOST_HEADER.min(rest)
            ),
        ));
    }
    let mut text = vec![0; length as usize];
    shard.read(LENGTH, &mut text)?;
    let items: Unique<Item> = serde_json::from_slice(&text)
        .map_err(|error| shard.wrong(LENGTH, format!("the header is not valid: {error}")))?;
    let mut content = Content {
        format: "safetensors",
        ..Content::default()
    };
    let mut declared = Vec::with_capacity(items.0.len());
    for (name, item) in items.0 {
        match item {
            Item::Metadata(metadata) => content.metadata = metadata,
            Item::Tensor(tensor) => declared.push((name, tensor)),
        }
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
    let (from, to) = declared.data_offsets;
    let (from, to) = (from as u64, to as u64);
    let at = start.saturating_add(from);
    let wrong = |reason: String| Err(shard.wrong_tensor(&name, at, reason));
    let Some(kind) = kinds::of_safetensors(declared.dtype) else {
        return wrong(format!("the type {} is not known", declared.dtype));
    };
    let elements = declared
        .shape
        .iter()
        .try_fold(1usize, |product, &len| product.checked_mul(len));
    let bits = elements.and_then(|elements| elements.checked_mul(declared.dtype.bitsize()));
    let Some(bits) = bits else {
        let shape = &declared.shape;
        return wrong(format!(
            "shape {shape:?} of {} is larger than any memory",
            kind.name
        ));
    };
    if from > to {
        return wrong(format!("its bytes {from}..{to} end before they begin"));
    }
    if !bits.is_multiple_of(8) || bits as u64 / 8 != to - from {
        return wrong(format!(
            "shape {:?} of {} has {bits} bits, and its bytes {from}..{to} are {}",
            declared.shape,
            kind.name,
            to - from
        ));
    }
    if start.checked_add(to).is_none_or(|end| end > shard.bytes) {
        let has = shard.bytes - start;
        return wrong(format!(
            "its bytes {from}..{to} end behind the file, which has {has} bytes after the header: is it truncated?"
        ));
    }
    match from {
        from if from < expected => wrong(format!(
            "it begins at byte {from} after the header, within the tensor before it, which ends at {expected}"
        )),
        from if from > expected => wrong(format!(
            "it begins at byte {from} after the header, and the bytes from {expected} on belong to no tensor"
        )),
        _ => Ok(TensorInfo {
            name: name.into(),
            kind,
            shape: declared.shape,
            bytes: bits / 8,
            file: shard.path.clone(),
            shard: 0,
            offset: at,
        }),
    }
}
