//! Loads: buffers are allocated, filled and returned.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};
use std::thread::{self, Builder};

use um_backend::cuda_um::buffer::FileRead;
use um_backend::cuda_um::{Placement, UnifiedBuffer, UnifiedOptions};
use um_backend::memory::BufferMemoryMut;
use um_backend::{
    BufferKind, CudaBackend, CudaError, DType, Device, ErasedBuffer, Location, SharedBuffer, Stream,
};

use crate::each::{StopOnDrop, no_thread};
use crate::error::{Error, Result};
use crate::map::mapped;
use crate::options::LoadOptions;
use crate::plan::{Group, Left, Plan, Wanted};
use crate::printable::printable;
use crate::tensor::Tensor;
use crate::weights::Opened;

/// What is in buffers, and the buffers.
type Batch = (Vec<Group>, Vec<ErasedBuffer>);
/// Takes the tensors, on any thread.
type Deliver<'a> = dyn FnMut(Tensor) + Send + 'a;

pub(crate) struct Job {
    pub(crate) plan: Plan,
    backend: CudaBackend,
    kind: BufferKind,
    /// The tensors to read.
    wanted: Vec<Wanted>,
    /// Mapped files, and the tensors that are parts of them.
    mapped: Vec<(Vec<Wanted>, ErasedBuffer)>,
    /// Whether the buffers are memory of the system, which the device reads where it is.
    is_system: bool,
    /// For the migration of new managed memory to the device, while copies run on the library's stream.
    stream: Option<Stream>,
}

