//! Runs the operations of a trace in order.

mod operation;

use crate::replay::accesses::copied_alone;
use crate::replay::change::Changes;
use crate::replay::error::ReplayError;
use crate::replay::limits::{Limits, taken};
use crate::replay::machine::{MOST_STREAMS, Machine};
use crate::replay::memory::{Memory, PlacesAtStart};
use crate::replay::own_time;
use cuda_um_trace::{AccessedRange, Buffer, Operation, OperationKind, Place, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// A replay in progress.
pub(crate) struct Run<'a> {
    trace: &'a Trace,
    changes: &'a Changes,
    machine: &'a mut Machine,
    memory: BTreeMap<u64, Memory>,
    /// Number of bytes by which the buffers in `memory` may still grow.
    room: u64,
    /// Bytes of buffers that were freed since the last wait. Pending work may still keep their memory.
    freed: u64,
    limits: Limits,
    buffers: HashMap<u64, &'a Buffer>,
    own: HashMap<u64, Duration>,
    used_by_host: HashSet<u64>,
    /// Names of operations that could not be replayed, with their counts.
    pub(crate) left_out: BTreeMap<String, usize>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        changes: &'a Changes,
        machine: &'a mut Machine,
        limits: Limits,
    ) -> Self {
        let used_by_host = trace
            .operations
            .iter()
            .filter(|operation| operation.kind == OperationKind::Host)
            .flat_map(|operation| operation.accesses.iter().map(|access| access.buffer))
            .collect();
        Self {
            trace,
            changes,
            machine,
            memory: BTreeMap::new(),
            room: limits.max_bytes,
            freed: 0,
            limits,
            buffers: trace
                .buffers
                .iter()
                .map(|buffer| (buffer.id, buffer))
                .collect(),
            own: own_time::of(trace),
            used_by_host,
            left_out: BTreeMap::new(),
        }
    }

    /// Refuses a trace that exceeds the memory limit or the work limit, before any of its operations run.
    pub(crate) fn check_limits(&self) -> Result<(), ReplayError> {
        self.limits.check(self.trace, &self.buffers)
    }

    /// Allocates the buffers that existed when the trace began, and moves them to their locations. This is not recorded.
    pub(crate) fn prepare(&mut self) -> Result<(), ReplayError> {
        let used: HashSet<u64> = self
            .trace
            .operations
            .iter()
            .flat_map(|operation| operation.accesses.iter().map(|access| access.buffer))
            .collect();
        let places = PlacesAtStart::of(self.trace);
        for buffer in &self.trace.buffers {
            if buffer.allocated.is_some() || !used.contains(&buffer.id) {
                continue;
            }
            self.make(buffer.id)?;
            let place = places.place(buffer);
            let all = AccessedRange {
                buffer: buffer.id,
                offset: 0,
                bytes: buffer.bytes,
                write: true,
            };
            let done = match place {
                Place::Host => self.touch(&all),
                Place::Device(device) => self.prefetch(&[all], device, None, place),
            };
            done.map_err(|cause| operation_error(&format!("placing `{}`", buffer.name), cause))?;
        }
        self.synchronize()
    }

    /// Runs every recorded operation in order.
    pub(crate) fn operations(&mut self) -> Result<(), ReplayError> {
        let mut freed: Vec<(u64, u64)> = self
            .trace
            .buffers
            .iter()
            .filter_map(|buffer| Some((buffer.freed?, buffer.id)))
            .collect();
        freed.sort_unstable_by(|a, b| b.cmp(a));
        for operation in &self.trace.operations {
            while freed.last().is_some_and(|(at, _)| *at <= operation.start) {
                let gone = freed.pop().map(|(_, id)| id);
                gone.into_iter().for_each(|id| self.free(id));
            }
            self.check(operation)?;
            self.check_copy(operation)?;
            for access in &operation.accesses {
                if !self.memory.contains_key(&access.buffer) {
                    self.make(access.buffer)?;
                }
            }
            self.replay(operation)
                .map_err(|cause| operation_error(&describe(operation), cause))?;
        }
        let shared = self.machine.shared_streams();
        if shared > 0 {
            let what = format!("streams beyond {MOST_STREAMS} of a device: they share those");
            self.left_out.insert(what, shared);
        }
        self.synchronize()
    }

    fn make(&mut self, id: u64) -> Result<(), ReplayError> {
        let Some(&buffer) = self.buffers.get(&id) else {
            return Err(ReplayError::Inconsistent {
                operation: 0,
                why: format!("there is no buffer {id}"),
            });
        };
        let bytes = taken(buffer);
        if !self.has_room(bytes)? {
            return Err(self.limits.too_large(buffer));
        }
        let device = self.machine.device(buffer.device).clone();
        let host = self.used_by_host.contains(&id);
        let made = Memory::make(&device, buffer, host, self.changes).map_err(|cause| {
            operation_error(
                &format!("making `{}` ({} bytes)", buffer.name, buffer.bytes),
                cause,
            )
        })?;
        self.memory.insert(id, made);
        self.room -= bytes;
        Ok(())
    }

    /// True if there is space for `bytes`, if necessary after waiting for freed buffers.
    fn has_room(&mut self, bytes: u64) -> Result<bool, ReplayError> {
        if self.room < bytes {
            return Ok(false);
        }
        if self.room - self.freed < bytes {
            self.synchronize()?;
            self.machine
                .runtime
                .reclaim()
                .map_err(|cause| operation_error("freeing memory", cause))?;
            self.freed = 0;
        }
        Ok(true)
    }

    fn free(&mut self, id: u64) {
        if self.memory.remove(&id).is_some()
            && let Some(buffer) = self.buffers.get(&id)
        {
            self.room += taken(buffer);
            self.freed += taken(buffer);
        }
    }

    /// Refuses a copy from or to the program's own memory if there is no space for it.
    fn check_copy(&mut self, operation: &Operation) -> Result<(), ReplayError> {
        let Some(access) = copied_alone(operation) else {
            return Ok(());
        };
        match self.has_room(access.bytes)? {
            true => Ok(()),
            false => Err(self.limits.copy_too_large(operation, access.bytes)),
        }
    }

    fn check(&self, operation: &Operation) -> Result<(), ReplayError> {
        for access in &operation.accesses {
            let buffer = self.buffers.get(&access.buffer);
            let inside = buffer.is_some_and(|buffer| {
                access
                    .offset
                    .checked_add(access.bytes)
                    .is_some_and(|end| end <= buffer.bytes)
            });
            if !inside {
                let why = match buffer {
                    None => format!("there is no buffer {}", access.buffer),
                    Some(buffer) => format!(
                        "bytes {}..+{} are outside `{}`, which has {}",
                        access.offset, access.bytes, buffer.name, buffer.bytes
                    ),
                };
                return Err(ReplayError::Inconsistent {
                    operation: operation.id,
                    why,
                });
            }
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), ReplayError> {
        self.machine
            .synchronize()
            .map_err(|cause| operation_error("waiting for the devices", cause))
    }
}

fn describe(operation: &Operation) -> String {
    let what = match &operation.kind {
        OperationKind::Launch { kernel } => format!("launch of `{kernel}`"),
        OperationKind::Prefetch { to, .. } => format!("prefetch to {to:?}"),
        OperationKind::Advise { advice, .. } => format!("advice {advice}"),
        other => format!("{other:?}"),
    };
    format!("operation {} ({what})", operation.id)
}

fn operation_error(operation: &str, cause: cuda_um::Error) -> ReplayError {
    ReplayError::Operation {
        operation: operation.to_owned(),
        cause,
    }
}
