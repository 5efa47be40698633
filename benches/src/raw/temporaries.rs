//! Temporaries in stream order, on two streams.
#![allow(unsafe_code, reason = "calls raw CUDA")]

use super::{Raw, THREADS, check};
use anyhow::{Context, Result, ensure};
use cuda_um::sys;
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
    ///
    /// # Errors
    /// CUDA reports an error.
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
    ///
    /// # Errors
    /// CUDA reports an error, or the slot is in use.
    pub fn allocate(&mut self, slot: usize, len: usize) -> Result<()> {
        ensure!(self.slots[slot].0.is_null(), "the slot is in use");
        let (raw, bytes) = (self.raw(slot), len * size_of::<f32>());
        let (table, stream, mut pointer) = (&raw.table, raw.stream, null_mut());
        // SAFETY: the place is valid for the call; the pool lives.
        let code = unsafe {
            match self.pool.is_null() {
                true => (table.cudaMallocAsync)(&mut pointer, bytes, stream),
                false => (table.cudaMallocFromPoolAsync)(&mut pointer, bytes, self.pool, stream),
            }
        };
        check(table, "cudaMallocAsync", code)?;
        self.slots[slot] = (pointer, len);
        Ok(())
    }

    /// `cudaMemcpyAsync` of a slice of ordinary memory, which CUDA has read when it returns.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_from_slice(&mut self, slot: usize, source: &[f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null() && source.len() <= len, "too long");
        let (raw, from) = (self.raw(slot), source.as_ptr().cast());
        let direction = cudaMemcpyKind::cudaMemcpyHostToDevice;
        // SAFETY: both are valid for this number of bytes. CUDA stages pageable memory before it returns.
        let code = unsafe {
            (raw.table.cudaMemcpyAsync)(pointer, from, size_of_val(source), direction, raw.stream)
        };
        check(&raw.table, "cudaMemcpyAsync", code)
    }

    /// `cudaMemcpyAsync` of the first elements to a slice, and the wait for the slot's stream.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_to_slice(&self, slot: usize, target: &mut [f32]) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null() && target.len() <= len, "too long");
        let (raw, bytes) = (self.raw(slot), size_of_val(target));
        // SAFETY: both are valid for this number of bytes until the stream has been waited for.
        unsafe { raw.copy_and_wait(target.as_mut_ptr().cast(), pointer, bytes) }
    }

    /// Enqueues `data = data × factor` with `cuLaunchKernel`.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn scale(&self, slot: usize, factor: f32) -> Result<()> {
        let (pointer, len) = self.slots[slot];
        ensure!(!pointer.is_null(), "the slot is empty");
        let (raw, count) = (self.raw(slot), len as u64);
        let blocks = u32::try_from(len.div_ceil(THREADS).max(1))?;
        let mut arguments: [*mut c_void; 3] = [
            (&raw const pointer).cast_mut().cast(),
            (&raw const factor).cast_mut().cast(),
            (&raw const count).cast_mut().cast(),
        ];
        let driver = raw.table.driver()?;
        // SAFETY: the arguments are those of scale_in_place.ptx, which touches `count` elements of live memory.
        let code = unsafe {
            (driver.cuLaunchKernel)(
                self.scale,
                blocks,
                1,
                1,
                THREADS as u32,
                1,
                1,
                0,
                raw.stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        ensure!(code.0 == 0, "cuLaunchKernel: {}", code.0);
        Ok(())
    }

    /// `cudaFreeAsync`.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn free(&mut self, slot: usize) -> Result<()> {
        let (pointer, _) = std::mem::replace(&mut self.slots[slot], (null_mut(), 0));
        let raw = self.raw(slot);
        // SAFETY: the memory lives, and only this stream uses it.
        let code = unsafe { (raw.table.cudaFreeAsync)(pointer, raw.stream) };
        check(&raw.table, "cudaFreeAsync", code)
    }

    /// Waits for the device.
    ///
    /// # Errors
    /// CUDA reports an error.
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
        location: sys::cudaMemLocation {
            type_: sys::cudaMemLocationType::cudaMemLocationTypeDevice,
            id: 0,
        },
        ..Default::default()
    };
    let (mut pool, mut keep) = (null_mut(), u64::MAX);
    let threshold = sys::cudaMemPoolAttr::cudaMemPoolAttrReleaseThreshold;
    // SAFETY: the places are valid for the calls; the attribute has 64 bits.
    unsafe {
        let code = (table.cudaMemPoolCreate)(&mut pool, &properties);
        check(table, "cudaMemPoolCreate", code)?;
        let code = (table.cudaMemPoolSetAttribute)(pool, threshold, (&raw mut keep).cast());
        check(table, "cudaMemPoolSetAttribute", code).context("a new pool")?;
    }
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
            // SAFETY: created by `open`; all its memory is freed in stream order.
            unsafe { (self.streams[0].table.cudaMemPoolDestroy)(self.pool) };
        }
    }
}
