//! Accesses of memory by kernels.
#![allow(unsafe_code, reason = "vouches for the memory that kernels get")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use cuda_um_ptx::{Memory as KernelMemory, Refusal, Region, Touch};
use cuda_um_sys::locks::Mutex;

use super::core::Core;
use super::kernel_launch::Launch;
use super::managed::{Attach, BLOCK_PAGES, Processor, SYSTEM, common};
use super::memory::{Memory, READ_ONLY};
use super::state::State;
use super::system_memory;
use super::thread_sanitizer::device_touches;
use crate::engine::address_space::PAGE;
use crate::misuse::Misuse;

/// The memory of a running kernel.
pub(super) struct Accesses<'c> {
    core: &'c Core,
    launch: Launch,
    touched: Mutex<Touched>,
}

#[derive(Default)]
struct Touched {
    /// Regions whose pages are counted, by their number.
    regions: BTreeMap<u64, Counted>,
    /// Allocations, by their first address, and the id of each.
    used: BTreeMap<usize, usize>,
    /// What is written of them; they may be freed while the kernel runs.
    written: Vec<Arc<[AtomicU8]>>,
}

/// A region whose pages are counted.
struct Counted {
    memory: Memory,
    /// The address of page 0.
    base: usize,
    /// The pages of the region.
    all: Range<usize>,
    /// Of system memory, the blocks that were asked about, and their pages that did not exist then.
    asked: BTreeSet<usize>,
    fresh: BTreeSet<usize>,
    /// The pages that were touched; whether they are read, and whether they are written.
    pages: BTreeMap<usize, [bool; 2]>,
}

/// What the accesses to counted pages cost.
#[derive(Default)]
pub(super) struct Touches {
    /// Time for faults, and for bytes of other devices.
    pub(super) time: Duration,
    /// Bytes that were read and written over the link to the host.
    pub(super) remote_bytes: [u64; 2],
    /// Bytes that were not in the memory of the kernel's device.
    pub(super) elsewhere: u64,
}

impl<'c> Accesses<'c> {
    pub(super) fn new(core: &'c Core, launch: Launch) -> Accesses<'c> {
        Accesses {
            core,
            launch,
            touched: Mutex::default(),
        }
    }

    /// The page faults of the touches: threads of a GPU raise them at the same time, so the driver serves those of a block together.
    pub(super) fn serve(self, state: &mut State) -> Touches {
        let (launch, touched) = (self.launch, self.touched.into_inner());
        let mut sum = Touches::default();
        let mut counted: Vec<_> = touched.regions.into_values().collect();
        counted.sort_by_key(|counted| counted.base);
        let id_of = |state: &State, base| Some(state.memory.get(base)?.id);
        for Counted {
            memory,
            base,
            pages,
            ..
        } in counted
        {
            // A page that is read and written counts in both directions.
            let share = |way: usize| {
                let those = pages.values().filter(|ways| ways[way]);
                those.count() as f64 / pages.len().max(1) as f64
            };
            let (read, written) = (share(0), share(1));
            let all = (pages.len() * PAGE) as f64;
            let (remote, peer) = match memory {
                Memory::Pinned => (all, 0.0),
                Memory::Device(owner) => {
                    let bytes = all * (read + written);
                    sum.time += state.devices.peer_time(owner, launch.device, bytes as u64);
                    (0.0, all)
                }
                // The memory may have been freed meanwhile.
                Memory::Managed(base) if id_of(state, base) != touched.used.get(&base).copied() => {
                    continue;
                }
                Memory::Managed(_) | Memory::Pageable => {
                    state.records.activity.now = launch.now + sum.time;
                    let processor = Processor::device(launch.device);
                    let price = state.uvm().touch_all(processor, base, &runs(pages));
                    sum.time += price.time;
                    (price.remote_bytes as f64, price.peer_bytes as f64)
                }
            };
            sum.remote_bytes[0] += (remote * read) as u64;
            sum.remote_bytes[1] += (remote * written) as u64;
            sum.elsewhere += ((remote + peer) * (read + written)) as u64;
        }
        sum
    }
}

// SAFETY: a region is an allocation or a registration that is live (and, if the program frees it meanwhile, whose device view stays
// mapped), or memory of the program that is mapped, for which the launch vouches as on a GPU; views
// below are what the simulator itself reads and writes, never through references while kernels run.
unsafe impl KernelMemory for Accesses<'_> {
    fn region(&self, address: u64) -> Result<Region, Refusal> {
        let address = address as usize;
        let mut state = self.core.state.lock();
        state.region(self.launch, address, &mut self.touched.lock())
    }

    fn touch(&self, touch: Touch) {
        device_touches(touch.address as usize, 1, touch.write);
        let mut touched = self.touched.lock();
        let Some(counted) = touched.regions.get_mut(&touch.region) else {
            return;
        };
        let page = (touch.page as usize - counted.base) / PAGE;
        counted.pages.entry(page).or_default()[usize::from(touch.write)] = true;
        if counted.memory == Memory::Pageable && counted.is_fresh(page) {
            drop(touched);
            let pages = page..page + 1;
            self.core.state.lock().uvm().forget(SYSTEM, pages);
        }
    }

