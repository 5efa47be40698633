//! Reads of groups into memory.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;

use um_backend::CudaError;
use um_backend::cuda_um::buffer::{FileRead, ReadAt, Runs, read_into};
use um_backend::cuda_um::together;
use um_backend::memory::BufferMemoryMut;

use crate::error::{Error, Result};
use crate::plan::{Group, Plan};

/// The bytes of host memory that are read between two calls of the callback.
const HOST_ROUND: usize = 64 << 20;

/// Why a read failed.
enum Cause {
    Storage(io::Error),
    Cuda(CudaError),
}

impl Plan {
    /// Reads the bytes of groups into their memory: all of the host, or all of one device. `done` counts the bytes of the load.
    pub(crate) fn read(
        &self,
        groups: &[Group],
        memory: Vec<BufferMemoryMut<'_, u8>>,
        done: &mut u64,
    ) -> Result<()> {
        let ends = groups.iter().scan(0, |end, group| {
            *end += group.bytes;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let bytes = ends.last().copied().unwrap_or(0);
        let file_bytes: u64 = groups.iter().map(|group| group.file_bytes).sum();
        let (before, is_stopped) = (*done, Cell::new(false));
        // Buffers have gaps between tensors.
        let mut progress = |position: usize| {
            let part = u128::from(file_bytes) * position as u128 / bytes.max(1) as u128;
            *done = before + part as u64;
            let outcome = match self.flow.is_stopped() {
                true => ControlFlow::Break(()),
                false => (self.options.progress)(*done, self.file_bytes),
            };
            is_stopped.set(outcome.is_break());
            outcome
        };
        let failed = |(at, cause): (usize, Cause)| {
            let number = ends.partition_point(|end| *end <= at).min(groups.len() - 1);
            let group = &groups[number];
            let (wanted, offset) = self.locate(group, at + group.bytes - ends[number]);
            match cause {
                Cause::Cuda(source) => Error::of_cuda(self.name(wanted))(source),
                Cause::Storage(source) => {
                    self.opened.shards[group.shard].failed(self.name(wanted), offset, source)
                }
            }
        };
        let mut reads = Vec::new();
        for ((group, memory), end) in groups.iter().zip(memory).zip(&ends) {
            let source = &*self.opened.shards[group.shard].source;
            let start = end - group.bytes;
            match memory {
                _ if is_stopped.get() => break,
                BufferMemoryMut::Cuda(view) => {
                    let read = FileRead::new(view, source, &group.runs);
                    reads.push(read.map_err(|error| failed((start, Cause::Cuda(error))))?);
                }
                BufferMemoryMut::Host(bytes) => {
                    let round = |at: usize| progress(start + at);
                    read_host(source, &group.runs, bytes, self.options.threads, round)
                        .map_err(|(at, cause)| failed((start + at, cause)))?;
                }
                _ => unreachable!("the memory was checked"),
            }
        }
        let read = FileRead::run(&mut reads, self.options.threads, progress);
        read.map_err(|error| match error {
            CudaError::Io {
                done_bytes, source, ..
            } => failed((done_bytes, Cause::Storage(source))),
            CudaError::Incomplete { copied_bytes, .. } => {
                failed((copied_bytes, Cause::Cuda(error)))
            }
            error => failed((0, Cause::Cuda(error))),
        })?;
        if is_stopped.get() && *done < self.file_bytes {
            return Err(Error::Stopped {
                done_bytes: *done,
                total_bytes: self.file_bytes,
            });
        }
        *done = before + file_bytes;
        if self.options.drop_page_cache {
            groups.iter().for_each(|group| self.drop_pages(group));
        }
        Ok(())
    }

    /// A hint: its failure costs memory of the system's cache.
    fn drop_pages(&self, group: &Group) {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.opened.shards[group.shard].file
            && let (Some(first), Some(last)) = (group.runs.first(), group.runs.last())
        {
            let end = last.offset + (last.count as u64 - 1) * last.stride + last.bytes as u64;
            let length = std::num::NonZeroU64::new(end - first.offset);
            let _ = rustix::fs::fadvise(file, first.offset, length, rustix::fs::Advice::DontNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = group;
    }
}

/// Reads into memory of the host, on several threads. Returns the first failure and its position.
fn read_host(
    source: &dyn ReadAt,
    runs: &[Runs],
    target: &mut [u8],
    threads: usize,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<(), (usize, Cause)> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let part = HOST_ROUND / threads.min(cores).min(16);
    let mut end = 0;
    for round in target.chunks_mut(HOST_ROUND) {
        let start = end;
        end += round.len();
        let parts = (start..).step_by(part).zip(round.chunks_mut(part));
        let read =
            |(at, into): (usize, &mut [u8])| Ok(read_into(source, runs, at..at + into.len(), into));
        for outcome in together(parts.collect(), read) {
            let read = outcome.map_err(|error| (start, Cause::Cuda(error)))?;
            read.map_err(|(at, error)| (at, Cause::Storage(error)))?;
        }
        if progress(end).is_break() {
            break;
        }
    }
    Ok(())
}
