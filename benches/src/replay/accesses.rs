//! The accesses of an operation.

use cuda_um_trace::{AccessedRange, Operation, OperationKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// One access for each buffer, in the order of ids: the range that covers all accesses, written if one of them is.
pub(crate) fn merged(accesses: &[AccessedRange]) -> Vec<AccessedRange> {
    let mut merged: BTreeMap<u64, AccessedRange> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.bytes > 0) {
        merged
            .entry(access.buffer)
            .and_modify(|all| {
                let end = (all.offset + all.bytes).max(access.offset + access.bytes);
                all.offset = all.offset.min(access.offset);
                all.bytes = end - all.offset;
                all.write |= access.write;
            })
            .or_insert(*access);
    }
    merged.into_values().collect()
}

pub(crate) fn range_of(access: &AccessedRange) -> Range<usize> {
    access.offset as usize..(access.offset + access.bytes) as usize
}

/// The part of a copy from or to the program's own memory.
pub(crate) fn copied_alone(operation: &Operation) -> Option<AccessedRange> {
    let alone = match merged(&operation.accesses)[..] {
        [access] => Some(access),
        _ => None,
    };
    alone.filter(|_| operation.kind == OperationKind::Copy)
}
