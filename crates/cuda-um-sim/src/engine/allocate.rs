//! Allocation of memory of every kind.

use super::address_space::PAGE;
use super::managed::{Attach, Managed};
use super::memory::{Kind, Request};
use super::pool::Home;
use super::state::State;
use super::status::Code;

/// The driver maps device allocations from this size on, and locks larger pinned allocations page by page. Smaller ones come from memory
/// that it has prepared.
const MIB: usize = 1 << 20;
/// Managed allocations from this size on have a price for each block.
const BLOCK: usize = 2 << 20;

/// The number of blocks that an allocation takes, for its price.
fn blocks_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

impl State {
    /// Allocates memory, and makes room for it on its device if it is charged there.
    pub(super) fn allocate(&mut self, request: Request) -> Result<usize, Code> {
        let reserved = request.reserved().ok_or(Code::MEMORY_ALLOCATION)? as u64;
        if request.charged {
            self.forget_unmapped();
            self.uvm().make_room(request.device, reserved, None)?;
        }
        let base = self.memory.add(request)?;
        if request.charged {
            self.devices[request.device].explicit_bytes += reserved;
        }
        Ok(base)
    }

    fn allocate_pages(&mut self, request: Request, attach: Attach) -> Result<usize, Code> {
        let base = self.allocate(request)?;
        let count = request.bytes.div_ceil(PAGE);
        let managed = Managed::new(count, request.charged, attach);
        self.managed.insert(base, managed);
        if self.machine.one_memory() {
            self.uvm().forget(base, 0..count);
        }
        Ok(base)
    }

    /// `cudaMallocManaged`. If devices raise no page faults, it takes device memory from the start.
    pub(crate) fn allocate_managed(
        &mut self,
        bytes: usize,
        device: usize,
        attach: Attach,
    ) -> Result<usize, Code> {
        let cost = &self.machine.cost;
        self.now += match bytes {
            ..BLOCK => cost.managed_alloc,
            _ => cost.managed_alloc_large + cost.managed_alloc_block * blocks_of(bytes),
        };
        let request = Request {
            bytes,
            kind: Kind::Managed,
            device,
            pool: None,
            charged: !self.machine.concurrent,
        };
        self.allocate_pages(request, attach)
    }

    /// `cudaMalloc`.
    pub(crate) fn allocate_device(&mut self, bytes: usize, device: usize) -> Result<usize, Code> {
        let cost = &self.machine.cost;
        self.now += match bytes {
            ..MIB => cost.device_alloc_small,
            _ => cost.device_alloc + cost.device_alloc_block * blocks_of(bytes),
        };
        self.allocate(Request {
            bytes,
            kind: Kind::Device(device),
            device,
            pool: None,
            charged: true,
        })
    }

    /// The time of a registration, in which `cudaHostAlloc` would pin a twentieth of the memory: 9 ms for 256 MiB on an H200's host.
    pub(crate) fn registered(&mut self, bytes: usize) {
        let pinned = bytes as u64 / 20;
        self.now += self.machine.cost.pinned_alloc
            + cuda_um_cost::at_rate(pinned, self.machine.cost.pin_rate);
    }

    /// `cudaHostAlloc`. With unified addressing all pinned memory is mapped, with or without the flag.
    pub(crate) fn allocate_pinned(
        &mut self,
        bytes: usize,
        device: usize,
        flags: u32,
    ) -> Result<usize, Code> {
        self.now += self.machine.cost.pinned_alloc;
        if bytes > MIB {
            self.now += cuda_um_cost::at_rate(bytes as u64, self.machine.cost.pin_rate);
        }
        self.allocate(Request {
            bytes,
            kind: Kind::Pinned { flags },
            device,
            pool: None,
            charged: false,
        })
    }

    /// `cudaMallocFromPoolAsync`: the memory may be used on the stream from here on.
    pub(crate) fn allocate_from_pool(&mut self, pool: usize, bytes: usize) -> Result<usize, Code> {
        let growth = self.pools.growth(pool, bytes)?;
        let device = growth.device;
        if growth.home == Home::Device {
            self.uvm().make_room(device, growth.added, None)?;
        }
        self.now += self.machine.cost.pool_alloc;
        let kind = match growth.home {
            Home::Managed => Kind::Managed,
            Home::Device => Kind::Device(device),
            Home::Host => Kind::Pinned { flags: 0 },
        };
        // The pool's reserve is charged, and the allocation is part of it.
        let request = Request {
            bytes,
            kind,
            device,
            pool: Some(pool),
            charged: false,
        };
        let base = match growth.home {
            Home::Managed => self.allocate_pages(request, Attach::Global)?,
            Home::Device | Home::Host => self.allocate(request)?,
        };
        self.devices[device].explicit_bytes += growth.added;
        self.pools.grow(pool, &growth);
        Ok(base)
    }
}
