//! Copies, prefetches and launches.

use super::memory::{Kind, Memory};
use super::{Raw, THREADS, check};
use anyhow::{Result, bail, ensure};
use cuda_um::sys;
use cuda_um_testkit::call;
use cuda_um_testkit::call::{Place, Shape};
use std::ffi::c_void;
use sys::cudaMemcpyKind;

impl Raw {
    /// `cudaMemcpy` from memory of the program. Small copies may still be in flight when it returns; later work on a blocking
    /// stream is ordered after them.
    pub fn copy_from_slice(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        let direction = match target.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyHostToDevice,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(source);
        // Both are valid for this number of bytes, and the target is borrowed exclusively.
        cuda!(
            self.table,
            cudaMemcpy(
                target.pointer.cast(),
                source.as_ptr().cast(),
                bytes,
                direction
            )
        )
    }

    /// `cudaMemcpy` to memory of the program, after all work of the stream.
    pub fn copy_to_slice(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let direction = match source.kind {
            Kind::Device => cudaMemcpyKind::cudaMemcpyDeviceToHost,
            _ => cudaMemcpyKind::cudaMemcpyDefault,
        };
        let bytes = size_of_val(target);
        // Both are valid for this number of bytes, and the target is borrowed exclusively.
        cuda!(
            self.table,
            cudaMemcpy(
                target.as_mut_ptr().cast(),
                source.pointer.cast(),
                bytes,
                direction
            )
        )
    }

    /// `cudaMemcpyAsync` from memory of the program, and the wait for the stream.
    pub fn copy_from_slice_and_wait(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        self.copy_and_wait(
            target.pointer.cast(),
            source.as_ptr().cast(),
            size_of_val(source),
        )
    }

    /// `cudaMemcpyAsync` to memory of the program, and the wait for the stream.
    pub fn copy_to_slice_and_wait(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let (start, bytes) = (target.as_mut_ptr().cast(), size_of_val(target));
        self.copy_and_wait(start, source.pointer.cast(), bytes)
    }

    /// Both must be valid for this number of bytes.
    pub(super) fn copy_and_wait(
        &self,
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
    ) -> Result<()> {
        let direction = cudaMemcpyKind::cudaMemcpyDefault;
        self.busy.set(true);
        // The stream is waited for, also after an error.
        let copied = cuda!(
            self.table,
            cudaMemcpyAsync(target, source, bytes, direction, self.stream)
        );
        let waited = self.synchronize();
        copied.and(waited)
    }

    /// `cudaMemcpyAsync` between two kinds of CUDA memory.
    pub fn copy(&self, source: &Memory, target: &mut Memory) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let bytes = source.len * size_of::<f32>();
        self.busy.set(true);
        // Both are valid for this number of bytes; the host does not access them until it has waited for the stream.
        cuda!(
            self.table,
            cudaMemcpyAsync(
                target.pointer.cast(),
                source.pointer.cast(),
                bytes,
                cudaMemcpyKind::cudaMemcpyDefault,
                self.stream
            )
        )
    }

    /// `cudaMemcpyPeerAsync` from memory of device 0 to memory of another device.
    pub fn copy_to_peer(&self, source: &Memory, target: &mut Memory, device: i32) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let bytes = source.len * size_of::<f32>();
        self.busy.set(true);
        // As for `copy`.
        cuda!(
            self.table,
            cudaMemcpyPeerAsync(
                target.pointer.cast(),
                device,
                source.pointer.cast(),
                0,
                bytes,
                self.stream
            )
        )
    }

    /// `cudaMemPrefetchAsync` of managed memory to the device, or to the host.
    pub fn prefetch(&self, memory: &Memory, to_device: bool) -> Result<()> {
        ensure!(
            memory.kind == Kind::Managed,
            "only managed memory can be prefetched"
        );
        self.busy.set(true);
        let to = if to_device {
            Place::device(0)
        } else {
            Place::HOST
        };
        let code = call::prefetch(&self.table, memory.range(), to, self.stream);
        check(&self.table, "cudaMemPrefetchAsync", code)
    }

    /// True if the runtime has `cudaMemPrefetchBatchAsync`: from CUDA 13.0 on.
    pub fn has_prefetch_batch(&self) -> bool {
        self.table.cudaMemPrefetchBatchAsync.is_some()
    }

    /// `cudaMemPrefetchBatchAsync` of managed memories to the device.
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
        let mut place = Place::device(0).to_sys();
        let mut first = 0; // the location applies to all ranges from the first on
        self.busy.set(true);
        let (starts_at, sizes_at, count) = (starts.as_mut_ptr(), sizes.as_mut_ptr(), starts.len());
        let stream = self.stream;
        let code = call!(prefetch(
            starts_at, sizes_at, count, &mut place, &mut first, 1, 0, stream
        ));
        check(&self.table, "cudaMemPrefetchBatchAsync", code)
    }

    /// Enqueues `output = input × factor` with `cuLaunchKernel`.
    pub fn scale(&self, input: &Memory, output: &mut Memory, factor: f32) -> Result<()> {
        ensure!(input.len == output.len, "lengths differ");
        let count = input.len as u64;
        let blocks = input
            .len
            .div_ceil(THREADS)
            .clamp(1, self.most_blocks.max(1)) as u32;
        let arguments = [
            (&raw const input.pointer).cast(),
            (&raw const output.pointer).cast(),
            (&raw const factor).cast(),
            (&raw const count).cast(),
        ];
        let driver = self.table.driver()?;
        self.busy.set(true);
        // The arguments are those of kernels/cuda/scale.cu, which touches `count` elements of each. The host does not access them
        // until it has waited for the stream.
        let shape = Shape::of(blocks, THREADS as u32);
        let code = call::launch(driver, self.scale, shape, self.stream, arguments);
        ensure!(code.0 == 0, "cuLaunchKernel: {}", code.0);
        Ok(())
    }

    /// Waits for the stream.
    pub fn synchronize(&self) -> Result<()> {
        cuda!(self.table, cudaStreamSynchronize(self.stream))?;
        self.busy.set(false);
        Ok(())
    }

    /// Waits for all streams: a non-blocking stream does not wait for the default stream, which `cudaMemcpy` uses.
    pub fn wait_for_all(&self) -> Result<()> {
        cuda!(self.table, cudaDeviceSynchronize())?;
        self.busy.set(false);
        Ok(())
    }
}