impl Job {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        (backend, kind): (&CudaBackend, BufferKind),
        options: &LoadOptions,
        most_untaken: usize,
    ) -> Result<Self> {
        let device: &Device = backend.device();
        let is_unified = kind == BufferKind::Unified;
        let is_system = is_unified && !options.is_managed && is_one_memory(device);
        if !is_system && !options.is_mapped {
            // Beside the plan and the first allocations.
            FileRead::prepare(device);
        }
        let (mut plan, mut wanted) = Plan::new(opened, options, most_untaken)?;
        let capabilities = device.capabilities();
        let maps = options.is_mapped
            && !options.is_managed
            && is_unified
            && capabilities.pageable_memory_access;
        let mapped = match maps {
            true => mapped(&mut plan, &mut wanted, device)?,
            false => Vec::new(),
        };
        let migrates = is_unified && !is_system && capabilities.concurrent_managed_access;
        let stream = migrates.then(|| device.create_stream()).transpose();
        Ok(Self {
            plan,
            backend: backend.clone(),
            kind,
            wanted,
            mapped,
            is_system,
            stream: stream.map_err(Error::of_cuda("none"))?,
        })
    }

    /// Allocates the buffers of a batch. The device's pages of managed memory are made by one migration each, beside the copies.
    fn allocate(&self, groups: &[Group]) -> Result<Vec<ErasedBuffer>> {
        let buffers = groups.iter().map(|group| {
            let first = self.plan.name(&group.tensors[0]);
            self.buffer(group.bytes).map_err(Error::of_cuda(first))
        });
        buffers.collect()
    }

    #[allow(unsafe_code, reason = "the read writes each byte")]
    fn buffer(&self, bytes: usize) -> Result<ErasedBuffer, CudaError> {
        let device: &Device = self.backend.device();
        if self.is_system {
            let options = UnifiedOptions::default().placement(Placement::System);
            let memory = UnifiedBuffer::<u8>::zeroed_with(device, bytes, options)?;
            return ErasedBuffer::from_bytes(Box::new(memory), DType::U8);
        }
        let (kind, dtype) = (self.kind, DType::U8);
        // SAFETY: a buffer is dropped unless `Plan::read` wrote each of its bytes, and nothing reads it before.
        let buffer = unsafe { self.backend.create_erased_uninit(kind, dtype, bytes) }?;
        if let Some(stream) = &self.stream {
            // An outcome that says "not supported" costs time, not correctness.
            let _ = buffer.bytes().prefetch_range_on(
                0..buffer.size_bytes(),
                Location::from(device),
                stream,
            )?;
        }
        Ok(buffer)
    }

    /// Makes the tensors of a batch whose bytes are there.
    fn deliver(&self, (groups, buffers): Batch, to: &mut Deliver<'_>) -> Result<()> {
        for (group, buffer) in groups.into_iter().zip(buffers) {
            self.deliver_parts(&group.tensors, buffer, to)?;
        }
        Ok(())
    }

    /// Makes the tensors that are parts of one buffer, in this order.
    fn deliver_parts(
        &self,
        tensors: &[Wanted],
        buffer: ErasedBuffer,
        to: &mut Deliver<'_>,
    ) -> Result<()> {
        let parts = match tensors {
            [wanted] if wanted.bytes == buffer.size_bytes() => Ok(vec![buffer]),
            _ => {
                let part = |wanted: &Wanted| wanted.at..wanted.at + wanted.bytes;
                buffer.into_parts(&tensors.iter().map(part).collect::<Vec<_>>())
            }
        };
        let of_first = Error::of_cuda(self.plan.name(&tensors[0]));
        for (wanted, buffer) in tensors.iter().zip(parts.map_err(of_first)?) {
            to(self.tensor(wanted, buffer)?);
        }
        Ok(())
    }

    fn tensor(&self, wanted: &Wanted, mut buffer: ErasedBuffer) -> Result<Tensor> {
        let infos = &self.plan.opened.tensors;
        let info = &infos[wanted.index];
        // Messages and profiles show it.
        buffer.bytes_mut().set_name(&printable(&info.name));
        let buffer = SharedBuffer::new(buffer).cast(info.dtype());
        Ok(Tensor {
            infos: Arc::clone(infos),
            index: wanted.index,
            shape: wanted.slice.as_ref().map(|cut| cut.shape[..].into()),
            buffer: buffer.map_err(Error::of_cuda(&info.name))?,
        })
    }

    /// Loads all, and delivers each tensor when its bytes are read. While this thread reads a batch, another one allocates the next, and a third one
    /// makes the tensors of the one before.
    pub(crate) fn run(mut self, deliver: &mut Deliver<'_>) -> Result<()> {
        let flow = Arc::clone(&self.plan.flow);
        for (tensors, file) in std::mem::take(&mut self.mapped) {
            flow.add(tensors.iter().map(|wanted| wanted.bytes).sum());
            self.deliver_parts(&tensors, file, deliver)?;
        }
        let left = std::mem::take(&mut self.wanted).into_iter().peekable();
        let this = &self;
        thread::scope(|threads| {
            // A thread that ends closes its channels, which ends the others.
            let (allocated, to_read) = mpsc::sync_channel(0);
            let (read, to_deliver) = mpsc::sync_channel::<Batch>(1);
            let stop = StopOnDrop(&flow);
            let allocate = move || this.allocate_each(left, &allocated);
            let thread = Builder::new().spawn_scoped(threads, allocate);
            thread.map_err(no_thread)?;
            let mut each = to_deliver.into_iter();
            let make = move || each.try_for_each(|batch| this.deliver(batch, deliver));
            let thread = Builder::new().spawn_scoped(threads, make);
            let delivered = thread.map_err(no_thread)?;
            let mut done = 0;
            for batch in to_read {
                let (groups, mut buffers): Batch = batch?;
                let memory = buffers.iter_mut();
                let memory = memory.map(|buffer| buffer.bytes_mut().memory_mut());
                this.plan.read(&groups, memory.collect(), &mut done)?;
                // The receiver does not take the gaps between tensors.
                let gap = |group: &Group| group.bytes - group.file_bytes as usize;
                flow.end(groups.iter().map(gap).sum());
                if read.send((groups, buffers)).is_err() {
                    break;
                }
            }
            drop((read, stop));
            delivered
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Allocates batches, each when the receiver has taken enough of those before, until a failure or the end of the load.
    fn allocate_each(&self, mut left: Left, to: &mpsc::SyncSender<Result<Batch>>) {
        while let Some(groups) = self.plan.batch(&mut left) {
            let bytes = groups.iter().map(|group| group.bytes).sum();
            if !self.plan.flow.begin(bytes, self.plan.most_untaken) {
                return;
            }
            let buffers = self.allocate(&groups);
            let is_last = buffers.is_err();
            if to.send(buffers.map(|buffers| (groups, buffers))).is_err() || is_last {
                return;
            }
        }
    }
}

/// Loads tensors into memory of the caller.
pub(crate) fn into(
    opened: &Arc<Opened>,
    targets: Vec<(&str, BufferMemoryMut<'_, u8>)>,
    options: &LoadOptions,
) -> Result<()> {
    let is_host = |memory: &BufferMemoryMut<'_, u8>| matches!(memory, BufferMemoryMut::Host(_));
    let hosts = targets.iter().filter(|(_, memory)| is_host(memory)).count();
    let is_one_kind = hosts == 0 || hosts == targets.len();
    let mut all = HashMap::with_capacity(targets.len());
    for (name, memory) in targets {
        if all.insert(name, memory).is_some() || !is_one_kind {
            let reason = "a load has one memory for each name, all of the host or all of a device";
            return Err(Error::refused(name, reason.to_owned()));
        }
    }
    let names: HashSet<String> = all.keys().map(|name| (*name).to_owned()).collect();
    let options = options.clone().only(move |name| names.contains(name));
    let (plan, wanted) = Plan::new(opened, &options, usize::MAX)?;
    let groups = plan.alone(wanted);
    let mut memory = Vec::with_capacity(groups.len());
    for group in &groups {
        let name = plan.name(&group.tensors[0]);
        let target = all.remove(name);
        let found = match &target {
            Some(BufferMemoryMut::Host(bytes)) => Some(bytes.len()),
            Some(BufferMemoryMut::Cuda(view)) => Some(view.len()),
            _ => None,
        };
        if found != Some(group.bytes) {
            let found = found.map_or("opaque".to_owned(), |bytes| format!("{bytes} bytes"));
            let reason = format!("it has {} bytes, and the memory is {found}", group.bytes);
            return Err(Error::refused(name, reason));
        }
        memory.extend(target);
    }
    match all.keys().next() {
        Some(name) => Err(Error::refused(name, "the files do not have it".to_owned())),
        None => plan.read(&groups, memory, &mut 0),
    }
}

/// Whether the device reads memory of the host where it is, so that a unified buffer may be memory of the system, and nothing is staged.
fn is_one_memory(device: &Device) -> bool {
    let capabilities = device.capabilities();
    capabilities.pageable_memory_access
        && (capabilities.pageable_uses_host_page_tables || capabilities.integrated)
}
