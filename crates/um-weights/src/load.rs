//! Loads: buffers are allocated, filled and returned.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, ScopedJoinHandle};

use um_backend::cuda_um::{Placement, UnifiedBuffer, UnifiedOptions};
use um_backend::memory::BufferMemoryMut;
use um_backend::{
    BufferKind, CudaBackend, CudaError, DType, Device, ErasedBuffer, Location, SharedBuffer, Stream,
};

use crate::each::no_thread;
use crate::error::{Error, Result};
use crate::map::mapped;
use crate::options::LoadOptions;
use crate::plan::{Group, Plan, Wanted};
use crate::tensor::Tensor;
use crate::weights::Opened;

/// Buffers, and what is in them.
type Batch = Vec<(Group, ErasedBuffer)>;
/// Takes the tensors, on any thread.
type Deliver<'a> = dyn FnMut(Tensor) + Send + 'a;

pub(crate) struct Job {
    pub(crate) plan: Plan,
    backend: CudaBackend,
    kind: BufferKind,
    /// The tensors that are parts of mapped files.
    mapped: Vec<(Wanted, SharedBuffer)>,
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
        let mut plan = Plan::new(opened, options, most_untaken)?;
        let device: &Device = backend.device();
        let maps = options.is_mapped && kind == BufferKind::Unified;
        let mapped = match maps && device.capabilities().pageable_memory_access {
            true => mapped(&mut plan, device)?,
            false => Vec::new(),
        };
        let migrates = kind == BufferKind::Unified
            && device.capabilities().concurrent_managed_access
            && !is_one_memory(device);
        let stream = migrates.then(|| device.create_stream()).transpose();
        Ok(Self {
            plan,
            backend: backend.clone(),
            kind,
            mapped,
            stream: stream.map_err(Error::of_cuda("none"))?,
        })
    }

    /// The number of tensors.
    pub(crate) fn tensors(&self) -> usize {
        self.mapped.len() + self.plan.wanted.len()
    }

    /// Allocates the buffers of a batch. The device's pages of managed memory are made by one migration each, beside the copies.
    fn allocate(&self, groups: &[Group]) -> Result<Vec<ErasedBuffer>> {
        let allocate = |group: &Group| {
            let first = &self.plan.wanted[group.tensors.start];
            let buffer = self.buffer(group.bytes);
            buffer.map_err(Error::of_cuda(self.plan.name(first)))
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
        let (kind, dtype) = (self.kind, DType::U8);
        // SAFETY: a buffer is dropped unless `Plan::read` wrote each of its bytes, and nothing reads it before.
        let buffer = unsafe { self.backend.create_erased_uninit(kind, dtype, bytes) }?;
        if let Some(stream) = &self.stream {
            // An outcome that says "not supported" costs time, not correctness.
            let _ = buffer.prefetch_on(Location::from(device), stream)?;
        }
        Ok(buffer)
    }

    /// Makes the tensors of a batch whose bytes are there.
    fn deliver(&self, batch: Batch, to: &mut Deliver<'_>) -> Result<()> {
        for (group, mut buffer) in batch {
            let tensors = &self.plan.wanted[group.tensors];
            if let [wanted] = tensors {
                buffer.set_name(self.plan.name(wanted));
            }
            let buffer = SharedBuffer::new(buffer);
            for wanted in tensors {
                to(self.tensor(wanted, &buffer)?);
            }
        }
        Ok(())
    }

    fn tensor(&self, wanted: &Wanted, buffer: &SharedBuffer) -> Result<Tensor> {
        let infos = &self.plan.opened.tensors;
        let info = &infos[wanted.index];
        let part = buffer.view(wanted.at..wanted.at + wanted.bytes);
        let part = part.and_then(|part| part.cast(info.dtype()));
        Ok(Tensor {
            infos: Arc::clone(infos),
            index: wanted.index,
            shape: wanted.slice.as_ref().map(|cut| cut.shape[..].into()),
            buffer: part.map_err(Error::of_cuda(&info.name))?,
        })
    }

    /// Loads all, and delivers each tensor when its bytes are read. While a batch is read, another thread makes the tensors of the one before, and
    /// allocates the next one.
    pub(crate) fn run(mut self, deliver: &mut Deliver<'_>) -> Result<()> {
        let flow = Arc::clone(&self.plan.flow);
        let mut done = 0;
        for (wanted, buffer) in std::mem::take(&mut self.mapped) {
            flow.add(wanted.bytes);
            deliver(self.tensor(&wanted, &buffer)?);
        }
        let bytes_of = |groups: &[Group]| groups.iter().map(|group| group.bytes).sum::<usize>();
        let mut next = self.plan.batch();
        let (mut ahead, mut before) = (None, None);
        while let Some(groups) = next.take() {
            let bytes = bytes_of(&groups);
            let mut buffers = match ahead.take() {
                Some(buffers) => buffers,
                None if !flow.begin(bytes, true) => return Ok(()),
                None => self.allocate(&groups)?,
            };
            next = self.plan.batch();
            let counted = next
                .as_deref()
                .filter(|next| flow.begin(bytes_of(next), false));
            let memory = buffers
                .iter_mut()
                .map(|buffer| buffer.bytes_mut().memory_mut());
            ahead = std::thread::scope(|threads| {
                let (this, to, before) = (&self, &mut *deliver, before.take());
                let is_idle = before.is_none() && counted.is_none();
                let beside = move || {
                    let made = before.map_or(Ok(()), |batch| this.deliver(batch, to));
                    // After a failure there may be memory when this batch is needed.
                    made.map(|()| counted.and_then(|next| this.allocate(next).ok()))
                };
                let thread = Builder::new().name("um-weights-next".to_owned());
                let beside = (!is_idle).then(|| thread.spawn_scoped(threads, beside));
                let beside = beside.transpose().map_err(no_thread)?;
                self.plan.read(&groups, memory.collect(), &mut done)?;
                match beside.map(ScopedJoinHandle::join) {
                    Some(Err(panic)) => resume_unwind(panic),
                    Some(Ok(ahead)) => ahead,
                    None => Ok(None),
                }
            })?;
            if let (Some(next), None) = (counted, &ahead) {
                flow.end(bytes_of(next));
            }
            // The receiver does not take the gaps between tensors.
            let taken: u64 = groups.iter().map(|group| group.file_bytes).sum();
            flow.end(bytes - taken as usize);
            let batch = groups.into_iter().zip(buffers).collect();
            // Without memory for the next batch, the receiver has to take the tensors first.
            match ahead {
                Some(_) => before = Some(batch),
                None => self.deliver(batch, deliver)?,
            }
        }
        Ok(())
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
    let mut plan = Plan::new(opened, &options, usize::MAX)?;
    let groups = plan.alone();
    let mut memory = Vec::with_capacity(groups.len());
    for group in &groups {
        let name = plan.name(&plan.wanted[group.tensors.start]);
        let found = match all.get(name) {
            Some(BufferMemoryMut::Host(bytes)) => Some(bytes.len()),
            Some(BufferMemoryMut::Cuda(view)) => Some(view.len()),
            _ => None,
        };
        if found != Some(group.bytes) {
            let found = found.map_or("opaque".to_owned(), |bytes| format!("{bytes} bytes"));
            let reason = format!("it has {} bytes, and the memory is {found}", group.bytes);
            return Err(Error::refused(name, reason));
        }
        memory.extend(all.remove(name));
    }
    match all.keys().next() {
        Some(name) => Err(Error::refused(name, "the files do not have it".to_owned())),
        None => plan.read(&groups, memory, &mut 0),
    }
}

/// Whether the device reads memory of the host where it is, so that a unified buffer is memory of the system and nothing is staged.
fn is_one_memory(device: &Device) -> bool {
    let capabilities = device.capabilities();
    capabilities.pageable_memory_access
        && (capabilities.pageable_uses_host_page_tables || capabilities.integrated)
}
