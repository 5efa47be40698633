//! Reads of groups into memory.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;

use um_backend::CudaError;
use um_backend::cuda_um::buffer::{FileRead, ReadAt, Runs, read_into};
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
        let (mut bytes, mut file_bytes) = (0, 0);
        let base_of = |group: &Group| {
            (bytes, file_bytes) = (bytes + group.bytes, file_bytes + group.file_bytes);
            bytes - group.bytes
        };
        let bases: Vec<usize> = groups.iter().map(base_of).collect();
        let (before, is_stopped) = (*done, Cell::new(false));
        // Buffers have gaps between tensors.
        let mut progress = |position: usize| {
            let part = u128::from(file_bytes) * position as u128 / bytes.max(1) as u128;
            *done = before + part as u64;
            let outcome = match &self.options.progress {
                _ if self.flow.is_stopped() => ControlFlow::Break(()),
                Some(progress) => progress(*done, self.file_bytes),
                None => ControlFlow::Continue(()),
            };
            is_stopped.set(outcome.is_break());
            outcome
        };
        let failed = |at: usize, cause| {
            let number = bases.partition_point(|base| *base <= at).max(1) - 1;
            self.failed(&groups[number], at - bases[number], cause)
        };
        let mut reads = Vec::new();
        for ((group, memory), base) in groups.iter().zip(memory).zip(&bases) {
            let source = &*self.opened.shards[group.shard].source;
            match memory {
                _ if is_stopped.get() => break,
                BufferMemoryMut::Cuda(view) => {
                    let read = FileRead::new(view, source, &group.runs);
                    reads.push(read.map_err(|error| failed(*base, Err(error)))?);
                }
                BufferMemoryMut::Host(bytes) => {
                    let mut round = |at: usize| progress(base + at);
                    read_host(source, &group.runs, bytes, self.options.threads, &mut round)
                        .map_err(|(at, error)| failed(base + at, Ok(error)))?;
                }
                _ => unreachable!("the memory was checked"),
            }
        }
        let read = FileRead::run(&mut reads, self.options.threads, progress);
        read.map_err(|error| match error {
            CudaError::Io {
                done_bytes, source, ..
            } => failed(done_bytes, Ok(source)),
            CudaError::Incomplete { copied_bytes, .. } => failed(copied_bytes, Err(error)),
            error => failed(0, Err(error)),
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

    /// The error of a failure at a position of a group's memory.
    fn failed(&self, group: &Group, position: usize, cause: Result<io::Error, CudaError>) -> Error {
        let (wanted, at) = self.locate(group, position);
        match cause {
            Err(source) => Error::of_cuda(self.name(wanted))(source),
            Ok(source) => self.opened.shards[group.shard].failed(self.name(wanted), at, source),
        }
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
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<(), (usize, io::Error)> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let part = HOST_ROUND / threads.min(cores).min(16);
    let mut at = 0;
    for round in target.chunks_mut(HOST_ROUND) {
        let bytes = round.len();
        let read = |(number, part_of): (usize, &mut [u8])| {
            let start = at + number * part;
            read_into(source, runs, start..start + part_of.len(), part_of)
        };
        let mut parts = round.chunks_mut(part).enumerate();
        let own = parts.next();
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            let own = own.map(read).into_iter();
            let others = others.into_iter().map(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            own.chain(others).collect()
        });
        outcomes.into_iter().collect::<Result<(), _>>()?;
        at += bytes;
        if progress(at).is_break() {
            break;
        }
    }
    Ok(())
}
