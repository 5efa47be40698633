//! Allocating, freeing and finding memory.

use std::ops::Range;

use super::address_space::{HostAccess, PAGE};
use super::allocation::{Allocation, Attach, Kind, Managed, blocks};
use super::migration::Moved;
use super::page::{HOST, Page, Processor, Processors};
use super::state::{Freed, Machine, State};
use super::status::Code;
use crate::misuse::Misuse;

/// Allocations below this share 64 KiB granules of address space; from it on, whole 2 MiB blocks.
const BLOCK: usize = 2 << 20;
const GRANULE: usize = 64 << 10;
/// Larger pinned allocations are locked page by page, device allocations from here on mapped: smaller ones come out of what is there.
const MIB: usize = 1 << 20;
/// Fresh memory up to this size is filled with a pattern, so that nobody takes it for zeroed.
const POISONED_UP_TO: usize = 1 << 20;
/// The pattern of uninitialised memory; as `f32` it is a NaN.
pub(crate) const POISON: u8 = 0xff;
/// Freed ranges remembered for reports.
const REMEMBERED: usize = 4096;

/// Blocks that an allocation takes, for its price.
fn blocks_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

/// The memory behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// Managed, of the allocation at this base.
    Managed(usize),
    /// Of a device.
    Device(usize),
    /// Pinned by `cudaHostAlloc`, or registered.
    Pinned,
    /// Anything else.
    Pageable,
}

/// A checked range of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) memory: Memory,
    /// The caller's address.
    pub(crate) address: usize,
    /// Where the simulator reads and writes it.
    pub(crate) view: usize,
    pub(crate) bytes: usize,
    /// Of the allocation that it lies in.
    pub(crate) allocation: Option<usize>,
}

impl State {
    /// Allocates memory of any kind; `charge` says whose capacity it takes from the start.
    fn allocate(
        &mut self,
        machine: &Machine,
        bytes: usize,
        device: usize,
        charge: Option<usize>,
        kind: Kind,
    ) -> Result<usize, Code> {
        let granule = if bytes < BLOCK { GRANULE } else { BLOCK };
        let reserved = bytes
            .checked_next_multiple_of(granule)
            .ok_or(Code::MEMORY_ALLOCATION)?;
        let charged = if charge.is_some() { reserved as u64 } else { 0 };
        if let Some(ordinal) = charge {
            self.make_room(machine, ordinal, charged, None)?;
        }
        let offset = self
            .free
            .take(reserved, granule)
            .ok_or(Code::MEMORY_ALLOCATION)?;
        let base = machine.space.base() + offset;
        match &kind {
            Kind::Managed(_) => {}
            Kind::Device(_) => self.poison_fresh(machine, base, bytes),
            Kind::Pinned { .. } => {
                self.poison_fresh(machine, base, bytes);
                machine.space.protect(
                    base..base + bytes.next_multiple_of(PAGE),
                    HostAccess::ReadWrite,
                );
            }
        }
        if let Some(ordinal) = charge {
            self.devices[ordinal].explicit_bytes += charged;
        }
        let id = self.handle();
        self.allocations.insert(
            base,
            Allocation {
                id,
                base,
                bytes,
                reserved,
                kind,
                pool: None,
                device,
                charged,
                freeing: None,
            },
        );
        Ok(base)
    }

    fn poison_fresh(&self, machine: &Machine, base: usize, bytes: usize) {
        if bytes <= POISONED_UP_TO {
            machine.space.fill(base..base + bytes, POISON);
        }
    }

    /// `cudaMallocManaged`. Where devices do not fault, it takes device memory from the start.
    pub(crate) fn allocate_managed(
        &mut self,
        machine: &Machine,
        bytes: usize,
        device: usize,
        attach: Attach,
    ) -> Result<usize, Code> {
        let cost = &machine.cost;
        self.now += match bytes {
            ..BLOCK => cost.managed_alloc,
            _ => cost.managed_alloc_large + cost.managed_alloc_block * blocks_of(bytes),
        };
        let charge = (!machine.concurrent).then_some(device);
        let kind = Kind::Managed(Box::new(Managed::new(bytes.div_ceil(PAGE), attach)));
        self.allocate(machine, bytes, device, charge, kind)
    }

