//! Temporaries in stream order, on two streams.

use super::{Raw, THREADS};
use anyhow::{Context, Result, ensure};
use cuda_um::sys;
use cuda_um_testkit::call;
use cuda_um_testkit::call::{Place, Shape};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use sys::{Table, cudaMemAllocationType, cudaMemcpyKind};

/// A kernel that multiplies `count` elements in place.
pub const SCALE_IN_PLACE: &str = include_str!("../scale_in_place.ptx");
const STREAMS: usize = 2;

/// Slots for device memory; even slots belong to the first stream, odd ones to the second. A pointer is null, or allocated in the
/// order of the slot's stream, which all work on it uses.
pub struct Temporaries {
    /// The streams, and the kernel's module.
    streams: [Rc<Raw>; STREAMS],
    scale: sys::CUfunction,
    pool: sys::cudaMemPool_t,
    slots: Vec<(*mut c_void, usize)>,
}

impl Temporaries {
    /// Makes empty slots. The memory comes from the device's default pool, or from an own pool that keeps freed memory.
    pub fn open(table: &Arc<Table>, slots: usize, keeps: bool) -> Result<Self> {
        let open = || Raw::open_with(table, true, SCALE_IN_PLACE, c"scale_in_place_f32");
        let streams = [open()?, open()?];
        let pool = match keeps {
            true => keeping_pool(table, cudaMemAllocationType::cudaMemAllocationTypePinned)?,
            false => null_mut(),
        };
        Ok(Self {
            scale: streams[0].scale,
            streams,
            pool,
            slots: vec![(null_mut(), 0); slots],
        })
    }

    fn raw(&self, slot: usize) -> &Raw {
        &self.streams[slot % STREAMS]
    }

    /// `cudaMallocAsync`, or `cudaMallocFromPoolAsync`, of elements with undefined contents.
    pub fn allocate(&mut self, slot: usize, len: usize) -> Result<()> {
        ensure!(self.slots[slot].0.is_null(), "the slot is in use");
        let (raw, bytes) = (self.raw(slot), len * size_of::<f32>());
        let (table, stream, mut pointer) = (&raw.table, raw.stream, null_mut());
        let pool = self.pool;
        match pool.is_null() {
            true => cuda!(table, cudaMallocAsync(&mut pointer, bytes, stream)),
            false => cuda!(
                table,
                cudaMallocFromPoolAsync(&mut pointer, bytes, pool, stream)
            ),
        }?;
        self.slots[slot] = (pointer, len);
        Ok(())
    }

    /// `cudaMemcpyAsync` of a slice of ordinary memory, which CUDA has read when it returns.
    pub fn copy_from_slice(&mut self, slot: usize, source: &[f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null() && source.len() <= len, "too long");
        let (raw, from) = (self.raw(slot), source.as_ptr().cast());
        let direction = cudaMemcpyKind::cudaMemcpyHostToDevice;
        // Both are valid for this number of bytes. CUDA stages pageable memory before it returns.
        cuda!(
            raw.table,
            cudaMemcpyAsync(pointer, from, size_of_val(source), direction, raw.stream)
        )
    }

    /// `cudaMemcpyAsync` of the first elements to a slice, and the wait for the slot's stream.
    pub fn copy_to_slice(&self, slot: usize, target: &mut [f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null() && target.len() <= len, "too long");
        let (raw, bytes) = (self.raw(slot), size_of_val(target));
        raw.copy_and_wait(target.as_mut_ptr().cast(), pointer, bytes)
    }

    /// Enqueues `data = data × factor` with `cuLaunchKernel`.
    pub fn scale(&self, slot: usize, factor: f32) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null(), "the slot is empty");
        let (raw, count) = (self.raw(slot), len as u64);
        let blocks = u32::try_from(len.div_ceil(THREADS).max(1))?;
        let arguments = [
            (&raw const pointer).cast(),
            (&raw const factor).cast(),
            (&raw const count).cast(),
        ];
        let driver = raw.table.driver()?;
        // The arguments are those of scale_in_place.ptx, which touches `count` elements of live memory.
        let shape = Shape::of(blocks, THREADS as u32);
        let code = call::launch(driver, self.scale, shape, raw.stream, arguments);
        ensure!(code.0 == 0, "cuLaunchKernel: {}", code.0);
        Ok(())
    }

    /// `cudaFreeAsync`.
    pub fn free(&mut self, slot: usize) -> Result<()> {
        let (pointer, _) = std::mem::replace(&mut self.slots[slot], (null_mut(), 0));
        let raw = self.raw(slot);
        // The memory lives, and only this stream uses it.
        cuda!(raw.table, cudaFreeAsync(pointer, raw.stream))
    }

    /// Waits for the device.
    pub fn wait_for_all(&self) -> Result<()> {
        self.streams[0].wait_for_all()
    }
}

/// A pool of device memory, or of managed memory, that keeps all freed memory for later allocations.
pub(super) fn keeping_pool(
    table: &Table,
    kind: cudaMemAllocationType,
) -> Result<sys::cudaMemPool_t> {
    let properties = sys::cudaMemPoolProps {
        allocType: kind,
        location: Place::device(0).to_sys(),
        ..Default::default()
    };
    let (mut pool, mut keep) = (null_mut(), u64::MAX);
    let threshold = sys::cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
    cuda!(table, cudaMemPoolCreate(&mut pool, &properties))?;
    let keep = (&raw mut keep).cast();
    cuda!(table, cudaMemPoolSetAttribute(pool, threshold, keep)).context("a new pool")?;
    Ok(pool)
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        for slot in 0..self.slots.len() {
            if !self.slots[slot].0.is_null()
                && let Err(error) = self.free(slot)
            {
                eprintln!("um_bench: {error}");
            }
        }
        if !self.pool.is_null() {
            call!(self.streams[0].table, cudaMemPoolDestroy(self.pool));
        }
    }
}
