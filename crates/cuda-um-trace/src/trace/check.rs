//! Checks that the numbers of a trace are those of a machine, so that readers add them without an overflow.
//!
//! Not refused: ids that refer to nothing (the entry may have been dropped), devices that are not in the list (it holds only
//! the devices that the program had opened), and records outside of the trace's time or of any buffer.

use super::{RecordKind, Trace, TraceError};
use std::collections::HashMap;

/// Addresses have 57 bits on a host with five levels of page tables, and fewer on every other one.
const ADDRESS_END: u64 = 1 << 57;
/// In nanoseconds since 1970, in the year 2262.
const TIME_END: u64 = i64::MAX as u64;
const DEVICES: u32 = 1024;
/// The bytes or faults of one record.
const MOST: u64 = 1 << 40;

impl Trace {
    /// Checks the numbers on which readers of a trace rely: nothing ends before it starts, accesses are inside their buffers, and no address, time,
    /// size of a record or ordinal is larger than any machine has.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        let span = |start, end| start <= end && end <= TIME_END;
        let mut sizes = HashMap::with_capacity(self.buffers.len());
        all("the trace", &[self], |it| span(it.start, it.end))?;
        all("buffers", &self.buffers, |buffer| {
            sizes.insert(buffer.id, buffer.bytes);
            let times = [buffer.allocated, buffer.freed].into_iter().flatten();
            buffer.address.max(buffer.bytes) <= ADDRESS_END && times.max() <= Some(TIME_END)
        })?;
        all("operations", &self.operations, |operation| {
            span(operation.start, operation.end)
                && operation.accesses.iter().all(|access| {
                    let size = sizes.get(&access.buffer).copied().unwrap_or(ADDRESS_END);
                    access.offset <= size && access.bytes <= size - access.offset
                })
        })?;
        all("kernels", &self.kernels, |run| {
            span(run.start, run.end) && run.device < DEVICES
        })?;
        all("records", &self.records, |record| {
            let size = match record.kind {
                RecordKind::Migration { bytes, .. }
                | RecordKind::RemoteMap { bytes, .. }
                | RecordKind::Thrashing { bytes } => bytes,
                RecordKind::GpuFault { faults, .. } => faults,
                RecordKind::CpuFault { .. } | RecordKind::Throttling { .. } => 0,
            };
            span(record.start, record.end) && record.address <= ADDRESS_END && size <= MOST
        })
    }
}

/// Refuses the first entry that is not valid.
fn all<T>(
    list: &'static str,
    entries: &[T],
    is_valid: impl FnMut(&T) -> bool,
) -> Result<(), TraceError> {
    let mut valid = entries.iter().map(is_valid);
    match valid.position(|valid| !valid) {
        None => Ok(()),
        Some(index) => Err(TraceError::Invalid { list, index }),
    }
}
