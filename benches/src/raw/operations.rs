//! Copies, prefetches and launches.

use super::memory::{Kind, Memory};
use super::{Raw, THREADS};
use anyhow::{Result, ensure};
use cuda_um::sys::cudaMemcpyKind as Direction;
use cuda_um_testkit::call::{At, Calls, Place, Shape};
use std::ffi::c_void;

impl Raw {
    /// `cudaMemcpy` from memory of the program. Small copies may still be in flight when it returns; later work on a blocking
    /// stream is ordered after them.
    pub fn copy_from_slice(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        let direction = match target.kind {
            Kind::Device => Direction::cudaMemcpyHostToDevice,
            _ => Direction::cudaMemcpyDefault,
        };
        let (to, from, bytes) = (target.pointer, source.as_ptr(), size_of_val(source));
        // Both are valid for this number of bytes, and the target is borrowed exclusively.
        Ok(self.table.memcpy(to, from, bytes, direction.0)?)
    }

    /// `cudaMemcpy` to memory of the program, after all work of the stream.
    pub fn copy_to_slice(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        let direction = match source.kind {
            Kind::Device => Direction::cudaMemcpyDeviceToHost,
            _ => Direction::cudaMemcpyDefault,
        };
        let (to, bytes) = (target.as_mut_ptr(), size_of_val(target));
        // Both are valid for this number of bytes, and the target is borrowed exclusively.
        Ok(self.table.memcpy(to, source.pointer, bytes, direction.0)?)
    }

    /// `cudaMemcpyAsync` from memory of the program, and the wait for the stream.
    pub fn copy_from_slice_and_wait(&self, target: &mut Memory, source: &[f32]) -> Result<()> {
        ensure!(target.len == source.len(), "lengths differ");
        self.copy_and_wait(target.pointer, source.as_ptr(), size_of_val(source))
    }

    /// `cudaMemcpyAsync` to memory of the program, and the wait for the stream.
    pub fn copy_to_slice_and_wait(&self, source: &Memory, target: &mut [f32]) -> Result<()> {
        ensure!(source.len == target.len(), "lengths differ");
        self.copy_and_wait(target.as_mut_ptr(), source.pointer, size_of_val(target))
    }

    /// Both must be valid for this number of bytes.
    pub(super) fn copy_and_wait(&self, to: impl At, from: impl At, bytes: usize) -> Result<()> {
        let direction = Direction::cudaMemcpyDefault.0;
        self.busy.set(true);
        // The stream is waited for, also after an error.
        let copied = self
            .table
            .memcpy_async(to, from, bytes, direction, self.stream);
        self.synchronize()?;
        Ok(copied?)
    }

    /// `cudaMemcpyAsync` between two kinds of CUDA memory.
    pub fn copy(&self, source: &Memory, target: &mut Memory) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let (to, from, bytes) = (target.pointer, source.pointer, source.bytes());
        let direction = Direction::cudaMemcpyDefault.0;
        self.busy.set(true);
        // Both are valid for this number of bytes; the host does not access them until it has waited for the stream.
        Ok(self
            .table
            .memcpy_async(to, from, bytes, direction, self.stream)?)
    }

    /// `cudaMemcpyPeerAsync` from memory of device 0 to memory of another device.
    pub fn copy_to_peer(&self, source: &Memory, target: &mut Memory, device: i32) -> Result<()> {
        ensure!(source.len == target.len, "lengths differ");
        let (to, from, bytes) = (target.pointer, source.pointer, source.bytes());
        self.busy.set(true);
        // As for `copy`.
        Ok(self
            .table
            .memcpy_peer_async(to, device, from, 0, bytes, self.stream)?)
    }

    /// `cudaMemPrefetchAsync` of managed memory to the device, or to the host.
    pub fn prefetch(&self, memory: &Memory, to_device: bool) -> Result<()> {
        ensure!(memory.kind == Kind::Managed, "only for managed memory");
        self.busy.set(true);
        let to = match to_device {
            true => Place::device(0),
            false => Place::HOST,
        };
        Ok(self.table.prefetch_range(memory.range(), to, self.stream)?)
    }

    /// True if the runtime has `cudaMemPrefetchBatchAsync`: from CUDA 13.0 on.
    pub fn has_prefetch_batch(&self) -> bool {
        self.table.cudaMemPrefetchBatchAsync.is_some()
    }

    /// `cudaMemPrefetchBatchAsync` of managed memories to the device.
    pub fn prefetch_batch(&self, memories: &[Memory]) -> Result<()> {
        let managed = memories.iter().all(|one| one.kind == Kind::Managed);
        ensure!(managed, "only for managed memory");
        let mut starts: Vec<*mut c_void> = memories.iter().map(|one| one.pointer.cast()).collect();
        let mut sizes: Vec<usize> = memories.iter().map(Memory::bytes).collect();
        // The location applies to all ranges from the first on.
        let (places, from) = (&mut [Place::device(0).to_sys()], &mut [0]);
        self.busy.set(true);
        let (table, stream) = (&self.table, self.stream);
        Ok(table.prefetch_of(&mut starts, &mut sizes, places, from, 0, stream)?)
    }

    /// Enqueues `output = input × factor` with `cuLaunchKernel`.
    pub fn scale(&self, input: &Memory, output: &mut Memory, factor: f32) -> Result<()> {
        ensure!(input.len == output.len, "lengths differ");
        let (count, blocks) = (input.len as u64, input.len.div_ceil(THREADS));
        let blocks = blocks.clamp(1, self.most_blocks.max(1)) as u32;
        let arguments = [
            (&raw const input.pointer).cast(),
            (&raw const output.pointer).cast(),
            (&raw const factor).cast(),
            (&raw const count).cast(),
        ];
        self.busy.set(true);
        // The arguments are those of kernels/cuda/scale.cu, which touches `count` elements of each. The host does not access them
        // until it has waited for the stream.
        let shape = Shape::of(blocks, THREADS as u32);
        Ok(self
            .table
            .launch(self.scale, shape, self.stream, arguments)?)
    }

    /// Waits for the stream.
    pub fn synchronize(&self) -> Result<()> {
        self.table.stream_synchronize(self.stream)?;
        self.busy.set(false);
        Ok(())
    }

    /// Waits for all streams: a non-blocking stream does not wait for the default stream, which `cudaMemcpy` uses.
    pub fn wait_for_all(&self) -> Result<()> {
        self.table.synchronize()?;
        self.busy.set(false);
        Ok(())
    }
}
