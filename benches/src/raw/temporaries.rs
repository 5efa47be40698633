//! Temporaries in stream order, on two streams.

use super::{Raw, THREADS};
use anyhow::{Context, Result, ensure};
use cuda_um::sys::{self, Table, cudaMemAllocationType, cudaMemcpyKind};
use cuda_um_testkit::call::{Calls, Place, Shape};
use std::rc::Rc;
use std::sync::Arc;

/// A kernel that multiplies `count` elements in place.
pub const SCALE_IN_PLACE: &str = include_str!("../scale_in_place.ptx");
const STREAMS: usize = 2;

/// Slots for device memory; even slots belong to the first stream, odd ones to the second. An address is 0, or allocated in the
/// order of the slot's stream, which all work on it uses.
pub struct Temporaries {
    /// The streams, and the kernel's module.
    streams: [Rc<Raw>; STREAMS],
    scale: usize,
    /// 0 for the device's default pool.
    pool: usize,
    slots: Vec<(usize, usize)>,
}

impl Temporaries {
    /// Makes empty slots. The memory comes from the device's default pool, or from an own pool that keeps freed memory.
    pub fn open(table: &Arc<Table>, slots: usize, keeps: bool) -> Result<Self> {
        let open = || Raw::open_with(table, true, SCALE_IN_PLACE, c"scale_in_place_f32");
        let streams = [open()?, open()?];
        let pool = match keeps {
            true => keeping_pool(table, cudaMemAllocationType::cudaMemAllocationTypePinned)?,
            false => 0,
        };
        Ok(Self {
            scale: streams[0].scale,
            streams,
            pool,
            slots: vec![(0, 0); slots],
        })
    }

    fn raw(&self, slot: usize) -> &Raw {
        &self.streams[slot % STREAMS]
    }

    /// `cudaMallocAsync`, or `cudaMallocFromPoolAsync`, of elements with undefined contents.
    pub fn allocate(&mut self, slot: usize, len: usize) -> Result<()> {
        ensure!(self.slots[slot].0 == 0, "the slot is in use");
        let (raw, bytes) = (self.raw(slot), len * size_of::<f32>());
        let pointer = match self.pool {
            0 => raw.table.malloc_in_order(bytes, raw.stream),
            pool => raw.table.malloc_of_pool(bytes, pool, raw.stream),
        }?;
        self.slots[slot] = (pointer, len);
        Ok(())
    }

    /// `cudaMemcpyAsync` of a slice of ordinary memory, which CUDA has read when it returns.
    pub fn copy_from_slice(&mut self, slot: usize, source: &[f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(pointer != 0 && source.len() <= len, "too long");
        let (raw, from, bytes) = (self.raw(slot), source.as_ptr(), size_of_val(source));
        let direction = cudaMemcpyKind::cudaMemcpyHostToDevice.0;
        // Both are valid for this number of bytes. CUDA stages pageable memory before it returns.
        let table = &raw.table;
        Ok(table.memcpy_async(pointer, from, bytes, direction, raw.stream)?)
    }

    /// `cudaMemcpyAsync` of the first elements to a slice, and the wait for the slot's stream.
    pub fn copy_to_slice(&self, slot: usize, target: &mut [f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(pointer != 0 && target.len() <= len, "too long");
        let (raw, bytes) = (self.raw(slot), size_of_val(target));
        raw.copy_and_wait(target.as_mut_ptr(), pointer, bytes)
    }

    /// Enqueues `data = data × factor` with `cuLaunchKernel`.
    pub fn scale(&self, slot: usize, factor: f32) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(pointer != 0, "the slot is empty");
        let (raw, count) = (self.raw(slot), len as u64);
        let blocks = u32::try_from(len.div_ceil(THREADS).max(1))?;
        let arguments = [
            (&raw const pointer).cast(),
            (&raw const factor).cast(),
            (&raw const count).cast(),
        ];
        // The arguments are those of scale_in_place.ptx, which touches `count` elements of live memory.
        let shape = Shape::of(blocks, THREADS as u32);
        Ok(raw.table.launch(self.scale, shape, raw.stream, arguments)?)
    }

    /// `cudaFreeAsync`.
    pub fn free(&mut self, slot: usize) -> Result<()> {
        let (pointer, _) = std::mem::take(&mut self.slots[slot]);
        let raw = self.raw(slot);
        // The memory lives, and only this stream uses it.
        Ok(raw.table.free_async(pointer, raw.stream)?)
    }

    /// Waits for the device.
    pub fn wait_for_all(&self) -> Result<()> {
        self.streams[0].wait_for_all()
    }
}

/// A pool of device memory, or of managed memory, that keeps all freed memory for later allocations.
pub(super) fn keeping_pool(table: &Table, kind: cudaMemAllocationType) -> Result<usize> {
    let properties = sys::cudaMemPoolProps {
        allocType: kind,
        location: Place::device(0).to_sys(),
        ..Default::default()
    };
    let pool = table.pool_create(&properties)?;
    let threshold = sys::cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
    let kept = table.pool_set(pool, threshold, u64::MAX);
    kept.context("a new pool")?;
    Ok(pool)
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].0 != 0
                && let Err(error) = self.free(slot)
            {
                eprintln!("um_bench: {error}");
            }
        }
        if self.pool != 0 {
            let _ = self.streams[0].table.pool_destroy(self.pool);
        }
    }
}