    /// `cudaMalloc`.
    pub(crate) fn allocate_device(
        &mut self,
        machine: &Machine,
        bytes: usize,
        device: usize,
    ) -> Result<usize, Code> {
        let cost = &machine.cost;
        self.now += match bytes {
            ..MIB => cost.device_alloc_small,
            _ => cost.device_alloc + cost.device_alloc_block * blocks_of(bytes),
        };
        self.allocate(machine, bytes, device, Some(device), Kind::Device(device))
    }

    /// Memory of a pool, whose reserve is charged already.
    pub(crate) fn allocate_from_pool(
        &mut self,
        machine: &Machine,
        bytes: usize,
        device: usize,
        pool: usize,
        managed: bool,
    ) -> Result<usize, Code> {
        self.now += machine.cost.pool_alloc;
        let kind = if managed {
            Kind::Managed(Box::new(Managed::new(bytes.div_ceil(PAGE), Attach::Global)))
        } else {
            Kind::Device(device)
        };
        let base = self.allocate(machine, bytes, device, None, kind)?;
        self.allocations
            .entry(base)
            .and_modify(|allocation| allocation.pool = Some(pool));
        Ok(base)
    }

    /// `cudaHostAlloc`.
    pub(crate) fn allocate_pinned(
        &mut self,
        machine: &Machine,
        bytes: usize,
        device: usize,
        flags: u32,
    ) -> Result<usize, Code> {
        self.now += machine.cost.pinned_alloc;
        if bytes > MIB {
            self.now += cuda_um_cost::at_rate(bytes as u64, machine.cost.pin_rate);
        }
        // With unified addressing all pinned memory is mapped, asked for or not.
        self.allocate(machine, bytes, device, None, Kind::Pinned { flags })
    }

    /// Ends an allocation: its memory goes back, and its addresses fault from now on.
    pub(crate) fn release(&mut self, machine: &Machine, base: usize) {
        let Some(count) = self.allocations.get(&base).map(Allocation::page_count) else {
            return;
        };
        self.place(machine, base, 0..count, Page::default());
        let Some(allocation) = self.allocations.remove(&base) else {
            return;
        };
        self.untouched(base, allocation.bytes);
        let pages = base..base + count * PAGE;
        if matches!(allocation.kind, Kind::Pinned { .. }) {
            machine.space.protect(pages.clone(), HostAccess::None);
        }
        machine.space.discard(pages);
        if allocation.charged > 0 {
            self.devices[allocation.device].explicit_bytes -= allocation.charged;
        }
        self.free
            .give(base - machine.space.base(), allocation.reserved);
        self.freed.push_back(Freed {
            range: base..base + allocation.reserved,
        });
        if self.freed.len() > REMEMBERED {
            self.freed.pop_front();
        }
    }

