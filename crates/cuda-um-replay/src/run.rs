//! Runs the operations of a trace in order.

use crate::change::{Change, Changes};
use crate::error::ReplayError;
use crate::machine::{MAX_ACCESSES, MOST_STREAMS, Machine};
use crate::memory::{Memory, PlacesAtStart};
use crate::own_time;
use cuda_um::{Advice, Arguments, Location, Stream};
use cuda_um_trace::{Access, Buffer, Operation, OperationKind, Place, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

/// The limits of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Host memory at once.
    pub(crate) max_bytes: u64,
    /// Bytes that the host touches in total.
    pub(crate) max_host_bytes: u64,
}

/// The page size of the simulated machine: the minimum size of a buffer.
const PAGE: u64 = 4096;

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
            let all = Access {
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

    /// Refuses a trace that exceeds the memory limit or the work limit, before any of its operations run.
    pub(crate) fn check_limits(&self) -> Result<(), ReplayError> {
        let used = self.trace.operations.iter();
        let used = used.flat_map(|operation| &operation.accesses);
        for buffer in used.filter_map(|access| self.buffers.get(&access.buffer)) {
            if taken(buffer) > self.limits.max_bytes {
                return Err(self.too_large(buffer));
            }
        }
        for operation in &self.trace.operations {
            let copied = copied_alone(operation);
            let buffer = copied.and_then(|access| self.buffers.get(&access.buffer));
            if let (Some(access), Some(buffer)) = (copied, buffer)
                && taken(buffer).saturating_add(access.bytes) > self.limits.max_bytes
            {
                return Err(self.copy_too_large(operation, access.bytes));
            }
        }
        let of_host = |operation: &&Operation| match operation.kind {
            OperationKind::Host | OperationKind::Copy | OperationKind::Fill => true,
            OperationKind::Prefetch { to, .. } => to == Place::Host,
            _ => false,
        };
        let operations = self.trace.operations.iter().filter(of_host);
        let accesses = operations.flat_map(|operation| &operation.accesses);
        let bytes = accesses.fold(0_u64, |sum, access| sum.saturating_add(access.bytes));
        let most = self.limits.max_host_bytes;
        match bytes <= most {
            true => Ok(()),
            false => Err(ReplayError::TooMuchWork { bytes, most }),
        }
    }

    fn replay(&mut self, operation: &Operation) -> cuda_um::Result<()> {
        let accesses = merged(&operation.accesses);
        let (device, stream) = (operation.device, operation.stream);
        match &operation.kind {
            OperationKind::Launch { .. } => {
                self.prefetch_wanted(&accesses, device, stream, Place::Device(device))?;
                self.launch(operation.id, &accesses, device, stream)
            }
            OperationKind::Prefetch { to, .. } => {
                let kept = self.without(&accesses, &Change::NoPrefetch);
                self.prefetch(&kept, device, stream, *to)
            }
            OperationKind::Advise { advice, place } => {
                let place = place.map(|place| self.machine.location(place));
                let Some(advice) = advice_of(advice, place) else {
                    self.leave_out(format!("advice {advice}"));
                    return Ok(());
                };
                for access in self.without(&accesses, &Change::NoAdvice) {
                    if let Some(buffer) = self.memory[&access.buffer].managed() {
                        buffer.advise_range(range_of(&access), advice)?;
                    }
                }
                Ok(())
            }
            OperationKind::Host => {
                self.prefetch_wanted(&accesses, device, stream, Place::Host)?;
                // Waiting counts for no operation: kernels and prefetches are counted when they run.
                self.machine.synchronize()?;
                accesses.iter().try_for_each(|access| self.touch(access))
            }
            OperationKind::Copy | OperationKind::Fill => {
                self.copy(&accesses, device, stream, &operation.kind)
            }
            OperationKind::Discard => {
                self.leave_out("discard".to_owned());
                Ok(())
            }
            OperationKind::Other { name } => {
                self.leave_out(name.clone());
                Ok(())
            }
        }
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
            return Err(self.too_large(buffer));
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

    fn too_large(&self, buffer: &Buffer) -> ReplayError {
        ReplayError::TooLarge {
            name: buffer.name.clone(),
            bytes: buffer.bytes,
            most: self.limits.max_bytes,
        }
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
            false => Err(self.copy_too_large(operation, access.bytes)),
        }
    }

    fn copy_too_large(&self, operation: &Operation, bytes: u64) -> ReplayError {
        ReplayError::CopyTooLarge {
            operation: operation.id,
            bytes,
            most: self.limits.max_bytes,
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

    fn prefetch(
        &mut self,
        accesses: &[Access],
        device: u32,
        stream: Option<u64>,
        to: Place,
    ) -> cuda_um::Result<()> {
        if !self.machine.migrates() {
            if !accesses.is_empty() {
                self.leave_out(
                    "prefetches, on a device without concurrent managed access".to_owned(),
                );
            }
            return Ok(());
        }
        let location = self.machine.location(to);
        let stream = self.machine.stream(device, stream)?;
        for access in accesses {
            if let Some(buffer) = self.memory[&access.buffer].managed() {
                buffer.prefetch_range(range_of(access), location, stream)?;
            }
        }
        Ok(())
    }

    /// The prefetches of a change.
    fn prefetch_wanted(
        &mut self,
        accesses: &[Access],
        device: u32,
        stream: Option<u64>,
        to: Place,
    ) -> cuda_um::Result<()> {
        let wanted: Vec<Access> = accesses
            .iter()
            .filter(|access| {
                let name = &self.buffers[&access.buffer].name;
                self.changes.has(name, &Change::PrefetchBeforeUse)
            })
            .copied()
            .collect();
        self.prefetch(&wanted, device, stream, to)
    }

    fn launch(
        &mut self,
        id: u64,
        accesses: &[Access],
        device: u32,
        stream: Option<u64>,
    ) -> cuda_um::Result<()> {
        let mut accesses: Vec<Access> = accesses.to_vec();
        if accesses.len() > MAX_ACCESSES {
            accesses.sort_by_key(|access| std::cmp::Reverse(access.bytes));
            for _ in accesses.drain(MAX_ACCESSES..) {
                self.leave_out(format!("buffers of a launch beyond {MAX_ACCESSES}"));
            }
            accesses.sort_by_key(|access| access.buffer);
        }
        let own = self.own.get(&id).copied().unwrap_or_default();
        let stream = self.machine.stream(device, stream)?.clone();
        // Only the buffers of the launch: there may be many others.
        let take = |access: &Access| Some((*access, self.memory.remove(&access.buffer)?));
        let mut used: Vec<(Access, Memory)> = accesses.iter().filter_map(take).collect();
        let done = self.launch_on(device, &stream, own, &mut used);
        let back = used.into_iter();
        self.memory
            .extend(back.map(|(access, memory)| (access.buffer, memory)));
        done
    }

    fn launch_on(
        &self,
        device: u32,
        stream: &Stream,
        own: Duration,
        used: &mut [(Access, Memory)],
    ) -> cuda_um::Result<()> {
        let mut arguments = Arguments::new();
        arguments.push(own.as_nanos() as u64);
        arguments.push(used.len() as u64);
        for (access, memory) in used {
            memory.push(&mut arguments, range_of(access), access.write)?;
            arguments.push(access.bytes << 1 | u64::from(access.write));
        }
        while arguments.len() < 2 + 2 * MAX_ACCESSES {
            arguments.push(0u64);
        }
        self.machine.launch(device, stream, arguments)
    }

    fn touch(&mut self, access: &Access) -> cuda_um::Result<()> {
        match self.memory.get_mut(&access.buffer) {
            Some(memory) => memory.touch(range_of(access), access.write),
            None => Ok(()),
        }
    }

    /// Runs copies between buffers, copies from and to the program's own memory, and fills.
    fn copy(
        &mut self,
        accesses: &[Access],
        device: u32,
        stream: Option<u64>,
        kind: &OperationKind,
    ) -> cuda_um::Result<()> {
        let stream = self.machine.stream(device, stream)?.clone();
        let source = accesses.iter().find(|access| !access.write);
        let target = accesses.iter().find(|access| access.write);
        let Some(target) = target else {
            return match source {
                Some(source) => self.memory[&source.buffer].copy_to_host(range_of(source)),
                None => Ok(()),
            };
        };
        let Some(mut to) = self.memory.remove(&target.buffer) else {
            return Ok(());
        };
        let done = match source {
            Some(source) => {
                let from = &self.memory[&source.buffer];
                to.copy_from(target.offset as usize, from, range_of(source), &stream)
            }
            None if *kind == OperationKind::Fill => to.fill(&stream),
            None => to.copy_from_host(range_of(target)),
        };
        self.memory.insert(target.buffer, to);
        done
    }

    fn without(&self, accesses: &[Access], change: &Change) -> Vec<Access> {
        accesses
            .iter()
            .filter(|access| !self.changes.has(&self.buffers[&access.buffer].name, change))
            .copied()
            .collect()
    }

    fn leave_out(&mut self, what: String) {
        *self.left_out.entry(what).or_default() += 1;
    }

    fn synchronize(&self) -> Result<(), ReplayError> {
        self.machine
            .synchronize()
            .map_err(|cause| operation_error("waiting for the devices", cause))
    }
}

/// One access for each buffer, in the order of ids: the range that covers all accesses, written if one of them is.
fn merged(accesses: &[Access]) -> Vec<Access> {
    let mut merged: BTreeMap<u64, Access> = BTreeMap::new();
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

fn range_of(access: &Access) -> Range<usize> {
    access.offset as usize..(access.offset + access.bytes) as usize
}

/// The part of a copy from or to the program's own memory.
fn copied_alone(operation: &Operation) -> Option<Access> {
    let alone = match merged(&operation.accesses)[..] {
        [access] => Some(access),
        _ => None,
    };
    alone.filter(|_| operation.kind == OperationKind::Copy)
}

/// The host memory of a buffer.
fn taken(buffer: &Buffer) -> u64 {
    buffer.bytes.next_multiple_of(PAGE)
}

fn advice_of(name: &str, place: Option<Location>) -> Option<Advice> {
    Some(match name {
        "SetReadMostly" => Advice::SetReadMostly,
        "UnsetReadMostly" => Advice::UnsetReadMostly,
        "SetPreferredLocation" => Advice::SetPreferredLocation(place?),
        "UnsetPreferredLocation" => Advice::UnsetPreferredLocation,
        "SetAccessedBy" => Advice::SetAccessedBy(place?),
        "UnsetAccessedBy" => Advice::UnsetAccessedBy(place?),
        _ => return None,
    })
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
