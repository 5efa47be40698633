//! Accesses of memory by kernels.

use std::time::Duration;

use super::core::Core;
use super::kernel_memory::{GrantedAccess, KernelMemory, Launch, Refusal, Request};
use super::managed::{Attach, Processor};
use super::memory::{Memory, READ_ONLY};
use super::state::State;
use super::system_memory;
use crate::misuse::Misuse;

impl KernelMemory for Core {
    fn access(&self, launch: Launch, request: &Request) -> Result<GrantedAccess, Refusal> {
        self.state.lock().kernel_access(launch, request)
    }

    fn set_condition(&self, handle: u64, value: u32) -> bool {
        self.state.lock().graphs.set_condition(handle, value)
    }

    fn is_inherited(&self) -> bool {
        self.is_inherited()
    }
}

impl State {
    /// A kernel accesses a range; the error says why it may not.
    fn kernel_access(
        &mut self,
        launch: Launch,
        request: &Request,
    ) -> Result<GrantedAccess, Refusal> {
        let &Request { address, bytes, .. } = request;
        let Ok(span) = self.memory.find(address, bytes) else {
            let was_freed = self.memory.was_freed(address);
            return Err(Refusal::from(match was_freed {
                true => "it was freed",
                false => "it is not inside one allocation",
            }));
        };
        // A kernel that was enqueued before the free may run while the free waits for its turn.
        let holding = self.memory.holding(address);
        let freeing = holding.and_then(|allocation| allocation.freeing);
        if freeing.is_some_and(|freeing| freeing < launch.number) {
            self.misuse.report(Misuse::UseAfterFree { address });
        }
        let granted = |time, remote_bytes, peer_bytes| GrantedAccess {
            view: span.view,
            time,
            remote_bytes,
            peer_bytes,
        };
        let access = match span.memory {
            Memory::Device(owner) => {
                self.check_device_access(launch.device, owner, address)?;
                let peer_bytes = match owner != launch.device {
                    true => bytes as u64,
                    false => 0,
                };
                let time = self.devices.peer_time(owner, launch.device, peer_bytes);
                granted(time, 0, peer_bytes)
            }
            Memory::Pinned => {
                self.check_pinned_access(request)?;
                let remote = !self.machine.one_memory();
                granted(Duration::ZERO, if remote { bytes as u64 } else { 0 }, 0)
            }
            Memory::Managed(_) | Memory::Pageable => {
                match span.memory {
                    Memory::Managed(base) => self.check_attachment(launch.stream, base)?,
                    _ => self.check_system_access(launch, request)?,
                }
                let Some((base, pages)) = self.pages_in(&span) else {
                    return Err("it is empty".into());
                };
                self.records.activity.now = launch.now;
                let processor = Processor::device(launch.device);
                let price = self.uvm().touch(processor, base, pages, request.write);
                granted(price.time, price.remote_bytes, price.peer_bytes)
            }
        };
        self.memory.add_use(launch.number, address, bytes);
        Ok(access)
    }

    pub(super) fn check_device_access(
        &self,
        device: usize,
        owner: usize,
        address: usize,
    ) -> Result<(), Refusal> {
        let holding = self.memory.holding(address);
        let pool = holding.and_then(|allocation| allocation.pool);
        let allowed = self.devices.reaches(device, owner)
            || pool.is_some_and(|pool| self.pools.allows(pool, device));
        match allowed {
            true => Ok(()),
            false => {
                Err("it is the memory of another device, and peer access is not enabled".into())
            }
        }
    }

    fn check_pinned_access(&self, request: &Request) -> Result<(), Refusal> {
        let registered = self.memory.registered.holding(request.address);
        let read_only = registered.is_some_and(|(_, at)| at.flags & READ_ONLY != 0);
        if request.write && read_only {
            return Err("it is registered as read-only".into());
        }
        Ok(())
    }

    fn check_system_access(&mut self, launch: Launch, request: &Request) -> Result<(), Refusal> {
        if !self.machine.profile.pageable_memory_access {
            return Err(self.machine.no_pageable_access(Some(launch.device)).into());
        }
        if !request.system {
            return Err(
                "it is neither allocated by the simulator nor registered: see `LaunchContext::system_slice`".into(),
            );
        }
        let pages = system_memory::pages_of(request.address, request.bytes);
        if !system_memory::is_mapped(&pages) {
            return Err("it is not mapped".into());
        }
        match self.forget_untouched(&pages) {
            true => Ok(()),
            false => Err("it cannot be read".into()),
        }
    }

    /// Without page faults, a kernel may use only managed memory that is attached to its stream or to all.
    fn check_attachment(&self, stream: usize, base: usize) -> Result<(), Refusal> {
        let refused = match self.managed.get(base).map(|managed| managed.attach) {
            Some(Attach::Global) | None => false,
            Some(Attach::Host) => !self.machine.concurrent,
            Some(Attach::Single(only)) => !self.machine.concurrent && only != stream,
        };
        if refused {
            return Err("it is attached to the host or to another stream".into());
        }
        Ok(())
    }
}
