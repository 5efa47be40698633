//! Stream-ordered memory: `cudaMallocAsync`, and the driver's pool of managed memory.
#![allow(unsafe_code, reason = "calls raw CUDA")]

use super::Raw;
use super::temporaries::keeping_pool;
use anyhow::{Result, ensure};
use cuda_um::sys::{cudaMemAllocationType, cudaMemPool_t, cudaMemcpyKind};
use cuda_um_testkit::call;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

/// A pool of managed memory of the driver, from CUDA 13.0 on, that keeps all freed memory.
pub struct ManagedPool {
    raw: Rc<Raw>,
    pool: cudaMemPool_t,
}

impl ManagedPool {
    /// `cudaMemPoolCreate`.
    pub fn new(raw: &Rc<Raw>) -> Result<Self> {
        let managed = cudaMemAllocationType::cudaMemAllocationTypeManaged;
        let (raw, pool) = (Rc::clone(raw), keeping_pool(&raw.table, managed)?);
        Ok(Self { raw, pool })
    }

    /// `cudaMallocFromPoolAsync` and `cudaFreeAsync`, in stream order.
    pub fn allocate_and_free(&self, bytes: usize) -> Result<()> {
        self.with_memory(bytes, |_| Ok(()))
    }

    /// Writes a number to the end of new memory with the CPU, and returns the number that is read from there.
    pub fn through_memory(&self, bytes: usize, number: f32) -> Result<f32> {
        ensure!(bytes >= size_of::<f32>(), "no room for a number");
        self.with_memory(bytes, |memory| {
            self.raw.synchronize()?;
            // SAFETY: the last four bytes of managed memory, which only the CPU uses.
            unsafe {
                let last = memory.add(bytes - size_of::<f32>()).cast::<f32>();
                last.write_volatile(number);
                Ok(last.read_volatile())
            }
        })
    }

    fn with_memory<R>(&self, bytes: usize, work: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
        let (table, stream, mut pointer) = (&self.raw.table, self.raw.stream, null_mut());
        cuda!(
            table,
            cudaMallocFromPoolAsync(&mut pointer, bytes, self.pool, stream)
        )?;
        let result = work(pointer.cast());
        // Allocated above, and used only by the CPU until now.
        cuda!(table, cudaFreeAsync(pointer, stream))?;
        result
    }
}

impl Drop for ManagedPool {
    fn drop(&mut self) {
        // All its memory is freed in stream order.
        call!(self.raw.table, cudaMemPoolDestroy(self.pool));
    }
}

impl Raw {
    /// `cudaMallocAsync` and `cudaFreeAsync` from the device's default pool, in stream order.
    pub fn allocate_and_free_in_order(&self, bytes: usize) -> Result<()> {
        let mut pointer = null_mut();
        cuda!(
            self.table,
            cudaMallocAsync(&mut pointer, bytes, self.stream)
        )?;
        cuda!(self.table, cudaFreeAsync(pointer, self.stream))
    }

    /// Writes a number to the end of memory from `cudaMallocAsync`, and returns the number that is read from there.
    pub fn through_memory_in_order(&self, bytes: usize, number: f32) -> Result<f32> {
        ensure!(bytes >= size_of::<f32>(), "no room for a number");
        let (table, size) = (&self.table, size_of::<f32>());
        let (mut pointer, mut found) = (null_mut(), f32::NAN);
        // The last four bytes of the new memory, and two numbers that live until the stream has been waited for.
        cuda!(table, cudaMallocAsync(&mut pointer, bytes, self.stream))?;
        let last = pointer.cast::<u8>().wrapping_add(bytes - size);
        let copy = |to: *mut c_void, from: *const c_void| {
            let kind = cudaMemcpyKind::cudaMemcpyDefault;
            cuda!(table, cudaMemcpyAsync(to, from, size, kind, self.stream))
        };
        let copied = copy(last.cast(), (&raw const number).cast())
            .and_then(|()| copy((&raw mut found).cast(), last.cast_const().cast()));
        let freed = cuda!(table, cudaFreeAsync(pointer, self.stream));
        let waited = self.synchronize();
        copied.and(freed).and(waited)?;
        Ok(found)
    }
}
