//! The public interface.

use crate::replay::change::{Change, Changes};
use crate::replay::error::ReplayError;
use crate::replay::limits::Limits;
use crate::replay::machine::Machine;
use crate::replay::own_time;
use crate::replay::run::Run;
use crate::replay::spent::Spent;
use um_backend::profile::Profiler;
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_trace::{OperationKind, Trace};
use std::collections::{BTreeMap, HashMap};

/// A replay. By default it runs on the H200 preset with CUDA 13.0, without changes.
///
/// ```
/// use um_benches::replay::{Change, Replay};
/// # let trace = cuda_um_trace::Trace { format: cuda_um_trace::Trace::FORMAT, ..Default::default() };
/// let replayed = Replay::of(&trace)
///     .gpu(cuda_um_sim::Gpu::Pascal)
///     .change(None, Change::PrefetchBeforeUse)
///     .run()?;
/// println!("{} instead of {}", replayed.predicted, replayed.recorded);
/// # Ok::<(), um_benches::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    trace: &'a Trace,
    gpu: Gpu,
    cuda: CudaVersion,
    changes: Changes,
    limits: Limits,
}

/// Memory that usual hosts can spare. A trace of a few lines can ask for any number of bytes.
const MAX_BYTES: u64 = 16 << 30;
/// This limits the time to some minutes. Here too, a trace of a few lines can ask for any number of bytes.
const MAX_HOST_BYTES: u64 = 256 << 30;

/// The result of a replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// The trace of the replay: migrations on the simulated machine, with times and causes.
    pub trace: Trace,
    /// The time that the recorded program spent.
    pub recorded: Spent,
    /// The time that it would spend on the simulated machine.
    pub predicted: Spent,
    /// The operations that could not be replayed, with their counts.
    pub left_out: BTreeMap<String, usize>,
}

impl<'a> Replay<'a> {
    /// A replay of a trace.
    pub fn of(trace: &'a Trace) -> Self {
        Self {
            trace,
            gpu: Gpu::H200,
            cuda: CudaVersion::V13_0,
            changes: Changes::default(),
            limits: Limits {
                max_bytes: MAX_BYTES,
                max_host_bytes: MAX_HOST_BYTES,
            },
        }
    }

    /// Sets the simulated GPU.
    #[must_use]
    pub fn gpu(mut self, gpu: Gpu) -> Self {
        self.gpu = gpu;
        self
    }

    /// Sets the simulated CUDA version.
    #[must_use]
    pub fn cuda(mut self, cuda: CudaVersion) -> Self {
        self.cuda = cuda;
        self
    }

    /// Adds a change for the buffers of this name, or for all buffers.
    #[must_use]
    pub fn change(mut self, buffer: Option<&str>, change: Change) -> Self {
        self.changes.push(buffer, change);
        self
    }

    /// Sets the limit on host memory that the replay may use at once. The default is 16 GiB.
    ///
    /// The sum counts the live buffers in whole pages of 4 KiB, touched or not, and the memory of one copy from or to the
    /// program's own memory. The trace, the profile of the replay and the simulated machine need additional memory, which grows
    /// with the number of entries in the trace, not with the sizes in it.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.limits.max_bytes = bytes;
        self
    }

    /// Sets the limit on the bytes of all operations by which the host works or gets memory back: guards, copies, fills and
    /// prefetches to the host. The default is 256 GiB.
    ///
    /// This limits the time of a replay: each page is touched or moved, and kernels migrate back no more than the host had.
    #[must_use]
    pub fn max_host_bytes(mut self, bytes: u64) -> Self {
        self.limits.max_host_bytes = bytes;
        self
    }

    /// Runs the replay. It takes the real time of its calls, and the real memory of the host's and the kernels' buffers.
    ///
    /// # Errors
    ///
    /// [`ReplayError::NoSuchBuffer`] for a change of a buffer that is not in the trace, [`ReplayError::Inconsistent`] for a
    /// trace that contradicts itself, [`ReplayError::TooLarge`] and [`ReplayError::CopyTooLarge`] for more memory than
    /// [`max_bytes`](Self::max_bytes), [`ReplayError::TooMuchWork`] for more work than
    /// [`max_host_bytes`](Self::max_host_bytes), [`ReplayError::Operation`] for an operation that the simulated machine refuses
    /// (for example because a device has too little memory).
    pub fn run(&self) -> Result<Replayed, ReplayError> {
        let trace = self.trace;
        for name in self.changes.names() {
            if !trace.buffers.iter().any(|buffer| buffer.name == name) {
                return Err(ReplayError::NoSuchBuffer {
                    name: name.to_owned(),
                    known: names_of(trace),
                });
            }
        }
        let builder = Sim::builder().gpu(self.gpu).cuda(self.cuda);
        let mut machine = Machine::build(builder, devices_of(trace))?;
        let runtime = machine.runtime.clone();
        let mut run = Run::new(trace, &self.changes, &mut machine, self.limits);
        run.check_limits()?;
        run.prepare()?;
        let profiler = Profiler::start(&runtime)?;
        run.operations()?;
        let mut replayed = profiler.stop()?;
        give_names(trace, &mut replayed);
        let left_out = std::mem::take(&mut run.left_out);
        drop(run);
        let mut predicted = Spent::of(&replayed);
        // The simulator's clock does not include the host's own work: it is taken from the trace.
        predicted.host += own_time::of_host(trace);
        Ok(Replayed {
            recorded: Spent::of(trace),
            predicted,
            trace: replayed,
            left_out,
        })
    }
}

/// Gives the kernels of a replay the names of the recorded kernels: both traces have the same launches in the same order.
fn give_names(trace: &Trace, replayed: &mut Trace) {
    let mut recorded = trace
        .operations
        .iter()
        .filter_map(|operation| match &operation.kind {
            OperationKind::Launch { kernel } => Some(kernel),
            _ => None,
        });
    let mut names = HashMap::new();
    for operation in &mut replayed.operations {
        if let OperationKind::Launch { kernel } = &mut operation.kind
            && let Some(name) = recorded.next()
        {
            kernel.clone_from(name);
            names.insert(operation.id, name);
        }
    }
    for run in &mut replayed.kernels {
        if let Some(name) = run.operation.and_then(|operation| names.get(&operation)) {
            run.name.clone_from(name);
        }
    }
}

/// The number of devices in the trace.
fn devices_of(trace: &Trace) -> usize {
    let used = trace.operations.iter().map(|operation| operation.device);
    let owned = trace.buffers.iter().map(|buffer| buffer.device);
    let last = used.chain(owned).max().unwrap_or(0) as usize;
    (last + 1).max(trace.devices.len()).clamp(1, 8)
}

fn names_of(trace: &Trace) -> String {
    let names: std::collections::BTreeSet<&str> = trace
        .buffers
        .iter()
        .map(|buffer| buffer.name.as_str())
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
