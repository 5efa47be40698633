//! What a kernel may touch, and what its touch does.

use std::time::Duration;

use super::allocation::Attach;
use super::memory::Memory;
use super::page::Processor;
use super::registered::{READ_ONLY, Registered};
use super::state::{Machine, State};
use crate::misuse::Misuse;

/// Which launch touches memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) device: usize,
    pub(crate) stream: usize,
    /// When it was enqueued, as `State::handle` counts.
    pub(crate) enqueued: usize,
    /// When it touches what it touches next, on the virtual clock.
    pub(crate) now: Duration,
}

/// A range that a kernel may touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Where its bytes are read and written.
    pub(crate) view: usize,
    pub(crate) cost: Duration,
    pub(crate) remote_bytes: u64,
}

impl State {
    /// A kernel touches a range; the error says why it may not. `system`: it is vouched for, also if the simulator does not know it.
    pub(crate) fn kernel_access(
        &mut self,
        machine: &Machine,
        launch: Launch,
        address: usize,
        bytes: usize,
        write: bool,
        system: bool,
    ) -> Result<Access, &'static str> {
        let Launch { device, stream, .. } = launch;
        let Ok(span) = self.find(machine, address, bytes) else {
            return Err(if self.was_freed(address) {
                "it was freed"
            } else {
                "it is not inside one allocation"
            });
        };
        // What was enqueued before the free may run while the free waits for its turn.
        let freeing = self.holding(address).and_then(|found| found.freeing);
        if freeing.is_some_and(|freed| freed < launch.enqueued) {
            self.misuse.push(Misuse::UseAfterFree { address });
        }
        let mut access = Access {
            view: span.view,
            cost: Duration::ZERO,
            remote_bytes: 0,
        };
        match span.memory {
            Memory::Device(owner)
                if self.device_reaches(device, owner) || self.pool_allows(device, address) =>
            {
                if owner != device {
                    access.remote_bytes = bytes as u64;
                }
            }
            Memory::Device(_) => {
                return Err("it is another device's, and peer access is not enabled");
            }
            Memory::Pinned => {
                let read_only = |registered: Registered| registered.flags & READ_ONLY != 0;
                if write
                    && self
                        .registration(address)
                        .is_some_and(|(_, at)| read_only(at))
                {
                    return Err("it is registered as read-only");
                }
                access.remote_bytes = bytes as u64;
            }
            Memory::Pageable if !machine.profile.pageable_memory_access => {
                return Err("it is pageable host memory");
            }
            Memory::Pageable if !system => {
                return Err("the simulator does not know it: see `LaunchContext::system_slice`");
            }
            Memory::Pageable => access.remote_bytes = bytes as u64,
            Memory::Managed(base) => {
                let attach = self
                    .managed(base)
                    .map_or(Attach::Global, |(managed, _)| managed.attach);
                let refused = match attach {
                    Attach::Global => false,
                    Attach::Host => !machine.concurrent,
                    Attach::Single(only) => !machine.concurrent && only != stream,
                };
                if refused {
                    return Err("it is attached to the host or to another stream");
                }
                let pages = self.pages_of(base, &span);
                self.activity.now = launch.now;
                let touch = self.touch(machine, Processor::device(device), base, pages, write);
                access.cost = touch.cost;
                access.remote_bytes = touch.remote_bytes;
            }
        }
        self.touched
            .push((launch.enqueued, address..address + bytes));
        Ok(access)
    }

    /// Whether memory is of a pool that this device may use.
    fn pool_allows(&self, device: usize, address: usize) -> bool {
        let pool = self.holding(address).and_then(|allocation| allocation.pool);
        pool.and_then(|pool| self.pools.get(&pool))
            .is_some_and(|pool| pool.accessible_from(device))
    }
}
