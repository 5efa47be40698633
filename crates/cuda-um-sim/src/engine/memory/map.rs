//! The memory map: which allocation holds an address.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::allocation::{Allocation, Kind};
use super::free_list::FreeList;
use super::registration::Registrations;
use super::span::{Memory, Span};
use crate::engine::address_space::HostAccess;
use crate::engine::detail::detailed;
use crate::engine::handle::Handles;
use crate::engine::machine::Machine;
use crate::engine::managed::SYSTEM;
use crate::engine::misuse_log::MisuseLog;
use crate::engine::status::Code;
use crate::engine::system_memory;
use crate::misuse::Misuse;

/// Allocations of this size and above take whole 2 MiB blocks of address space; smaller ones share blocks by 64 KiB granules.
const BLOCK: usize = 2 << 20;
const GRANULE: usize = 64 << 10;
/// Bytes of addresses from which on freed ones are used again.
const REUSED_FROM: usize = 16 << 30;
/// The most freed ranges that are remembered for reports.
const REMEMBERED: usize = 4096;

/// Address space and allocations.
pub(crate) struct MemoryMap {
    machine: Arc<Machine>,
    handles: Handles,
    pub(super) misuse: MisuseLog,
    free: FreeList,
    pub(super) allocations: BTreeMap<usize, Allocation>,
    /// Ranges of allocations that were freed, the latest last.
    pub(super) freed: VecDeque<Range<usize>>,
    /// Addresses that the program tried to free in a poisoned context.
    pub(super) refused_frees: BTreeSet<usize>,
    pub(crate) registered: Registrations,
    /// Ranges that running work uses, with the number of the work.
    pub(super) in_use: Vec<(usize, Range<usize>)>,
}

/// A request for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    pub(crate) device: usize,
    /// The pool that has the memory.
    pub(crate) pool: Option<usize>,
    /// The device has less free memory for as long as the allocation exists.
    pub(crate) charged: bool,
}

impl Request {
    fn granule(&self) -> usize {
        match self.bytes {
            ..BLOCK => GRANULE,
            _ => BLOCK,
        }
    }

    /// Bytes of address space that the allocation takes.
    pub(crate) fn reserved(&self) -> Option<usize> {
        self.bytes.checked_next_multiple_of(self.granule())
    }
}

impl MemoryMap {
    pub(crate) fn new(machine: Arc<Machine>, handles: Handles, misuse: MisuseLog) -> MemoryMap {
        MemoryMap {
            free: FreeList::default(),
            registered: Registrations::new(machine.clone()),
            machine,
            handles,
            misuse,
            allocations: BTreeMap::new(),
            freed: VecDeque::new(),
            refused_frees: BTreeSet::new(),
            in_use: Vec::new(),
        }
    }

    /// Adds an allocation; returns its first address.
    pub(crate) fn add(&mut self, request: Request) -> Result<usize, Code> {
        let reserved = request.reserved().ok_or(Code::MEMORY_ALLOCATION)?;
        let base = self.addresses(reserved, request.granule())?;
        let Request {
            bytes,
            kind,
            device,
            pool,
            charged,
        } = request;
        if kind != Kind::Managed {
            self.machine.space.poison(base..base + bytes);
        }
        let watched = self.machine.checks.unwritten && matches!(kind, Kind::Device(_));
        let bits = || (0..bytes.div_ceil(8)).map(|_| AtomicU8::new(0)).collect();
        let allocation = Allocation {
            id: self.handles.fresh(),
            base,
            bytes,
            reserved,
            kind,
            pool,
            device,
            charged: if charged { reserved as u64 } else { 0 },
            freeing: None,
            kept: false,
            written: watched.then(bits),
        };
        if matches!(kind, Kind::Pinned { .. }) {
            let pages = allocation.page_addresses();
            self.machine.space.protect(pages, HostAccess::ReadWrite);
        }
        self.allocations.insert(base, allocation);
        Ok(base)
    }

    /// Takes addresses that were not used before, or are the longest out of use if the views are large.
    fn addresses(&mut self, bytes: usize, align: usize) -> Result<usize, Code> {
        let again = self.machine.space.len() >= REUSED_FROM;
        if let Some(base) = self.free.take(bytes, align, again) {
            return Ok(base);
        }
        // A free piece between the segments would let an allocation lie in both.
        let grown = self.machine.space.grow(bytes.saturating_add(GRANULE));
        match grown {
            Ok(segment) => self.free.add(segment.start..segment.end - GRANULE),
            Err(error) => drop(detailed(Code::MEMORY_ALLOCATION, error.to_string())),
        }
        let taken = self.free.take(bytes, align, true);
        taken.ok_or(Code::MEMORY_ALLOCATION)
    }

