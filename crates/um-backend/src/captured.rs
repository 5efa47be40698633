//! Steps of a framework as CUDA graphs.

use bytemuck::NoUninit;
use cuda_um::kernel::{Arguments, KernelArgs};
use cuda_um::{
    Stream,
    graph::{GraphExec, Recording},
};

use crate::backend::CudaBackend;
use crate::error::Result;
use crate::shared::{HeldByGraph, Holding};

/// The work of one step, recorded by [`CudaBackend::capture`]: one call launches all of it.
///
/// It holds the [`SharedBuffer`](crate::SharedBuffer)s that the step used, and takes their guards for each launch, as the step did. They count as no further handle of
/// the storage: [`SharedBuffer::make_unique`](crate::SharedBuffer::make_unique) copies nothing because of it.
///
/// # Examples
/// ```
/// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer, kernels::Saxpy};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// # if backend.device().capabilities().compute_capability < (6, 0) { return Ok(()); } // the kernel needs it
/// let saxpy = Saxpy::load(backend.device())?;
/// let new = || backend.create_erased(BufferKind::Unified, DType::F32, 4).map(SharedBuffer::new);
/// let (gradient, weights) = (new()?, new()?);
/// gradient.copy_from_host(&[1.0f32; 4])?;
/// let mut step = backend.capture(|step| {
///     let (gradient, mut weights) = (gradient.read()?, weights.write()?);
///     let (factor, weights) = (step.scalar("factor", -0.5f32), weights.view_mut::<f32>()?);
///     Ok(saxpy.launch(backend.device().stream(), factor, gradient.view::<f32>()?, weights)?)
/// })?;
/// step.launch()?;
/// step.set("factor", -0.25f32)?; // for all launches from now on
/// step.launch()?;
/// assert_eq!(*weights.host::<f32>()?, [-0.75; 4]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct CapturedStep {
    exec: GraphExec,
    stream: Stream,
    /// The storage of the step, in an order that is the same for all steps, and whether the step writes it.
    held: Vec<(HeldByGraph, bool)>,
}

impl CudaBackend {
    /// Records what `step` enqueues on the library's stream of the device, on this thread: launches, fills, copies between buffers. Nothing runs.
    ///
    /// Each value that a kernel takes is a [`constant`](cuda_um::constant) or has a name ([`Recording::scalar`]), which
    /// [`set`](CapturedStep::set) changes.
    ///
    /// # Errors
    /// The error of `step`. [`CudaError::Capture`](crate::CudaError::Capture) for a call that cannot be recorded: it names the call, and what to do
    /// (a plain value, a copy from or to a slice of the host, a wait, a host guard of what the step uses). As for [`Stream::capture`] and
    /// [`cuda_um::graph::Graph::instantiate`].
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn capture(&self, step: impl FnOnce(&Recording<'_>) -> Result<()>) -> Result<CapturedStep> {
        let (stream, mut holding) = (self.device().stream(), None);
        let graph = stream.capture(|recording| {
            holding = Some(Holding::begin());
            step(recording)
        })?;
        let mut held = Vec::new();
        let required: Vec<_> = graph.required().collect();
        for storage in holding.map(Holding::end).unwrap_or_default() {
            let guard = storage.whole.read()?;
            let id = guard.view::<u8>().map(|view| view.buffer_id());
            // Memory that kernels cannot access is in no graph.
            let id = id.ok();
            let used = required.iter().find(|(of, _)| Some(*of) == id);
            held.extend(used.map(|(_, writes)| (storage, *writes)));
        }
        held.sort_by_key(|(storage, _)| storage.address());
        Ok(CapturedStep {
            exec: graph.instantiate()?,
            stream: stream.clone(),
            held,
        })
    }
}

impl CapturedStep {
    /// Enqueues the work of the step.
    ///
    /// # Ordering
    /// As for [`GraphExec::launch`], after waiting for the locks of the storage as [`SharedBuffer::write`](crate::SharedBuffer::write) does.
    ///
    /// # Errors
    /// As for [`SharedBuffer::write`](crate::SharedBuffer::write) and [`GraphExec::launch`]: [`InvalidArgument`](crate::CudaError::InvalidArgument) if the step used other buffers
    /// than [`SharedBuffer`](crate::SharedBuffer)s, which [`launch_with`](Self::launch_with) takes; and if the step called
    /// [`make_unique`](crate::SharedBuffer::make_unique) of storage that another handle has now.
    #[doc(alias = "cudaGraphLaunch")]
    pub fn launch(&mut self) -> Result<()> {
        self.launch_with(())
    }

    /// Does the same as [`launch`](Self::launch), with further buffers that the step used: `(&a, &mut *b)` for `Box<dyn Buffer<T>>`s.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch).
    pub fn launch_with(&mut self, others: impl KernelArgs) -> Result<()> {
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for (storage, writes) in &self.held {
            storage.check_own()?;
            match writes {
                true => written.push(storage.whole.write()?),
                false => read.push(storage.whole.read()?),
            }
        }
        let mut arguments = Arguments::new();
        written.iter_mut().for_each(|guard| arguments.push(guard));
        read.iter().for_each(|guard| arguments.push(guard));
        self.exec.launch_with(&self.stream, arguments, others)
    }

    /// Sets a named scalar of the step ([`Recording::scalar`]) for later launches.
    ///
    /// # Ordering
    /// Launches that are enqueued keep the earlier value. Waits for nothing.
    ///
    /// # Errors
    /// As for [`GraphExec::set`]: [`InvalidArgument`](crate::CudaError::InvalidArgument) for a name that no launch of the step takes (it lists the
    /// names), and for a value of another type.
    pub fn set<T: NoUninit>(&mut self, name: &str, value: T) -> Result<()> {
        self.exec.set(name, value)
    }
}