    fn set_conditional(&self, handle: u64, value: u32) -> bool {
        self.core.state.lock().graphs.set_condition(handle, value)
    }
}

impl Counted {
    /// Whether a page of system memory does not exist yet, so that the kernel, its first user, populates it. The system may make all pages of a
    /// block exist at the first touch of one.
    fn is_fresh(&mut self, page: usize) -> bool {
        let block = page / BLOCK_PAGES;
        if self.asked.insert(block) {
            let pages = common(&self.all, &(block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES));
            system_memory::ask(&pages, |part, exists| {
                if !exists {
                    self.fresh.extend(part);
                }
            });
        }
        self.fresh.remove(&page)
    }
}

/// Neighbouring pages with equal access.
fn runs(pages: BTreeMap<usize, [bool; 2]>) -> Vec<(Range<usize>, bool)> {
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    for (page, [_, write]) in pages {
        match runs.last_mut() {
            Some((run, same)) if run.end == page && *same == write => run.end += 1,
            _ => runs.push((page..page + 1, write)),
        }
    }
    runs
}

/// The error of an access that is not allowed.
fn denied(why: impl Into<String>) -> Refusal {
    Refusal::Denied(why.into())
}

impl State {
    /// The memory that holds an address, for a kernel; the error says why it may not use it.
    fn region(
        &mut self,
        launch: Launch,
        address: usize,
        touched: &mut Touched,
    ) -> Result<Region, Refusal> {
        let Ok(span) = self.memory.find(address, 1) else {
            return Err(match self.memory.was_freed(address) {
                true => Refusal::Freed("it was freed".into()),
                false => Refusal::Unmapped("it is in no allocation".into()),
            });
        };
        // A kernel that was enqueued before the free may run while the free waits for its turn.
        let holding = self.memory.holding(address);
        let freeing = holding.and_then(|allocation| allocation.freeing);
        let written = holding.and_then(|allocation| allocation.written.clone());
        if freeing.is_some_and(|freeing| freeing < launch.number) {
            self.misuse.report(Misuse::UseAfterFree { address });
        }
        let is_local = match span.memory {
            Memory::Device(owner) => {
                self.check_device_access(launch.device, owner, address)?;
                owner == launch.device
            }
            Memory::Pinned => self.machine.one_memory(),
            Memory::Managed(base) => {
                self.check_attachment(launch.stream, base)?;
                false
            }
            Memory::Pageable => false,
        };
        let (range, writable) = match self.memory.extent(address) {
            None => self.system_extent(launch, address)?,
            Some(extent) => {
                let registered = self.memory.registered.holding(address);
                let read_only = registered.is_some_and(|(_, at)| at.flags & READ_ONLY != 0);
                let id = span.allocation.unwrap_or(0);
                if touched.used.insert(extent.start, id).is_none() {
                    self.memory
                        .add_use(launch.number, extent.start, extent.len());
                }
                (extent, !(read_only && span.memory == Memory::Pinned))
            }
        };
        let id = range.start as u64;
        if !is_local {
            let base = match span.memory {
                Memory::Pageable => SYSTEM,
                _ => range.start / PAGE * PAGE,
            };
            touched.regions.entry(id).or_insert(Counted {
                memory: span.memory,
                base,
                all: range.start / PAGE..range.end.div_ceil(PAGE),
                asked: BTreeSet::new(),
                fresh: BTreeSet::new(),
                pages: BTreeMap::new(),
            });
        }
        Ok(Region {
            base: range.start as u64,
            bytes: range.len() as u64,
            host: (span.view - (address - range.start)) as *mut u8,
            id,
            writable,
            page_bytes: if is_local { 0 } else { PAGE as u64 },
            written: written.map_or(std::ptr::null_mut(), |bits| {
                let first = bits.as_ptr().cast_mut().cast();
                touched.written.push(bits);
                first
            }),
        })
    }

    /// The memory of the program that holds an address, as far as it is mapped with one protection and none of it is registered; and
    /// whether it can be written.
    fn system_extent(
        &mut self,
        launch: Launch,
        address: usize,
    ) -> Result<(Range<usize>, bool), Refusal> {
        if !self.machine.profile.pageable_memory_access {
            return Err(denied(self.machine.no_pageable_access(Some(launch.device))));
        }
        let Some((mapped, writable)) = system_memory::mapping(address) else {
            return Err(Refusal::Unmapped("it is not mapped".into()));
        };
        let (mut start, mut end) = (mapped.start, mapped.end);
        for (base, registered) in self.memory.registered.iter() {
            match base > address {
                true => end = end.min(base),
                false => start = start.max(base + registered.bytes),
            }
        }
        Ok((start..end, writable))
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
            false => Err(denied(
                "it is the memory of another device, and peer access is not enabled",
            )),
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
            return Err(denied("it is attached to the host or to another stream"));
        }
        Ok(())
    }
}
