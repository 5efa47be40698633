//! One operation.

use super::Run;
use crate::replay::accesses::{merged, range_of};
use crate::replay::change::Change;
use crate::replay::machine::MAX_ACCESSES;
use crate::replay::memory::Memory;
use cuda_um::{Advice, Location, Stream, kernel::Arguments};
use cuda_um_trace::{AccessedRange, Operation, OperationKind, Place};
use std::time::Duration;

impl Run<'_> {
    pub(super) fn replay(&mut self, operation: &Operation) -> cuda_um::Result<()> {
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
                        buffer.view(range_of(&access))?.advise(advice)?.require()?;
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
            OperationKind::Other { name } => {
                self.leave_out(name.clone());
                Ok(())
            }
            OperationKind::Discard => {
                self.leave_out("discard".to_owned());
                Ok(())
            }
            newer => {
                self.leave_out(format!("{newer:?}"));
                Ok(())
            }
        }
    }

    pub(super) fn prefetch(
        &mut self,
        accesses: &[AccessedRange],
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
                buffer
                    .view(range_of(access))?
                    .prefetch_on(location, stream)?
                    .require()?;
            }
        }
        Ok(())
    }

    /// The prefetches of a change.
    fn prefetch_wanted(
        &mut self,
        accesses: &[AccessedRange],
        device: u32,
        stream: Option<u64>,
        to: Place,
    ) -> cuda_um::Result<()> {
        let wanted: Vec<AccessedRange> = accesses
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
        accesses: &[AccessedRange],
        device: u32,
        stream: Option<u64>,
    ) -> cuda_um::Result<()> {
        let mut accesses: Vec<AccessedRange> = accesses.to_vec();
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
        let take = |access: &AccessedRange| Some((*access, self.memory.remove(&access.buffer)?));
        let mut used: Vec<(AccessedRange, Memory)> = accesses.iter().filter_map(take).collect();
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
        used: &mut [(AccessedRange, Memory)],
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

    pub(super) fn touch(&mut self, access: &AccessedRange) -> cuda_um::Result<()> {
        match self.memory.get_mut(&access.buffer) {
            Some(memory) => memory.touch(range_of(access), access.write),
            None => Ok(()),
        }
    }

    /// Runs copies between buffers, copies from and to the program's own memory, and fills.
    fn copy(
        &mut self,
        accesses: &[AccessedRange],
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

    fn without(&self, accesses: &[AccessedRange], change: &Change) -> Vec<AccessedRange> {
        accesses
            .iter()
            .filter(|access| !self.changes.has(&self.buffers[&access.buffer].name, change))
            .copied()
            .collect()
    }

    fn leave_out(&mut self, what: String) {
        *self.left_out.entry(what).or_default() += 1;
    }
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
