#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod counter;
mod counts;
mod cupti;
mod decode;
mod error;
mod flush;
mod lock;
mod matching;
mod session;

pub use crate::counter::MigrationCounter;
pub use crate::counts::MigrationCounts;
pub use crate::error::ProfileError;
pub use cuda_um_trace as trace;
pub use cuda_um_trace::Trace;

use crate::cupti::{Collection, Keep};
use crate::flush::Marker;
use crate::session::Recorder;
use cuda_um::observe::{Observing, observe};
use cuda_um::process_end::Calls;
use cuda_um::sys::Cupti;
use cuda_um::{Runtime, fork};
use cuda_um_trace::{DeviceInfo, Source};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mark that this process collects. At most one profiler or counter exists at a time.
struct Running(());

static RUNNING: AtomicBool = AtomicBool::new(false);

impl Running {
    fn take() -> Result<Self, ProfileError> {
        // A child has its parent's flag.
        cuda_um::fork::check("a profiler").map_err(Box::new)?;
        match RUNNING.swap(true, Ordering::AcqRel) {
            true => Err(ProfileError::AlreadyRunning),
            false => Ok(Self(())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Release);
    }
}

fn cupti_of(runtime: &Runtime) -> Result<Arc<Cupti>, ProfileError> {
    let _calls = Calls::of("cuptiGetVersion").map_err(Box::new)?;
    Ok(runtime.table().cupti()?)
}

/// The number of buffers, of 256 KiB each, that CUPTI may hold at one time. If there are too few, it drops records and counts them.
const CUPTI_BUFFERS: usize = 64;

/// Collects a [`Trace`] from its start until [`stop`](Self::stop).
///
/// - A process has at most one profiler or [`MigrationCounter`] at a time, because CUPTI has one set of callbacks. A profiler can be
///   started and stopped repeatedly. A drop without a stop ends the profile and discards it.
/// - Start it before the first managed buffer: CUPTI omits memory that was allocated before its first start (seen with CUDA 13.0 on an
///   H200). Buffers that already exist are in the trace from the first operation that uses them.
/// - It collects the records of the whole process, and the operations of the given runtime (and of others over the same driver).
/// - Its memory is bounded ([`start_with`](Self::start_with)); the trace counts the omitted records and operations.
#[doc(alias = "cuptiActivityEnable")]
pub struct Profiler {
    collection: Option<Collection>,
    marker: Option<Marker>,
    recorder: Arc<Recorder>,
    observing: Option<Observing>,
    runtime: Runtime,
    source: Source,
    _running: Running,
}

impl Profiler {
    /// Opens CUPTI and begins to collect.
    ///
    /// The CUPTI library is `CUDA_UM_CUPTI` (a trusted path) if it is set, otherwise the library for the runtime's version; the simulator
    /// has its own.
    ///
    /// # Errors
    /// [`ProfileError::Missing`] and [`ProfileError::TooOld`] if there is no usable CUPTI; [`ProfileError::Refused`] if CUPTI does not
    /// collect (the process has no profiling permission, or another profiler uses CUPTI); [`ProfileError::AlreadyRunning`];
    /// [`ProfileError::NoDevice`]. The program can continue without a profile.
    pub fn start(runtime: &Runtime) -> Result<Self, ProfileError> {
        Self::start_with(runtime, 1_000_000)
    }

    /// Does the same as [`start`](Self::start), with at most `max_records` records of managed memory, about 64 bytes each, operations and runs
    /// of kernels (each), in place of 1,000,000. [`Trace::dropped_records`] and [`Trace::dropped_operations`] count the others.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_with(runtime: &Runtime, max_records: usize) -> Result<Self, ProfileError> {
        let devices = runtime.device_count().map_err(Box::new)?;
        let running = Running::take()?;
        let cupti = cupti_of(runtime)?;
        let source = Source {
            name: match cupti.is_library() {
                true => "CUPTI".to_owned(),
                false => "simulator".to_owned(),
            },
            cuda: runtime.version().to_string(),
        };
        let keep = Keep {
            records: max_records,
            buffers: CUPTI_BUFFERS,
        };
        let collection = Collection::start(cupti, devices as u32, keep)?;
        let marker = Marker::new(&collection, runtime);
        let clock = Box::new(collection.clock());
        let recorder = Arc::new(Recorder::new(runtime.clone(), clock, max_records));
        Ok(Self {
            collection: Some(collection),
            marker,
            observing: Some(observe(Arc::clone(&recorder) as _)),
            recorder,
            runtime: runtime.clone(),
            source,
            _running: running,
        })
    }

    /// Ends the profile and returns the trace.
    ///
    /// # Ordering
    /// Waits for all work on the runtime's devices, so that its records are complete. If that work fails, the trace has the records up to
    /// then; the error stays with the device, whose next call reports it.
    ///
    /// # Errors
    /// [`ProfileError::Refused`] if CUPTI cannot deliver its records; [`ProfileError::NoDevice`] in a child made by `fork`.
    pub fn stop(mut self) -> Result<Trace, ProfileError> {
        fork::check("Profiler::stop").map_err(Box::new)?;
        let devices = self.runtime.open_devices();
        for device in &devices {
            if let Err(error) = device.synchronize() {
                let device = device.ordinal();
                tracing::warn!(target: "cuda_um", device, %error, "profile may be incomplete: work failed");
            }
        }
        drop(self.observing.take());
        let Some(collection) = self.collection.take() else {
            return Ok(Trace::default());
        };
        let mut session = self.recorder.end();
        let end = session.end;
        flush::flush(&collection, self.marker.as_ref())?;
        let cupti::Collected {
            mut records,
            kernels,
            counts,
            records_over,
            kernels_over,
        } = collection.finish()?;
        records.sort_by_key(|record| record.start);
        session.close();
        let kernels = matching::match_launches(kernels, &session.operations);
        let devices = devices.iter().map(|device| DeviceInfo {
            ordinal: device.ordinal(),
            name: device.name().to_owned(),
            memory_bytes: device
                .memory_info()
                .map_or(0, |info| info.total_bytes as u64),
            concurrent_managed_access: device.capabilities().concurrent_managed_access,
        });
        let trace = Trace {
            format: Trace::FORMAT,
            source: std::mem::take(&mut self.source),
            devices: devices.collect(),
            start: session.start,
            end: end.max(session.start),
            buffers: session.buffers,
            operations: session.operations,
            kernels,
            records,
            dropped_records: counts.dropped_records + records_over,
            dropped_operations: session.dropped + kernels_over,
        };
        if trace.dropped_records + trace.dropped_operations > 0 {
            tracing::warn!(target: "cuda_um",
                records = trace.dropped_records,
                operations = trace.dropped_operations,
                "profile truncated: record limit reached"
            );
        }
        Ok(trace)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if fork::is_over() {
            return;
        }
        drop(self.observing.take());
        drop(self.collection.take());
    }
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiler")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Runs `work`, and returns its result and a [`Trace`] of it: a [`Profiler`] around a closure.
///
/// # Ordering
/// The same as for [`Profiler::stop`].
///
/// # Errors
/// The errors of [`Profiler::start`], before `work` runs; and the errors of [`Profiler::stop`], after which the result of `work` is
/// lost.
pub fn profile<R>(runtime: &Runtime, work: impl FnOnce() -> R) -> Result<(R, Trace), ProfileError> {
    let profiler = Profiler::start(runtime)?;
    let result = work();
    Ok((result, profiler.stop()?))
}
