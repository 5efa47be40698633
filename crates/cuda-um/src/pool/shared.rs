//! What all handles and buffers of a pool share: free blocks by size, and the way to more.

use super::advised::{self, AdvisedRanges};
use super::block::{FreeBlock, PoolBlock};
use super::class::{CHUNK, Classes};
use super::heap::{Heap, addresses};
use super::{PoolOptions, PoolStats};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::backing::{self, Backing};
use crate::memory::raw::RawBuffer;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Locks are taken in the order `growing`, `heap`, a list, advice; `growing` alone is held while CUDA allocates.
pub(super) struct Shared {
    device: Device,
    options: PoolOptions,
    classes: Classes,
    /// For each class, `SHARDS` lists of free blocks; a thread uses one, and others where that is empty.
    lists: Box<[List]>,
    heap: Mutex<Heap>,
    growing: Mutex<()>,
    pub(super) advised: AdvisedRanges,
    live_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

/// On cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct List(Mutex<Blocks>);

#[derive(Default)]
struct Blocks {
    free: Vec<FreeBlock>,
    /// Taken here less given back here: the sum over the lists of a class is what buffers own.
    live: isize,
}

const SHARDS: usize = 8;

/// The list of each class that this thread uses.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
    // While the thread ends it has none.
    let own = SHARD.try_with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    });
    own.unwrap_or(0)
}

