//! The state that all handles and buffers of a pool share: free blocks by size, and the growth of the pool.
#![allow(unsafe_code, reason = "undoes advice for its memory")]

use crate::context::device::Device;
use crate::context::reclaim::Which;
use crate::error::{Error, Result};
use crate::fork;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::Traits;
use crate::resource::pool::advised::SharedPages;
use crate::resource::pool::class::{CHUNK, Classes};
use crate::resource::pool::heap::Heap;
use crate::resource::pool::shard::{SHARDS, Shards};
use crate::resource::pool::{PoolOptions, PoolStats, beyond_limit};
use crate::resource::separate::Cuda;
use crate::sync::{Mutex, shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The order of the locks is `growing`, `heap`, a shard, advice. `growing` is held while CUDA allocates or frees. No lock is held during a
/// wait.
pub(super) struct Shared {
    pub(super) upstream: Arc<Cuda>,
    pub(super) traits: Traits,
    pub(super) options: PoolOptions,
    classes: Classes,
    shards: Shards<Box<Block>>,
    heap: Mutex<Heap>,
    growing: Mutex<()>,
    /// Those of the traits.
    pages: Arc<SharedPages>,
    /// Live bytes, and the spare bytes of the shards.
    // Relaxed, as the peak: counts for statistics, on which no access of memory depends.
    charged_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

/// The spare bytes of a shard above which they are discharged.
const MOST_SPARE: usize = 1 << 20;

impl Shared {
    pub(super) fn new(upstream: Arc<Cuda>, options: PoolOptions) -> Self {
        let Traits { device, kind, .. } = &upstream.traits;
        let name = match kind {
            MemoryKind::Managed => "pooled managed",
            MemoryKind::Pinned => "pooled pinned",
            _ => "pooled device",
        };
        let classes = Classes::new(options.slab_bytes);
        let pages = Arc::<SharedPages>::default();
        Self {
            traits: Traits {
                pages: Some(Arc::clone(&pages)),
                ..Traits::of(device, *kind, name)
            },
            pages,
            upstream,
            options,
            shards: Shards::new(classes.count()),
            classes,
            heap: Mutex::default(),
            growing: Mutex::default(),
            charged_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes a block of at least `bytes`, which is not 0, with the uses of its former owners.
    pub(super) fn take(&self, device: &Device, shard: usize, bytes: usize) -> Result<Box<Block>> {
        let mut block = match self.classes.of(bytes) {
            Some(class) => self.take_class(device, shard, class)?,
            None => self.take_dedicated(device, bytes)?,
        };
        block.is_away |= block.bytes < CHUNK && block.departures != self.pages.departures();
        if !self.pages.is_empty() {
            // SAFETY: the advice was for buffers in the block's slab, which is freed only when all its blocks are free.
            match unsafe { self.pages.undo(&self.traits.device, &block) } {
                // CUDA may move pages when advice is undone.
                Ok(undone) => block.is_away |= undone,
                Err(error) => {
                    self.give(shard, block);
                    return Err(error);
                }
            }
        }
        block.bytes = bytes;
        Ok(block)
    }

    /// Takes a block back.
    pub(super) fn give(&self, shard: usize, mut block: Box<Block>) {
        let size = block.reserved_bytes;
        (block.bytes, block.departures) = (size, self.pages.departures());
        self.pages.retire(&block);
        let Some(class) = block.class else {
            self.charged_bytes.fetch_sub(size, Ordering::Relaxed);
            let keep = self.options.keep_bytes.unwrap_or(usize::MAX);
            let excess = self.heap.lock().give_dedicated(block, keep);
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

    fn take_class(&self, device: &Device, shard: usize, class: usize) -> Result<Box<Block>> {
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
    fn refill(&self, device: &Device, shard: usize, class: usize) -> Result<Box<Block>> {
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
    fn split(&self, shard: usize, class: usize) -> Option<Box<Block>> {
        let (run, size) = (self.classes.run(class), self.classes.size(class));
        let mut heap = self.heap.lock();
        if let Some(block) = self.shards.steal(&mut heap, shard, class) {
            return Some(block);
        }
        let split = heap.split(run).or_else(|| {
            self.coalesce(&mut heap, shard);
            heap.split(run)
        })?;
        // There are at most a few hundred classes.
        let block = |index| split.part(index * size, size, Some(class as u16));
        // Later calls take from the end of the list, so the blocks are used in the order of their addresses.
        let rest = (1..run.count).rev().map(block);
        self.shards.lock(shard).free[class].extend(rest);
        Some(block(0))
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
    fn take_dedicated(&self, device: &Device, bytes: usize) -> Result<Box<Block>> {
        let size = bytes.next_multiple_of(CHUNK);
        let find = || self.heap.lock().take_dedicated(size);
        let free = find();
        let free = free.map_or_else(
            || {
                self.grow(device, (size, size), find, |slab| {
                    Some(self.heap.lock().add_dedicated(slab))
                })
            },
            Ok,
        )?;
        self.charge(free.bytes);
        Ok(free)
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
                let (call, asked) = (self.traits.kind.call(), (needed, room));
                return Err(beyond_limit(call, &self.traits, &self.options, asked));
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
            let _ = self.traits.device.reclaim.flush(Which::Own);
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
            self.pages.forget(&slab.addresses());
            bytes += slab.bytes();
        }
        drop(slabs);
        bytes
    }

    pub(super) fn stats(&self) -> PoolStats {
        let heap = self.heap.lock();
        let (mut live_buffers, mut live_bytes) = heap.live_dedicated();
        // While other threads take and return blocks, the sums may be slightly off.
        let (mut buffers, mut bytes) = (0, 0);
        for shard in self.shards.iter() {
            buffers += shard.live_buffers;
            bytes += shard.live_bytes;
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
