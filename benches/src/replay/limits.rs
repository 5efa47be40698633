//! The limits of a replay.

use crate::replay::accesses::copied_alone;
use crate::replay::error::ReplayError;
use cuda_um_trace::{Buffer, Operation, OperationKind, Place, Trace};
use std::collections::HashMap;

/// The page size of the simulated machine: the minimum size of a buffer.
const PAGE: u64 = 4096;

/// The limits of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Host memory at once.
    pub(crate) max_bytes: u64,
    /// Bytes that the host touches in total.
    pub(crate) max_host_bytes: u64,
}

impl Limits {
    /// Refuses a trace that exceeds the memory limit or the work limit, before any of its operations run.
    pub(crate) fn check(
        &self,
        trace: &Trace,
        buffers: &HashMap<u64, &Buffer>,
    ) -> Result<(), ReplayError> {
        let used = trace.operations.iter();
        let used = used.flat_map(|operation| &operation.accesses);
        for buffer in used.filter_map(|access| buffers.get(&access.buffer)) {
            if taken(buffer) > self.max_bytes {
                return Err(self.too_large(buffer));
            }
        }
        for operation in &trace.operations {
            let copied = copied_alone(operation);
            let buffer = copied.and_then(|access| buffers.get(&access.buffer));
            if let (Some(access), Some(buffer)) = (copied, buffer)
                && taken(buffer).saturating_add(access.bytes) > self.max_bytes
            {
                return Err(self.copy_too_large(operation, access.bytes));
            }
        }
        let of_host = |operation: &&Operation| match operation.kind {
            OperationKind::Host | OperationKind::Copy | OperationKind::Fill => true,
            OperationKind::Prefetch { to, .. } => to == Place::Host,
            _ => false,
        };
        let operations = trace.operations.iter().filter(of_host);
        let accesses = operations.flat_map(|operation| &operation.accesses);
        let bytes = accesses.fold(0_u64, |sum, access| sum.saturating_add(access.bytes));
        let most = self.max_host_bytes;
        match bytes <= most {
            true => Ok(()),
            false => Err(ReplayError::TooMuchWork { bytes, most }),
        }
    }

    pub(crate) fn too_large(&self, buffer: &Buffer) -> ReplayError {
        ReplayError::TooLarge {
            name: buffer.name.clone(),
            bytes: buffer.bytes,
            most: self.max_bytes,
        }
    }

    pub(crate) fn copy_too_large(&self, operation: &Operation, bytes: u64) -> ReplayError {
        ReplayError::CopyTooLarge {
            operation: operation.id,
            bytes,
            most: self.max_bytes,
        }
    }
}

/// The host memory of a buffer.
pub(crate) fn taken(buffer: &Buffer) -> u64 {
    buffer.bytes.next_multiple_of(PAGE)
}
