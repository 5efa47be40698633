//! The way of the bytes from the files to buffers.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use um_backend::cuda_um::buffer::{FileRead, ReadAt, Runs, read_into};
use um_backend::cuda_um::{Placement, UnifiedBuffer, UnifiedOptions};
use um_backend::memory::BufferMemoryMut;
use um_backend::{
    BufferKind, CudaBackend, CudaError, DType, Device, ErasedBuffer, Location, SharedBuffer, Stream,
};

use crate::each::Flow;
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::options::LoadOptions;
use crate::plan::{Group, Plan, Wanted};
use crate::tensor::Tensor;
use crate::weights::Opened;

/// The bytes of host memory that are read between two calls of the callback.
const HOST_ROUND: usize = 64 << 20;

pub(crate) struct Job {
    opened: Arc<Opened>,
    backend: CudaBackend,
    kind: BufferKind,
    options: LoadOptions,
    plan: Plan,
    mapped: Mapped,
    /// For the migration of new managed memory to the device, while copies run on the library's stream.
    stream: Option<Stream>,
}

impl Job {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        backend: &CudaBackend,
        kind: BufferKind,
        options: &LoadOptions,
    ) -> Result<Self> {
        let mapped = Mapped::new(options.is_mapped && kind == BufferKind::Unified, backend);
        let mut plan = Plan::new(&opened.tensors, options)?;
        let mapped = mapped.take(&mut plan, opened)?;
        let device = backend.device();
        let migrates = kind == BufferKind::Unified
            && device.capabilities().concurrent_managed_access
            && !is_one_memory(device);
        if migrates {
            plan.begin_small();
        }
        let stream = migrates.then(|| device.create_stream()).transpose();
        Ok(Self {
            opened: Arc::clone(opened),
            backend: backend.clone(),
            kind,
            options: options.clone(),
            plan,
            mapped,
            stream: stream.map_err(Error::of_cuda("none"))?,
        })
    }

    /// The number of tensors.
    pub(crate) fn tensors(&self) -> usize {
        self.mapped.tensors.len() + self.plan.wanted.len()
    }

    pub(crate) fn bytes_in_flight(&self) -> usize {
        self.options.bytes_in_flight
    }

    /// The same, which also stops between two rounds when the receiver is gone.
    pub(crate) fn stopped_by(mut self, flow: &Arc<Flow>) -> Self {
        let (flow, progress) = (Arc::clone(flow), self.options.progress.take());
        self.options.progress = Some(Arc::new(move |done, total| match &progress {
            _ if flow.is_stopped() => ControlFlow::Break(()),
            Some(progress) => progress(done, total),
            None => ControlFlow::Continue(()),
        }));
        self
    }

    /// Allocates the buffers of a batch. The device's pages of managed memory are made by one migration each, beside the copies.
    fn allocate(&self, groups: &[Group]) -> Result<Vec<ErasedBuffer>> {
        let allocate = |group: &Group| {
            let buffer = self.buffer(group.bytes);
            buffer.map_err(Error::of_cuda(
                self.name(&self.plan.wanted[group.tensors.start]),
            ))
        };
        groups.iter().map(allocate).collect()
    }

    #[allow(unsafe_code, reason = "the read writes each byte")]
    fn buffer(&self, bytes: usize) -> Result<ErasedBuffer, CudaError> {
        let device: &Device = self.backend.device();
        if self.kind == BufferKind::Unified && is_one_memory(device) {
            let options = UnifiedOptions::default().placement(Placement::System);
            let memory = UnifiedBuffer::<u8>::zeroed_with(device, bytes, options)?;
            return ErasedBuffer::from_bytes(Box::new(memory), DType::U8);
        }
        // SAFETY: a buffer is dropped unless `FileRead` or `read_into` wrote each of its bytes, and nothing reads it before.
        let buffer = unsafe {
            self.backend
                .create_erased_uninit(self.kind, DType::U8, bytes)
        }?;
        if let Some(stream) = &self.stream {
            // An outcome that says "not supported" costs time, not correctness.
            let _ = buffer.prefetch_on(Location::from(device), stream)?;
        }
        Ok(buffer)
    }

    fn name(&self, wanted: &Wanted) -> &str {
        &self.opened.tensors[wanted.index].name
    }

    /// Reads the bytes of a batch.
    fn read(&self, batch: &mut [(Group, ErasedBuffer)], done: &mut u64) -> Result<()> {
        let bytes: usize = batch.iter().map(|(group, _)| group.bytes).sum();
        let file_bytes: u64 = batch.iter().map(|(group, _)| group.file_bytes).sum();
        let before = *done;
        let is_stopped = Cell::new(false);
        // Buffers have gaps between tensors.
        let mut progress = |position: usize| {
            let part = u128::from(file_bytes) * position as u128 / bytes.max(1) as u128;
            *done = before + part as u64;
            let outcome = match &self.options.progress {
                Some(progress) => progress(*done, self.plan.file_bytes),
                None => ControlFlow::Continue(()),
            };
            is_stopped.set(outcome.is_break());
            outcome
        };
        self.fill(batch, &mut progress)?;
        if is_stopped.get() && *done < self.plan.file_bytes {
            return Err(Error::Stopped {
                done_bytes: *done,
                total_bytes: self.plan.file_bytes,
            });
        }
        *done = before + file_bytes;
        if self.options.drop_page_cache {
            batch.iter().for_each(|(group, _)| self.drop_pages(group));
        }
        Ok(())
    }

    /// Writes the bytes of the buffers, or some of them if `progress` stops it.
    fn fill(
        &self,
        batch: &mut [(Group, ErasedBuffer)],
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<()> {
        let bases: Vec<usize> = batch
            .iter()
            .scan(0, |end, (group, _)| {
                Some(std::mem::replace(end, *end + group.bytes))
            })
            .collect();
        let mut reads = Vec::new();
        let mut failed = None;
        for (number, (group, buffer)) in batch.iter_mut().enumerate() {
            let (base, source) = (bases[number], &*self.opened.shards[group.shard].source);
            let outcome = match buffer.bytes_mut().memory_mut() {
                BufferMemoryMut::Cuda(view) => match FileRead::new(view, source, &group.runs) {
                    Ok(read) => {
                        reads.push(read);
                        continue;
                    }
                    Err(error) => Err((base, Err(error))),
                },
                BufferMemoryMut::Host(bytes) => {
                    let mut round = |at: usize| progress(base + at);
                    let read =
                        read_host(source, &group.runs, bytes, self.options.threads, &mut round);
                    read.map_err(|(at, error)| (base + at, Ok(error)))
                }
                _ => unreachable!("a buffer of the backend has memory"),
            };
            match outcome {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if failed.is_none() {
            failed = match FileRead::run(&mut reads, self.options.threads, progress) {
                Ok(_) => None,
                Err(CudaError::Io {
                    done_bytes, source, ..
                }) => Some((done_bytes, Ok(source))),
                Err(error) => match &error {
                    CudaError::Incomplete { copied_bytes, .. } => Some((*copied_bytes, Err(error))),
                    _ => Some((0, Err(error))),
                },
            };
        }
        drop(reads);
        match failed {
            None => Ok(()),
            Some((at, cause)) => {
                let number = bases.partition_point(|base| *base <= at).max(1) - 1;
                Err(self.failed(&batch[number].0, at - bases[number], cause))
            }
        }
    }

    /// The error of a failure at a position of a buffer.
    fn failed(&self, group: &Group, position: usize, cause: Result<io::Error, CudaError>) -> Error {
        let (wanted, at) = self.plan.locate(group, position);
        let tensor = self.name(wanted).to_owned();
        let shard = &self.opened.shards[group.shard];
        let file = shard.path.to_path_buf();
        match cause {
            Err(source) => Error::Cuda { tensor, source },
            Ok(source) if source.kind() == io::ErrorKind::UnexpectedEof => Error::Shrunk {
                file,
                tensor,
                at,
                opened_bytes: shard.bytes,
            },
            Ok(source) => Error::Read {
                file,
                tensor,
                at,
                source,
            },
        }
    }

    /// Makes the tensors of a buffer whose bytes are there.
    fn deliver(
        &self,
        group: &Group,
        mut buffer: ErasedBuffer,
        to: &mut dyn FnMut(Tensor),
    ) -> Result<()> {
        let tensors = &self.plan.wanted[group.tensors.clone()];
        if let [wanted] = tensors {
            buffer.set_name(self.name(wanted));
        }
        let buffer = SharedBuffer::new(buffer);
        for wanted in tensors {
            to(self.tensor(wanted, &buffer)?);
        }
        Ok(())
    }

    fn tensor(&self, wanted: &Wanted, buffer: &SharedBuffer) -> Result<Tensor> {
        let info = &self.opened.tensors[wanted.index];
        let part = buffer.view(wanted.at..wanted.at + wanted.bytes);
        let part = part.and_then(|part| part.cast(info.dtype()));
        Ok(Tensor {
            infos: Arc::clone(&self.opened.tensors),
            index: wanted.index,
            shape: wanted.slice.as_ref().map(|cut| cut.shape[..].into()),
            buffer: part.map_err(|error| Error::of_cuda(&info.name)(error))?,
        })
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

/// Whether the device reads memory of the host where it is, so that a unified buffer is memory of the system and nothing is staged.
fn is_one_memory(device: &Device) -> bool {
    let capabilities = device.capabilities();
    capabilities.pageable_memory_access
        && (capabilities.pageable_uses_host_page_tables || capabilities.integrated)
}

/// Loads all, and delivers each tensor when its bytes are read. While a batch is read, the next one is allocated.
pub(crate) fn run(
    mut job: Job,
    flow: Option<&Flow>,
    deliver: &mut dyn FnMut(Tensor),
) -> Result<()> {
    let mut done = 0;
    for (wanted, buffer) in std::mem::take(&mut job.mapped.tensors) {
        if let Some(flow) = flow {
            flow.add(wanted.bytes);
        }
        deliver(job.tensor(&wanted, &buffer)?);
    }
    let bytes_of = |groups: &[Group]| groups.iter().map(|group| group.bytes).sum::<usize>();
    let mut next = job.plan.batch();
    let mut ahead = None;
    while let Some(groups) = next.take() {
        let bytes = bytes_of(&groups);
        let buffers = match ahead.take() {
            Some(buffers) => buffers,
            None if flow.is_some_and(|flow| !flow.begin(bytes)) => return Ok(()),
            None => job.allocate(&groups)?,
        };
        next = job.plan.batch();
        if let Some(next) = &next
            && flow.is_none_or(|flow| flow.try_begin(bytes_of(next)))
        {
            // After a failure there may be memory when this batch is needed.
            ahead = job.allocate(next).ok();
            if let (None, Some(flow)) = (&ahead, flow) {
                flow.end(bytes_of(next));
            }
        }
        let mut batch: Vec<_> = groups.into_iter().zip(buffers).collect();
        job.read(&mut batch, &mut done)?;
        if let Some(flow) = flow {
            // The receiver does not take the gaps between tensors.
            let taken: u64 = batch.iter().map(|(group, _)| group.file_bytes).sum();
            flow.end(bytes - taken as usize);
        }
        for (group, buffer) in batch {
            job.deliver(&group, buffer, deliver)?;
        }
    }
    Ok(())
}

/// Reads into memory of the host, on several threads. Returns the first failure and its position.
fn read_host(
    source: &dyn ReadAt,
    runs: &[Runs],
    target: &mut [u8],
    threads: usize,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, (usize, io::Error)> {
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
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