    /// The allocation that holds an address.
    pub(crate) fn holding(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address < allocation.end()).then_some(allocation)
    }

    /// Checks a pointer to be freed: it must be an allocation's base.
    pub(crate) fn freeable(&mut self, address: usize) -> Result<&mut Allocation, Code> {
        let known = self
            .allocations
            .get(&address)
            .is_some_and(|allocation| allocation.freeing.is_none());
        if !known {
            self.report_bad_free(address);
            return Err(Code::INVALID_VALUE);
        }
        self.allocations
            .get_mut(&address)
            .ok_or(Code::INVALID_VALUE)
    }

    /// In a poisoned context nothing is freed, and so nothing tells a second free of the same memory: it is remembered here.
    ///
    /// # Errors
    /// The poison.
    pub(crate) fn refuse_if_poisoned(&mut self, address: usize) -> Result<(), Code> {
        let Some(poison) = self.poison else {
            return Ok(());
        };
        if address != 0 && self.freeable(address).is_ok() && !self.refused_frees.insert(address) {
            self.misuse.push(Misuse::DoubleFree { address });
        }
        Err(poison)
    }

    fn report_bad_free(&mut self, address: usize) {
        let freed = self.freed.iter().any(|freed| freed.range.start == address)
            || self.allocations.contains_key(&address);
        self.misuse.push(if freed {
            Misuse::DoubleFree { address }
        } else {
            Misuse::InvalidFree { address }
        });
    }

    /// Whether an address belonged to an allocation that was freed and not handed out again.
    pub(crate) fn was_freed(&self, address: usize) -> bool {
        self.freed
            .iter()
            .any(|freed| freed.range.contains(&address))
            && self.holding(address).is_none()
    }

    /// Checks that `bytes` bytes at `address` lie inside one allocation, or outside all of them.
    pub(crate) fn find(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
    ) -> Result<Span, Code> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let outside = |memory| Span {
            memory,
            address,
            view: address,
            bytes,
            allocation: None,
        };
        if !machine.space.contains(address) {
            let registered = self.registered.range(..=address).next_back();
            let pinned =
                registered.is_some_and(|(start, registered)| end <= start + registered.bytes);
            return Ok(outside(if pinned {
                Memory::Pinned
            } else {
                Memory::Pageable
            }));
        }
        let Some(allocation) = self
            .holding(address)
            .filter(|allocation| end <= allocation.end())
        else {
            if self.was_freed(address) {
                self.misuse.push(Misuse::UseAfterFree { address });
            }
            return Err(Code::INVALID_VALUE);
        };
        let memory = match allocation.kind {
            Kind::Managed(_) => Memory::Managed(allocation.base),
            Kind::Device(ordinal) => Memory::Device(ordinal),
            Kind::Pinned { .. } => Memory::Pinned,
        };
        Ok(Span {
            memory,
            address,
            view: machine.space.device_address(address),
            bytes,
            allocation: Some(allocation.id),
        })
    }

    /// The managed allocation and pages of a range, where all of it is managed.
    pub(crate) fn managed_range(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
    ) -> Result<(usize, Range<usize>), Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let place = self.find(machine, address, bytes)?;
        let Memory::Managed(base) = place.memory else {
            return Err(Code::INVALID_VALUE);
        };
        Ok((base, self.pages_of(base, &place)))
    }

    /// The pages that hold a place in the allocation at `base`.
    pub(crate) fn pages_of(&self, base: usize, place: &Span) -> Range<usize> {
        match self.allocations.get(&base) {
            Some(allocation) if place.bytes > 0 => {
                allocation.pages(&(place.address..place.address + place.bytes))
            }
            _ => 0..0,
        }
    }

    /// Bytes of managed pages of a range that are on a device, on the host, and nowhere.
    pub(crate) fn spread(&self, base: usize, pages: &Range<usize>) -> Spread {
        let mut spread = Spread::default();
        let Some((managed, _)) = self.managed(base) else {
            return spread;
        };
        for (run, page) in managed.pages.overlapping(pages) {
            let bytes = ((run.end.min(pages.end) - run.start.max(pages.start)) * PAGE) as u64;
            match page.resident.device_first() {
                None => spread.nowhere += bytes,
                Some(HOST) => spread.host += bytes,
                Some(_) => spread.device += bytes,
            }
        }
        spread
    }

    /// Populates pages that nobody touched yet.
    pub(crate) fn populate(
        &mut self,
        machine: &Machine,
        processor: Processor,
        base: usize,
        pages: &Range<usize>,
    ) {
        for (_, part) in blocks(pages.clone()) {
            let Some((managed, _)) = self.managed(base) else {
                return;
            };
            for (run, page, _) in managed.runs(&part) {
                if page.resident.is_empty() {
                    self.bring(
                        machine,
                        processor,
                        base,
                        run,
                        page,
                        false,
                        &mut Moved::default(),
                    );
                }
            }
        }
    }

    /// Ends the duplicates of pages that something other than their processors wrote.
    pub(crate) fn collapse(&mut self, machine: &Machine, base: usize, pages: &Range<usize>) {
        let Some((managed, _)) = self.managed(base) else {
            return;
        };
        for (run, page, advice) in managed.runs(pages) {
            if page.resident.len() > 1 {
                let preferred = advice
                    .preferred
                    .map(|place| place.processor())
                    .filter(|place| page.resident.contains(*place));
                let Some(keep) = preferred.or(page.resident.device_first()) else {
                    continue;
                };
                self.counters.collapses += run.len() as u64;
                let resident = Processors::only(keep);
                self.place(
                    machine,
                    base,
                    run,
                    Page {
                        resident,
                        mapped: Processors::NONE,
                    },
                );
            }
        }
    }
}

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub(crate) device: u64,
    pub(crate) host: u64,
    pub(crate) nowhere: u64,
}
