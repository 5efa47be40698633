//! Steps of a framework as CUDA graphs.

use std::fmt;
use std::ops::Range;

use cuda_um::kernel::{Arguments, KernelArgs};
use cuda_um::{GraphExec, Stream};

use crate::backend::CudaBackend;
use crate::dtype::DType;
use crate::error::{CudaError, Result};
use crate::shared::{HeldByGraph, Holding, SharedBuffer};

/// The work of one step, recorded by [`CudaBackend::capture`]: one call launches all of it.
///
/// It holds the [`SharedBuffer`]s that the step used, and takes their guards for each launch, as the step did. They count as no further handle of
/// the storage: [`SharedBuffer::make_unique`] copies nothing because of it.
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
/// let mut step = backend.capture(|| {
///     let (gradient, mut weights) = (gradient.read()?, weights.write()?);
///     let weights = weights.view_mut::<f32>()?;
///     Ok(saxpy.launch(backend.device().stream(), -0.5, gradient.view::<f32>()?, weights)?)
/// })?;
/// step.launch()?;
/// step.launch()?;
/// assert_eq!(*weights.host::<f32>()?, [-1.0; 4]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
pub struct CapturedStep {
    exec: GraphExec,
    stream: Stream,
    /// The storage of the step, in an order that is the same for all steps, and whether the step writes it.
    held: Vec<(HeldByGraph, bool)>,
    /// Whether the step used other buffers, too.
    has_others: bool,
}

impl CudaBackend {
    /// Records what `step` enqueues on the library's stream of the device, on this thread: launches, fills, copies between buffers. Nothing runs.
    ///
    /// # Errors
    /// The error of `step`. [`CudaError::Capture`] for a call that cannot be recorded: it names the call, and what to do (a copy from or to a
    /// slice of the host, a wait, a host guard of what the step uses). As for [`Stream::capture`] and [`cuda_um::Graph::instantiate`].
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn capture(&self, step: impl FnOnce() -> Result<()>) -> Result<CapturedStep> {
        let (stream, holding) = (self.device().stream(), Holding::begin()?);
        let graph = stream.capture(|_| step())?;
        let mut held = Vec::new();
        let required: Vec<_> = graph.required().collect();
        for storage in holding.end() {
            let id = storage
                .whole()
                .read()?
                .view::<u8>()
                .map(|view| view.buffer_id());
            // Memory that kernels cannot access is in no graph.
            let used = id
                .ok()
                .and_then(|id| required.iter().find(|(of, _)| *of == id));
            held.extend(used.map(|(_, writes)| (storage, *writes)));
        }
        held.sort_by_key(|(storage, _)| storage.address());
        Ok(CapturedStep {
            exec: graph.instantiate()?,
            stream: stream.clone(),
            has_others: held.len() < required.len(),
            held,
        })
    }
}

impl CapturedStep {
    /// Enqueues the work of the step.
    ///
    /// # Ordering
    /// As for [`GraphExec::launch`], after waiting for the locks of the storage as [`SharedBuffer::write`] does.
    ///
    /// # Errors
    /// As for [`SharedBuffer::write`] and [`GraphExec::launch`]: [`InvalidArgument`](CudaError::InvalidArgument) if the step used other buffers than
    /// [`SharedBuffer`]s, which [`launch_with`](Self::launch_with) takes.
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
            match writes {
                true => written.push(storage.whole().write()?),
                false => read.push(storage.whole().read()?),
            }
        }
        let mut arguments = Arguments::new();
        written.iter_mut().for_each(|guard| arguments.push(guard));
        read.iter().for_each(|guard| arguments.push(guard));
        self.exec.launch_with(&self.stream, arguments, others)
    }

    /// The executable graph, for its parameters.
    pub fn exec_mut(&mut self) -> &mut GraphExec {
        &mut self.exec
    }
}

impl fmt::Debug for CapturedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedStep")
            .field("exec", &self.exec)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

/// Runs a step as a graph where it can: the first run records it, and later runs launch the record as long as the inputs have the same storage,
/// range and dtype. Otherwise the step runs as it is. Both are counted.
///
/// # Examples
/// ```
/// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer, StepGraph};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let new = || backend.create_erased(BufferKind::Unified, DType::F32, 4).map(SharedBuffer::new);
/// let (a, b) = (new()?, new()?);
/// let mut graph = StepGraph::new(&backend);
/// for input in [&a, &a, &b] {
///     graph.run(&[input], || input.write()?.set_zero())?;
/// }
/// assert_eq!((graph.replayed(), graph.direct()), (2, 1)); // `b` is other storage
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct StepGraph {
    backend: CudaBackend,
    step: Option<(Vec<Key>, CapturedStep)>,
    refusal: Option<CudaError>,
    replayed: u64,
    direct: u64,
}

/// The address of an input's storage, the range of its bytes, and its dtype.
type Key = (usize, Range<usize>, DType);

/// Why a step is not launched as a graph, though it can be recorded.
fn refuse_others() -> CudaError {
    CudaError::Capture {
        call: "a step with buffers that are not shared".to_owned(),
        reason: "only storage of `SharedBuffer`s is held: share them, or use `CudaBackend::capture` and `CapturedStep::launch_with`".to_owned(),
    }
}

impl StepGraph {
    /// Has recorded nothing.
    #[must_use]
    pub fn new(backend: &CudaBackend) -> Self {
        Self {
            backend: backend.clone(),
            step: None,
            refusal: None,
            replayed: 0,
            direct: 0,
        }
    }

    /// Runs the step, on the library's stream of the device. `inputs` are the tensors by which one run differs from another; the step may use more,
    /// which must be the same in each run. The first run calls `step` to record it, and again if it cannot be recorded. Within another capture of
    /// this thread, the step is called, and is a part of that.
    ///
    /// # Ordering
    /// As for [`CapturedStep::launch`].
    ///
    /// # Errors
    /// The errors of `step`, but for those of a call that cannot be recorded ([`refusal`](Self::refusal)), and of [`CapturedStep::launch`].
    pub fn run(
        &mut self,
        inputs: &[&SharedBuffer],
        mut step: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let key: Vec<_> = inputs.iter().map(|input| input.key()).collect();
        // Within another capture of this thread, the step is a part of that.
        let is_part = cuda_um::graph::is_capturing();
        if self.step.is_none() && self.refusal.is_none() && !is_part {
            match self.backend.capture(&mut step) {
                Ok(captured) if captured.has_others => self.refusal = Some(refuse_others()),
                Ok(captured) => self.step = Some((key.clone(), captured)),
                Err(refusal @ (CudaError::Capture { .. } | CudaError::NotSupported { .. })) => {
                    self.refusal = Some(refusal);
                }
                Err(error) => return Err(error),
            }
        }
        match &mut self.step {
            Some((of, captured)) if *of == key && !is_part => {
                captured.launch()?;
                self.replayed += 1;
            }
            _ => {
                step()?;
                self.direct += 1;
            }
        }
        Ok(())
    }

    /// The number of runs that launched the record.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// The number of runs that called the step.
    #[must_use]
    pub fn direct(&self) -> u64 {
        self.direct
    }

    /// Why the step could not be recorded: the call, and what to do.
    #[must_use]
    pub fn refusal(&self) -> Option<&CudaError> {
        self.refusal.as_ref()
    }
}