impl Shared {
    pub(super) fn new(device: &Device, options: PoolOptions) -> Self {
        let classes = Classes::new(options.slab_bytes);
        Self {
            device: device.clone(),
            options,
            lists: (0..classes.count() * SHARDS)
                .map(|_| List::default())
                .collect(),
            classes,
            heap: Mutex::default(),
            growing: Mutex::default(),
            advised: AdvisedRanges::default(),
            live_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// A buffer of so many bytes, not 0, with the work that its memory's former owners left.
    pub(super) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<RawBuffer> {
        let class = self.classes.of(bytes);
        let (size, block) = match class {
            Some(class) => (self.classes.size(class), self.take(class)?),
            None => self.take_whole(bytes)?,
        };
        let live = self.live_bytes.fetch_add(size, Ordering::Relaxed) + size;
        if live > self.peak_bytes.load(Ordering::Relaxed) {
            self.peak_bytes.fetch_max(live, Ordering::Relaxed);
        }
        // At most a few hundred classes.
        let class = class.map(|class| class as u16);
        if let Err(error) = self.undo_advice(&block, size) {
            self.give(block, class, size);
            return Err(error);
        }
        let pool = Arc::clone(self);
        let backing = Backing::Pooled(PoolBlock {
            pool,
            class,
            bytes: size,
        });
        let pointer = block.address.0;
        Ok(RawBuffer::after(
            &self.device,
            (pointer, backing),
            Some(pointer),
            bytes,
            block.in_flight,
        ))
    }

    /// Takes a block back.
    pub(super) fn give(&self, block: FreeBlock, class: Option<u16>, size: usize) {
        self.advised.retire(block.at()..block.at() + size);
        self.live_bytes.fetch_sub(size, Ordering::Relaxed);
        let Some(class) = class else {
            self.heap.lock().give_whole(size, block);
            return;
        };
        let mut list = self.list(class.into(), shard()).0.lock();
        list.live -= 1;
        list.free.push(block);
    }

    fn list(&self, class: usize, shard: usize) -> &List {
        &self.lists[class * SHARDS + shard]
    }

    fn take(self: &Arc<Self>, class: usize) -> Result<FreeBlock> {
        let mut list = self.list(class, shard()).0.lock();
        if let Some(block) = list.free.pop() {
            list.live += 1;
            return Ok(block);
        }
        drop(list);
        let block = self.refill(class)?;
        self.list(class, shard()).0.lock().live += 1;
        Ok(block)
    }

    /// A block from another thread's list, or from a slab.
    fn refill(self: &Arc<Self>, class: usize) -> Result<FreeBlock> {
        let found = self.steal(class).or_else(|| self.carve(class));
        if let Some(block) = found {
            return Ok(block);
        }
        let _growing = self.growing.lock();
        loop {
            // Somebody may have grown the pool meanwhile.
            if let Some(block) = self.carve(class) {
                return Ok(block);
            }
            let needed = self.classes.run(class).bytes.next_multiple_of(CHUNK);
            let slab = self.slab(self.options.slab_bytes, needed)?;
            self.heap.lock().add(slab);
        }
    }

    /// Takes a free block, from another thread's list if need be: then half of what that has.
    fn steal(&self, class: usize) -> Option<FreeBlock> {
        let own = shard();
        if let Some(block) = self.list(class, own).0.lock().free.pop() {
            return Some(block);
        }
        let others = (1..SHARDS).map(|step| (own + step) % SHARDS);
        for other in others {
            let mut half = {
                let free = &mut self.list(class, other).0.lock().free;
                free.split_off(free.len() / 2)
            };
            if let Some(block) = half.pop() {
                self.list(class, own).0.lock().free.append(&mut half);
                return Some(block);
            }
        }
        None
    }

    /// Carves blocks out of a slab that is there.
    fn carve(&self, class: usize) -> Option<FreeBlock> {
        let (run, size) = (self.classes.run(class), self.classes.size(class));
        let mut heap = self.heap.lock();
        if let Some(block) = self.steal(class) {
            return Some(block);
        }
        let carved = heap.carve(run).or_else(|| {
            self.uncarve(&mut heap);
            heap.carve(run)
        })?;
        // The next one is taken from the end: in the order of addresses.
        let rest = (1..run.count).rev().map(|index| carved.block(index, size));
        self.list(class, shard()).0.lock().free.extend(rest);
        Some(carved.block(0, size))
    }

    /// Makes blocks of other sizes possible where all blocks of a run are free.
    fn uncarve(&self, heap: &mut Heap) {
        for class in 0..self.classes.count() {
            let mut free = Vec::new();
            for shard in 0..SHARDS {
                free.append(&mut self.list(class, shard).0.lock().free);
            }
            if !free.is_empty() {
                let mut rest = heap.uncarve(free);
                self.list(class, shard()).0.lock().free.append(&mut rest);
            }
        }
    }

    /// A block that is a slab, for what is larger than half of one.
    fn take_whole(self: &Arc<Self>, bytes: usize) -> Result<(usize, FreeBlock)> {
        let size = bytes.next_multiple_of(CHUNK);
        if let Some(found) = self.heap.lock().take_whole(size) {
            return Ok(found);
        }
        let _growing = self.growing.lock();
        let slab = self.slab(size, size)?;
        Ok((size, self.heap.lock().add_whole(slab)))
    }

    /// A new slab: `wanted` bytes, or, where there is no room for them, fewer. To be called while `growing` is held.
    fn slab(self: &Arc<Self>, wanted: usize, needed: usize) -> Result<RawBuffer> {
        let room = || match self.options.limit_bytes {
            Some(limit) => limit.saturating_sub(self.heap.lock().reserved_bytes),
            None => usize::MAX,
        };
        if room() < wanted {
            self.trim_now();
        }
        let (room, limit) = (room(), self.options.limit_bytes.unwrap_or(usize::MAX));
        if room < needed {
            return Err(Error::OutOfMemory {
                call: "cudaMallocManaged",
                subject: format!(
                    "managed memory of a pool on device {}, not allocated: the pool's limit of {limit} bytes (PoolOptions::limit_bytes) \
                     leaves {room} beside the slabs in use",
                    self.device.ordinal()
                ),
                requested_bytes: needed,
                free_bytes: room,
                total_bytes: limit,
            });
        }
        let bytes = wanted.min(room / CHUNK * CHUNK);
        let allocate = |bytes| {
            let memory = backing::managed(&self.device, bytes, self.options.oversubscribes())?;
            let pointer = memory.0;
            Ok(RawBuffer::new(&self.device, memory, Some(pointer), bytes))
        };
        let slab = match allocate(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                self.trim_now();
                allocate(needed)?
            }
            result => result?,
        };
        advised::register(addresses(&slab), self);
        Ok(slab)
    }

    /// Gives back what no buffer uses, and waits until it is free.
    fn trim_now(&self) {
        self.trim();
        let reclaim = &self.device.api().reclaim;
        if reclaim.is_pending() {
            reclaim.flush();
        }
    }

    /// Gives back the slabs that no buffer has any part of: now, or once their work is done. How many bytes they are.
    pub(super) fn trim(&self) -> usize {
        let empty = {
            let mut heap = self.heap.lock();
            self.uncarve(&mut heap);
            heap.take_empty()
        };
        // Dropping a slab is dropping a buffer: it is never freed under work, and nobody waits.
        self.let_go(empty)
    }

    fn let_go(&self, slabs: Vec<RawBuffer>) -> usize {
        let mut bytes = 0;
        for slab in &slabs {
            let range = addresses(slab);
            advised::unregister(&range);
            self.advised.forget(&range);
            bytes += slab.bytes();
        }
        drop(slabs);
        bytes
    }

    fn undo_advice(&self, block: &FreeBlock, size: usize) -> Result<()> {
        let mut stale = self.advised.take_stale(&(block.at()..block.at() + size));
        while let Some(advised) = stale.pop() {
            let undone = block.undo(self.device.api(), self.device.ordinal(), &advised);
            if undone.is_err() {
                stale.push(advised);
                self.advised.put_back(stale);
                return undone;
            }
        }
        Ok(())
    }

    pub(super) fn stats(&self) -> PoolStats {
        let heap = self.heap.lock();
        let (mut live_buffers, mut live_bytes) = (heap.live_whole.count, heap.live_whole.bytes);
        let mut largest_free_bytes = heap.largest_free();
        for class in 0..self.classes.count() {
            let (mut live, mut any_free) = (0, false);
            for shard in 0..SHARDS {
                let list = self.list(class, shard).0.lock();
                live += list.live;
                any_free |= !list.free.is_empty();
            }
            // While other threads take and give, the sum may be off by a few.
            let live = usize::try_from(live).unwrap_or(0);
            live_buffers += live;
            live_bytes += live * self.classes.size(class);
            if any_free {
                largest_free_bytes = largest_free_bytes.max(self.classes.size(class));
            }
        }
        PoolStats {
            live_bytes,
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
            reserved_bytes: heap.reserved_bytes,
            free_bytes: heap.reserved_bytes.saturating_sub(live_bytes),
            live_buffers,
            slabs: heap.slab_count(),
            largest_free_bytes,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No handle and no buffer is left, so every block is free, and every slab empty.
        self.trim();
        // What is not empty now is a slab that lost a block: nobody knows who uses it.
        std::mem::forget(std::mem::take(self.heap.get_mut()));
    }
}
