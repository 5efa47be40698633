//! Reads of groups into memory.

use std::cell::Cell;
use std::ops::ControlFlow;

use um_backend::CudaError;
use um_backend::cuda_um::buffer::{FileRead, ReadAt, Runs, read_into};
use um_backend::cuda_um::together;
use um_backend::memory::BufferMemoryMut;

use crate::error::{Error, Result};
use crate::plan::{Group, Plan};

/// The bytes of host memory that are read between two calls of the callback.
const HOST_ROUND: usize = 64 << 20;

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
        let failed = |error: CudaError| {
            let at = match error {
                CudaError::Io { done_bytes, .. } => done_bytes,
                CudaError::Incomplete { copied_bytes, .. } => copied_bytes,
                _ => 0,
            };
            let number = ends.partition_point(|end| *end <= at).min(groups.len() - 1);
            let group = &groups[number];
            let (wanted, offset) = self.locate(group, at + group.bytes - ends[number]);
            let name = self.name(wanted);
            match error {
                CudaError::Io { source, .. } => {
                    self.opened.shards[group.shard].failed(name, offset, source)
                }
                error => Error::of_cuda(name)(error),
            }
        };
        let (mut reads, threads) = (Vec::new(), self.options.threads);
        for ((group, memory), end) in groups.iter().zip(memory).zip(&ends) {
            let source = &*self.opened.shards[group.shard].source;
            match memory {
                _ if is_stopped.get() => break,
                BufferMemoryMut::Cuda(view) => {
                    reads.push(FileRead::new(view, source, &group.runs).map_err(failed)?);
                }
                BufferMemoryMut::Host(bytes) => {
                    let place = (bytes, end - group.bytes);
                    read_host(source, &group.runs, place, threads, &mut progress)
                        .map_err(failed)?;
                }
                _ => unreachable!("the memory was checked"),
            }
        }
        FileRead::run(&mut reads, threads, progress).map_err(failed)?;
        if is_stopped.get() && *done < self.file_bytes {
            return Err(Error::Stopped {
                done_bytes: *done,
                total_bytes: self.file_bytes,
            });
        }
        *done = before + file_bytes;
        Ok(())
    }
}

/// Reads into memory of the host, on several threads. Places in it are counted from `first`.
fn read_host(
    source: &dyn ReadAt,
    runs: &[Runs],
    (target, first): (&mut [u8], usize),
    threads: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<(), CudaError> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let part = HOST_ROUND / threads.min(cores).min(16);
    let (mut end, total_bytes) = (0, target.len());
    for round in target.chunks_mut(HOST_ROUND) {
        let parts = (end..).step_by(part);
        end += round.len();
        let parts = parts.zip(round.chunks_mut(part)).collect();
        let read = |(at, into): (usize, &mut [u8])| {
            let read = read_into(source, runs, at..at + into.len(), into);
            read.map_err(|(at, source)| CudaError::Io {
                call: "read_at",
                done_bytes: first + at,
                total_bytes,
                source,
            })
        };
        together(parts, read)
            .into_iter()
            .collect::<Result<(), _>>()?;
        if progress(first + end).is_break() {
            break;
        }
    }
    Ok(())
}