    /// Keeps an allocation from calls that free memory.
    pub(crate) fn keep(&mut self, base: usize) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.kept = true;
            // It has initial values.
            allocation.written = None;
        }
    }

    /// Removes an allocation: its memory is released, and its addresses fault from now on.
    pub(crate) fn remove(&mut self, base: usize) -> Option<Allocation> {
        let allocation = self.allocations.remove(&base)?;
        self.check_not_in_use(&allocation);
        let space = &self.machine.space;
        let pages = allocation.page_addresses();
        if matches!(allocation.kind, Kind::Pinned { .. }) {
            space.protect(pages.clone(), HostAccess::None);
        }
        space.discard(pages);
        self.free.give(base, allocation.reserved);
        self.freed.push_back(base..base + allocation.reserved);
        if self.freed.len() > REMEMBERED {
            self.freed.pop_front();
        }
        Some(allocation)
    }

    /// The allocation that begins at `base`.
    pub(crate) fn get(&self, base: usize) -> Option<&Allocation> {
        self.allocations.get(&base)
    }

    /// The device of an allocation, or the one that was current when memory of the program was registered.
    pub(crate) fn owner(&self, address: usize) -> usize {
        let registered = || Some(self.registered.holding(address)?.1.device);
        let allocated = self.holding(address).map(|allocation| allocation.device);
        allocated.or_else(registered).unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.values()
    }

    /// The allocation that holds an address.
    pub(crate) fn holding(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address < allocation.end()).then_some(allocation)
    }

    /// The allocation whose pages hold an address.
    pub(crate) fn holding_page(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        allocation
            .page_addresses()
            .contains(&address)
            .then_some(allocation)
    }

    /// The addresses of the allocation, or of the registered memory, that holds an address.
    pub(crate) fn extent(&self, address: usize) -> Option<Range<usize>> {
        if let Some(allocation) = self.holding(address) {
            return Some(allocation.base..allocation.end());
        }
        let (base, registered) = self.registered.holding(address)?;
        Some(base..base + registered.bytes)
    }

    /// Checks that `bytes` bytes at `address` lie inside one allocation, or outside all of them.
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Result<Span, Code> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        if !self.machine.space.contains(address) {
            let memory = if self.registered.covers(address, end) {
                Memory::Pinned
            } else {
                Memory::Pageable
            };
            return Ok(Span {
                memory,
                address,
                view: address,
                bytes,
                allocation: None,
            });
        }
        let holding = self.holding(address);
        let Some(allocation) = holding.filter(|allocation| end <= allocation.end()) else {
            if self.was_freed(address) {
                self.misuse.report(Misuse::UseAfterFree { address });
            }
            return Err(Code::INVALID_VALUE);
        };
        let memory = match allocation.kind {
            Kind::Managed => Memory::Managed(allocation.base),
            Kind::Device(ordinal) => Memory::Device(ordinal),
            Kind::Pinned { .. } => Memory::Pinned,
        };
        Ok(Span {
            memory,
            address,
            view: self.machine.space.device_address(address),
            bytes,
            allocation: Some(allocation.id),
        })
    }

    /// The managed allocation and the pages of a range, all of which must be managed.
    pub(crate) fn managed_range(
        &self,
        address: usize,
        bytes: usize,
    ) -> Result<(usize, Range<usize>), Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let span = self.find(address, bytes)?;
        let Memory::Managed(base) = span.memory else {
            return Err(Code::INVALID_VALUE);
        };
        Ok((base, self.pages_of(base, &span)))
    }

    /// The pages of a range that prefetch and advice accept: managed memory, and system memory that is mapped, if the devices access it.
    pub(crate) fn prefetchable(
        &self,
        address: usize,
        bytes: usize,
    ) -> Result<(usize, Range<usize>), Code> {
        if bytes == 0 || self.find(address, bytes)?.memory != Memory::Pageable {
            return self.managed_range(address, bytes);
        }
        if !self.machine.profile.pageable_memory_access {
            return Err(self.inaccessible(address));
        }
        let pages = system_memory::pages_of(address, bytes);
        if !system_memory::is_mapped(&pages) {
            let text = format!("some of the {bytes} bytes at {address:#x} are not mapped");
            return Err(detailed(Code::INVALID_VALUE, text));
        }
        Ok((SYSTEM, pages))
    }

    /// The error for system memory that the devices do not access.
    pub(crate) fn inaccessible(&self, address: usize) -> Code {
        let text = format!("{address:#x}: {}", self.machine.no_pageable_access(None));
        detailed(Code::INVALID_VALUE, text)
    }

    /// Whether the allocation at `base` is of a pool.
    pub(crate) fn is_of_pool(&self, base: usize) -> bool {
        let allocation = self.allocations.get(&base);
        allocation.is_some_and(|allocation| allocation.pool.is_some())
    }

    /// The pages that hold a span of the allocation at `base`.
    pub(crate) fn pages_of(&self, base: usize, span: &Span) -> Range<usize> {
        if base == SYSTEM {
            return system_memory::pages_of(span.address, span.bytes);
        }
        match self.allocations.get(&base) {
            Some(allocation) if span.bytes > 0 => {
                allocation.pages(&(span.address..span.address + span.bytes))
            }
            _ => 0..0,
        }
    }
}
