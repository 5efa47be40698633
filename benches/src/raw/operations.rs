//! Copies, prefetches and launches.

use super::memory::{Kind, Memory};
use super::{Raw, THREADS, check};
use anyhow::{Result, bail, ensure};
use cuda_um::sys;
use std::ffi::c_void;
use std::ptr::null_mut;
use sys::cudaMemcpyKind;

impl Raw {
    /// `cudaMemcpy` from memory of the program. Small copies may still be in flight when it returns; later work on a blocking
    /// stream is ordered after them.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_from_slice(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        let direction = match target.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyHostToDevice,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(source);
        // SAFETY: both are valid for this number of bytes, and the target is borrowed exclusively.
        let code = unsafe {
            (self.table.cudaMemcpy)(
                target.pointer.cast(),
                source.as_ptr().cast(),
                bytes,
                direction,
            )
        };
        check(&self.table, "cudaMemcpy", code)
    }

    /// `cudaMemcpy` to memory of the program, after all work of the stream.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_to_slice(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let direction = match source.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyDeviceToHost,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(target);
        // SAFETY: both are valid for this number of bytes, and the target is borrowed exclusively.
        let code = unsafe {
            (self.table.cudaMemcpy)(
                target.as_mut_ptr().cast(),
                source.pointer.cast(),
                bytes,
                direction,
            )
        };
        check(&self.table, "cudaMemcpy", code)
    }

    /// `cudaMemcpyAsync` from memory of the program, and the wait for the stream.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_from_slice_and_wait(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        // SAFETY: both are valid for this number of bytes until the wait; the target is borrowed exclusively.
        unsafe {
            self.copy_and_wait(
                target.pointer.cast(),
                source.as_ptr().cast(),
                size_of_val(source),
            )
        }
    }

    /// `cudaMemcpyAsync` to memory of the program, and the wait for the stream.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy_to_slice_and_wait(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let (start, bytes) = (target.as_mut_ptr().cast(), size_of_val(target));
        // SAFETY: both are valid for this number of bytes until the wait; the target is borrowed exclusively.
        unsafe { self.copy_and_wait(start, source.pointer.cast(), bytes) }
    }

    /// # Safety
    /// Both are valid for this number of bytes.
    pub(super) unsafe fn copy_and_wait(
        &self,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
    ) -> Result<()> {
        let direction = cudaMemcpyKind::cudaMemcpyDefault;
        self.busy.set(true);
        // SAFETY: guaranteed by the caller. The stream is waited for, also after an error.
        let code =
            unsafe { (self.table.cudaMemcpyAsync)(target, source, bytes, direction, self.stream) };
        let waited = self.synchronize();
        check(&self.table, "cudaMemcpyAsync", code)?;
        waited
    }

    /// `cudaMemcpyAsync` between two kinds of CUDA memory.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn copy(&self, source: &Memory, target: &mut Memory) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let bytes = source.len * size_of::<f32>();
        self.busy.set(true);
        // SAFETY: both are valid for this number of bytes; the host does not access them until it has waited for the stream.
        let code = unsafe {
            (self.table.cudaMemcpyAsync)(
                target.pointer.cast(),
                source.pointer.cast(),
                bytes,
                cudaMemcpyKind::cudaMemcpyDefault,
                self.stream,
            )
        };
        check(&self.table, "cudaMemcpyAsync", code)
    }

    /// `cudaMemPrefetchAsync` of managed memory to the device, or to the host.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn prefetch(&self, memory: &Memory, to_device: bool) -> Result<()> {
        use sys::cudaMemLocationType as Type;
        ensure!(
            memory.kind == Kind::Managed,
            "only managed memory can be prefetched"
        );
        let (start, bytes) = (memory.pointer.cast(), memory.len * size_of::<f32>());
        self.busy.set(true);
        // SAFETY: the range is one live managed allocation.
        let code = unsafe {
            if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v13 {
                let type_ = match to_device {
                    true => Type::cudaMemLocationTypeDevice,
                    false => Type::cudaMemLocationTypeHost,
                };
                prefetch(
                    start,
                    bytes,
                    sys::cudaMemLocation { type_, id: 0 },
                    0,
                    self.stream,
                )
            } else if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v11 {
                let ordinal = if to_device { 0 } else { sys::cudaCpuDeviceId };
                prefetch(start, bytes, ordinal, self.stream)
            } else {
                bail!("this runtime has no cudaMemPrefetchAsync");
            }
        };
        check(&self.table, "cudaMemPrefetchAsync", code)
    }

    /// True if the runtime has `cudaMemPrefetchBatchAsync`: from CUDA 13.0 on.
    pub fn has_prefetch_batch(&self) -> bool {
        self.table.cudaMemPrefetchBatchAsync.is_some()
    }

    /// `cudaMemPrefetchBatchAsync` of managed memories to the device.
    ///
    /// # Errors
    /// CUDA reports an error, or the runtime is too old.
    pub fn prefetch_batch(&self, memories: &[Memory]) -> Result<()> {
        let Some(prefetch) = self.table.cudaMemPrefetchBatchAsync else {
            bail!("this runtime has no cudaMemPrefetchBatchAsync");
        };
        let managed = memories.iter().all(|one| one.kind == Kind::Managed);
        ensure!(managed, "only managed memory can be prefetched");
        let mut starts: Vec<*mut c_void> = memories.iter().map(|one| one.pointer.cast()).collect();
        let mut sizes: Vec<usize> = memories
            .iter()
            .map(|one| one.len * size_of::<f32>())
            .collect();
        let mut place = sys::cudaMemLocation {
            type_: sys::cudaMemLocationType::cudaMemLocationTypeDevice,
            id: 0,
        };
        let mut first = 0; // the location applies to all ranges from the first on
        self.busy.set(true);
        // SAFETY: every range is one live managed allocation, and the arrays have the stated lengths.
        let code = unsafe {
            prefetch(
                starts.as_mut_ptr(),
                sizes.as_mut_ptr(),
                starts.len(),
                &mut place,
                &mut first,
                1,
                0,
                self.stream,
            )
        };
        check(&self.table, "cudaMemPrefetchBatchAsync", code)
    }

    /// Enqueues `output = input × factor` with `cuLaunchKernel`.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn scale(&self, input: &Memory, output: &mut Memory, factor: f32) -> Result<()> {
        ensure!(input.len == output.len, "lengths differ");
        let count = input.len as u64;
        let blocks = input
            .len
            .div_ceil(THREADS)
            .clamp(1, self.most_blocks.max(1)) as u32;
        let mut arguments: [*mut c_void; 4] = [
            (&raw const input.pointer).cast_mut().cast(),
            (&raw const output.pointer).cast_mut().cast(),
            (&raw const factor).cast_mut().cast(),
            (&raw const count).cast_mut().cast(),
        ];
        let driver = self.table.driver()?;
        self.busy.set(true);
        // SAFETY: the arguments are those of kernels/cuda/scale.cu, which touches `count` elements of each. The device can use
        // all three kinds of memory at these addresses, and the host does not access them until it has waited for the stream.
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
                self.stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        ensure!(code.0 == 0, "cuLaunchKernel: {}", code.0);
        Ok(())
    }

    /// Waits for the stream.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives.
        let code = unsafe { (self.table.cudaStreamSynchronize)(self.stream) };
        check(&self.table, "cudaStreamSynchronize", code)?;
        self.busy.set(false);
        Ok(())
    }

    /// Waits for all streams: a non-blocking stream does not wait for the default stream, which `cudaMemcpy` uses.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn wait_for_all(&self) -> Result<()> {
        // SAFETY: no preconditions.
        let code = unsafe { (self.table.cudaDeviceSynchronize)() };
        check(&self.table, "cudaDeviceSynchronize", code)?;
        self.busy.set(false);
        Ok(())
    }
}
