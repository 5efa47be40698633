//! Stream-ordered memory: `cudaMallocAsync`, and the driver's pool of managed memory.
#![allow(unsafe_code, reason = "calls raw CUDA")]

use super::Raw;
use super::temporaries::keeping_pool;
use anyhow::{Result, ensure};
use cuda_um::sys::{cudaMemAllocationType, cudaMemcpyKind};
use cuda_um_testkit::call::Calls;
use std::rc::Rc;

/// A pool of managed memory of the driver, from CUDA 13.0 on, that keeps all freed memory.
pub struct ManagedPool {
    raw: Rc<Raw>,
    pool: usize,
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
        let (table, stream) = (&self.raw.table, self.raw.stream);
        let address = table.malloc_of_pool(bytes, self.pool, stream)?;
        let result = work(address as *mut u8);
        // Allocated above, and used only by the CPU until now.
        table.free_async(address, stream)?;
        result
    }
}

impl Drop for ManagedPool {
    fn drop(&mut self) {
        // All its memory is freed in stream order.
        let _ = self.raw.table.pool_destroy(self.pool);
    }
}

impl Raw {
    /// `cudaMallocAsync` and `cudaFreeAsync` from the device's default pool, in stream order.
    pub fn allocate_and_free_in_order(&self, bytes: usize) -> Result<()> {
        let address = self.table.malloc_in_order(bytes, self.stream)?;
        Ok(self.table.free_async(address, self.stream)?)
    }

    /// Writes a number to the end of memory from `cudaMallocAsync`, and returns the number that is read from there.
    pub fn through_memory_in_order(&self, bytes: usize, number: f32) -> Result<f32> {
        ensure!(bytes >= size_of::<f32>(), "no room for a number");
        let (table, size, mut found) = (&self.table, size_of::<f32>(), f32::NAN);
        let (stream, kind) = (self.stream, cudaMemcpyKind::cudaMemcpyDefault.0);
        // The last four bytes of the new memory, and two numbers that live until the stream has been waited for.
        let address = table.malloc_in_order(bytes, stream)?;
        let last = address + bytes - size;
        let copied = table
            .memcpy_async(last, &raw const number, size, kind, stream)
            .and_then(|()| table.memcpy_async(&raw mut found, last, size, kind, stream));
        let freed = table.free_async(address, stream);
        self.synchronize()?;
        copied.and(freed)?;
        Ok(found)
    }
}
