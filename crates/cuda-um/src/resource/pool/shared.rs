//! The state that all handles and buffers of a pool share: free blocks by size, and the growth of the pool.

use crate::context::device::Device;
use crate::context::reclaim::Which;
use crate::error::{Error, Result};
use crate::fork;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::Upstream;
use crate::resource::owner::Traits;
use crate::resource::pool::advised::AdvisedRanges;
use crate::resource::pool::class::{CHUNK, Classes};
use crate::resource::pool::free_block::FreeBlock;
use crate::resource::pool::heap::{Heap, addresses};
use crate::resource::pool::shard::{SHARDS, Shards};
use crate::resource::pool::{PoolOptions, PoolStats};
use crate::sync::{Mutex, shard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The order of the locks is `growing`, `heap`, a shard, advice. `growing` is held while CUDA allocates or frees. No lock is held during a
/// wait.
pub(super) struct Shared {
    upstream: Box<dyn Upstream>,
    pub(super) traits: Traits,
    options: PoolOptions,
    classes: Classes,
    shards: Shards<FreeBlock>,
    heap: Mutex<Heap>,
    growing: Mutex<()>,
    pub(super) advised: AdvisedRanges,
    /// Live bytes, and the spare bytes of the shards.
    // Relaxed, as the peak: counts for statistics, on which no access of memory depends.
    charged_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    /// Counts how often pages of small blocks may have left the device. They share pages of 2 MiB with others, which the driver may have moved
    /// as well.
    // Relaxed: the block passes through a lock from the buffer that left to the next owner. A departure of a neighbour at the same time has no
    // order with a prefetch of this block anyway, and a wrong guess costs a page fault.
    departures: AtomicU64,
}

/// Returns true for blocks that share pages of 2 MiB with others.
fn has_neighbours(bytes: usize) -> bool {
    bytes < CHUNK
}

/// A block for a new buffer.
pub(super) struct Taken {
    pub(super) block: FreeBlock,
    pub(super) bytes: usize,
    /// The block's class; `None` for a dedicated slab.
    pub(super) class: Option<u16>,
}

/// The spare bytes of a shard above which they are discharged.
const MOST_SPARE: usize = 1 << 20;

impl Shared {
    pub(super) fn new(upstream: Box<dyn Upstream>, options: PoolOptions) -> Self {
        let Traits { device, kind, .. } = upstream.traits();
        let name = match kind {
            MemoryKind::Managed => "pooled managed",
            MemoryKind::Pinned => "pooled pinned",
            _ => "pooled device",
        };
        let classes = Classes::new(options.slab_bytes);
        Self {
            traits: Traits::of(device, *kind, name),
            upstream,
            options,
            shards: Shards::new(classes.count()),
            classes,
            heap: Mutex::default(),
            growing: Mutex::default(),
            advised: AdvisedRanges::default(),
            charged_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            departures: AtomicU64::new(0),
        }
    }

    pub(super) fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Takes a block of at least `bytes`, which is not 0, with the uses of its former owners.
    pub(super) fn take(&self, device: &Device, shard: usize, bytes: usize) -> Result<Taken> {
        let mut taken = match self.classes.of(bytes) {
            Some(class) => Taken {
                block: self.take_class(device, shard, class)?,
                bytes: self.classes.size(class),
                // There are at most a few hundred classes.
                class: Some(class as u16),
            },
            None => self.take_dedicated(device, bytes)?,
        };
        let neighbours_left =
            has_neighbours(taken.bytes) && taken.block.departures != self.departures();
        match self.undo_advice(&taken.block, taken.bytes) {
            // CUDA may move pages when advice is undone.
            Ok(undone) => taken.block.is_away |= undone || neighbours_left,
            Err(error) => {
                self.give(shard, taken.block, taken.class, taken.bytes);
                return Err(error);
            }
        }
        Ok(taken)
    }

    pub(super) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Relaxed)
    }

    /// Counts that pages of a block may have left the device.
    pub(super) fn left_device(&self, bytes: usize) {
        if has_neighbours(bytes) {
            self.departures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes a block back.
    pub(super) fn give(&self, shard: usize, block: FreeBlock, class: Option<u16>, size: usize) {
        self.advised.retire(block.at()..block.at() + size);
        let Some(class) = class else {
            self.charged_bytes.fetch_sub(size, Ordering::Relaxed);
            let keep = self.options.keep_bytes.unwrap_or(usize::MAX);
            let excess = self.heap.lock().give_dedicated(size, block, keep);
            self.let_go(excess);
            return;
        };
        let mut shard = self.shards.lock(shard);
        shard.live_buffers -= 1;
        shard.live_bytes -= size as isize;
        shard.spare_bytes += size;
        if shard.spare_bytes > MOST_SPARE {
            let spare = std::mem::take(&mut shard.spare_bytes);
            self.charged_bytes.fetch_sub(spare, Ordering::Relaxed);
        }
        shard.free[usize::from(class)].push(block);
    }

    fn charge(&self, bytes: usize) {
        let charged = self.charged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(charged, Ordering::Relaxed);
    }

    fn take_class(&self, device: &Device, shard: usize, class: usize) -> Result<FreeBlock> {
        let size = self.classes.size(class);
        let mut own = self.shards.lock(shard);
        let block = match own.free[class].pop() {
            Some(block) => block,
            None => {
                drop(own);
                let block = self.refill(device, shard, class)?;
                own = self.shards.lock(shard);
                block
            }
        };
        own.live_buffers += 1;
        own.live_bytes += size as isize;
        match own.spare_bytes.checked_sub(size) {
            Some(rest) => own.spare_bytes = rest,
            None => self.charge(size - std::mem::take(&mut own.spare_bytes)),
        }
        Ok(block)
    }

    /// A block from another thread's shard, or from a slab.
    fn refill(&self, device: &Device, shard: usize, class: usize) -> Result<FreeBlock> {
        if let Some(block) = self.split(shard, class) {
            return Ok(block);
        }
        let needed = self.classes.run(class).bytes.next_multiple_of(CHUNK);
        self.grow(
            device,
            (self.options.slab_bytes, needed),
            || self.split(shard, class),
            |slab| {
                self.heap.lock().add(slab);
                self.split(shard, class)
            },
        )
    }

    /// Takes a free block, or splits blocks off an existing slab.
    fn split(&self, shard: usize, class: usize) -> Option<FreeBlock> {
        let (run, size) = (self.classes.run(class), self.classes.size(class));
        let mut heap = self.heap.lock();
        if let Some(block) = self.shards.steal(&mut heap, shard, class) {
            return Some(block);
        }
        let split = heap.split(run).or_else(|| {
            self.coalesce(&mut heap, shard);
            heap.split(run)
        })?;
        // Later calls take from the end of the list, so the blocks are used in the order of their addresses.
        let rest = (1..run.count).rev().map(|index| split.block(index, size));
        self.shards.lock(shard).free[class].extend(rest);
        Some(split.block(0, size))
    }

    /// Coalesces runs whose blocks are all free, so that they can be split into other sizes.
    fn coalesce(&self, heap: &mut Heap, into: usize) {
        for class in 0..self.classes.count() {
            let free = self.shards.take_all(heap, class);
            if !free.is_empty() {
                let mut rest = heap.coalesce(free);
                self.shards.lock(into).free[class].append(&mut rest);
            }
        }
    }

    /// Takes a dedicated slab, for a buffer larger than half a slab.
    fn take_dedicated(&self, device: &Device, bytes: usize) -> Result<Taken> {
        let size = bytes.next_multiple_of(CHUNK);
        let free = self.heap.lock().take_dedicated(size);
        let (size, block) = match free {
            Some(found) => found,
            None => self.grow(
                device,
                (size, size),
                || self.heap.lock().take_dedicated(size),
                |slab| Some((slab.bytes(), self.heap.lock().add_dedicated(slab))),
            )?,
        };
        self.charge(size);
        Ok(Taken {
            block,
            bytes: size,
            class: None,
        })
    }

    /// Returns the result of `find`, called again while no other thread can grow the pool. Otherwise adds a slab and returns the result of
    /// `add`. The slab has `wanted` bytes or, if there is no headroom for them, fewer.
    fn grow<R>(
        &self,
        device: &Device,
        (wanted, needed): (usize, usize),
        find: impl Fn() -> Option<R>,
        add: impl Fn(Allocation) -> Option<R>,
    ) -> Result<R> {
        self.traits.device.reclaim.keep_budget();
        let (mut has_trimmed, mut was_refused) = (false, false);
        loop {
            let growing = self.growing.lock();
            // Another thread may have grown the pool meanwhile.
            if let Some(found) = find() {
                return Ok(found);
            }
            let room = self.room();
            if has_trimmed && room < needed {
                return Err(crate::resource::pool::beyond_limit(
                    self.traits.kind.call(),
                    self.traits.kind.name(),
                    &self.traits.device,
                    &self.options,
                    (needed, room),
                ));
            }
            if has_trimmed || room >= wanted {
                let most = if was_refused { needed } else { wanted };
                match self.slab(most.min(room / CHUNK * CHUNK)) {
                    Err(Error::OutOfMemory { .. }) if !was_refused => was_refused = true,
                    slab => match add(slab?) {
                        Some(found) => return Ok(found),
                        // Other threads have taken all of the new slab.
                        None => continue,
                    },
                }
            }
            has_trimmed = true;
            self.free_empty();
            drop(growing);
            if was_refused {
                device.trim_pools();
            }
            // Wait until memory that was dropped in use is free. Meanwhile other threads may use the pool.
            self.traits.device.reclaim.flush(Which::Own);
        }
    }

    /// The headroom below the limit, in bytes.
    fn room(&self) -> usize {
        match self.options.limit_bytes {
            Some(limit) => limit.saturating_sub(self.heap.lock().reserved_bytes),
            None => usize::MAX,
        }
    }

    /// Allocates a new slab. Must be called while `growing` is held.
    fn slab(&self, bytes: usize) -> Result<Allocation> {
        let mut slab = self.upstream.try_allocate(bytes)?;
        slab.set_label(Label::slab());
        Ok(slab)
    }

    /// Frees the slabs of which no buffer has a part: now, or when their work is done. Returns their size in bytes.
    pub(super) fn trim(&self) -> usize {
        // Otherwise a thread that needs a slab meanwhile would be refused memory that is about to be freed.
        let _growing = self.growing.lock();
        self.free_empty()
    }

    /// `trim`, while `growing` is held.
    fn free_empty(&self) -> usize {
        let empty = {
            let mut heap = self.heap.lock();
            self.coalesce(&mut heap, shard::own::<SHARDS>());
            heap.take_empty()
        };
        // A slab is dropped as a buffer: it is never freed in use, and the drop does not wait.
        self.let_go(empty)
    }

    fn let_go(&self, slabs: Vec<Allocation>) -> usize {
        let mut bytes = 0;
        for slab in &slabs {
            let range = addresses(slab);
            self.advised.forget(&range);
            bytes += slab.bytes();
        }
        drop(slabs);
        bytes
    }

    fn undo_advice(&self, block: &FreeBlock, size: usize) -> Result<bool> {
        let mut stale = self.advised.take_stale(&(block.at()..block.at() + size));
        let any = !stale.is_empty();
        while let Some(advised) = stale.pop() {
            let undone = block.undo(
                &self.traits.device.api,
                self.traits.device.ordinal,
                &advised,
            );
            if let Err(error) = undone {
                stale.push(advised);
                self.advised.put_back(stale);
                return Err(error);
            }
        }
        Ok(any)
    }

    pub(super) fn stats(&self) -> PoolStats {
        let heap = self.heap.lock();
        let (mut live_buffers, mut live_bytes) =
            (heap.live_dedicated.count, heap.live_dedicated.bytes);
        let mut largest_free_bytes = heap.largest_free();
        // While other threads take and return blocks, the sums may be slightly off.
        let (mut buffers, mut bytes) = (0, 0);
        for shard in self.shards.iter() {
            buffers += shard.live_buffers;
            bytes += shard.live_bytes;
            let largest = shard.free.iter().rposition(|free| !free.is_empty());
            let largest = largest.map_or(0, |class| self.classes.size(class));
            largest_free_bytes = largest_free_bytes.max(largest);
        }
        live_buffers += usize::try_from(buffers).unwrap_or(0);
        live_bytes += usize::try_from(bytes).unwrap_or(0);
        PoolStats {
            live_bytes,
            // What is counted includes bytes that shards returned, so it may be above the limit, which buffers never are.
            peak_bytes: self
                .peak_bytes
                .load(Ordering::Relaxed)
                .min(self.options.limit_bytes.unwrap_or(usize::MAX)),
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
        if fork::is_over() {
            return;
        }
        // No handle and no buffer is live, so every block is free and every slab is empty.
        self.trim();
        // A slab that is not empty has lost a block, which work may still use, so the heap's drop leaks the slab.
    }
}
