//! CUDA graphs: work that is recorded once and launched many times, with one call for all of it.
//!
//! [`Stream::capture`] records what a closure enqueues and runs nothing. [`Graph::instantiate`] makes a [`GraphExec`], and
//! [`GraphExec::launch`] enqueues all of the work. A launch takes the buffers that the work uses, as a launch of a kernel does, so it has the same
//! safety and the same ordering: the buffers are borrowed for the call, and track one use each.
//!
//! ```
//! # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
//! use cuda_um::{UnifiedBuffer, constant};
//!
//! let stream = device.create_stream()?;
//! let source = UnifiedBuffer::from_slice(&device, &[1.0f32; 1000])?;
//! let mut target = UnifiedBuffer::<f32>::zeroed(&device, 1000)?;
//! let graph = stream.capture(|_| {
//!     target.fill_on(constant(0.5), &stream)?; // recorded: nothing runs
//!     stream.copy_range(&source, ..500, &mut target, 0)
//! })?;
//! let mut exec = graph.instantiate()?;
//! for _ in 0..3 {
//!     exec.launch(&stream, (&source, &mut target))?; // one call of CUDA for both
//! }
//! assert_eq!(target.host()?[499..501], [1.0, 0.5]);
//! # Ok::<(), cuda_um::Error>(())
//! ```

mod contents;
mod exec;

pub use exec::GraphExec;

use crate::context::capture::{self, Capture, NamedScalar};
#[cfg(doc)]
use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::error::Result;
use crate::scalar::Scalar;
use bytemuck::NoUninit;
use contents::Contents;
use std::any::{TypeId, type_name};
use std::rc::Rc;
use std::sync::Arc;

/// Work that was recorded by [`Stream::capture`]: a template, from which [`instantiate`](Self::instantiate) makes what a stream can launch.
#[doc(alias = "cudaGraph_t")]
pub struct Graph {
    contents: Arc<Contents>,
}

/// A capture that goes on, on this thread: the argument of the closure of [`Stream::capture`].
pub struct Recording<'a> {
    capture: Rc<Capture>,
    stream: &'a Stream,
}

impl Stream {
    /// Records the work that `record` enqueues on this stream, on this thread, into a graph. Nothing of it runs. Operations that name no stream
    /// are recorded, too.
    ///
    /// Recorded are launches of kernels, fills, copies between buffers ([`Stream::copy`]), events, and work of other libraries
    /// ([`Stream::enqueue_foreign`]); on further streams after [`Recording::fork`]. Prefetches and advice become steps before the launches of the
    /// graph, because CUDA cannot capture them. Each value that a kernel or a fill takes is a [`constant`](crate::constant), or has a name
    /// ([`Recording::scalar`]).
    ///
    /// - What this thread does at once (a guard, a copy, the zeros of a new [`PinnedBuffer`](crate::PinnedBuffer), work on another stream), and work
    ///   of other threads and of a `tracing` subscriber, is not recorded; recorded work must not use memory that this thread used at once.
    /// - The closure must not wait for another thread that waits for the whole device ([`Device::synchronize`], and host guards of managed memory
    ///   without concurrent access): that wait ends after the capture.
    /// - A buffer that the closure makes and drops belongs to the graph; after the drop of an import (`from_foreign`) or of registered memory of the
    ///   caller, no launch of the graph is possible. The zeros of other new buffers are written now and in each launch.
    ///
    /// # Ordering
    ///
    /// The capture orders nothing, and waits for nothing. Each launch of the graph is ordered as a launch of a kernel with all its buffers.
    ///
    /// # Errors
    ///
    /// The error of the closure; then nothing is recorded. [`Error::Capture`](crate::Error::Capture) if this thread captures already, in a
    /// `tracing` subscriber, and, whatever the closure returns, after recorded work with memory that was used at once in the closure. In the
    /// closure it is the error of calls that cannot be captured, after which the capture goes on. The errors of CUDA in recorded work, and of
    /// `cudaStreamBeginCapture` and `cudaStreamEndCapture`.
    #[doc(alias = "cudaStreamBeginCapture")]
    #[doc(alias = "cudaStreamEndCapture")]
    pub fn capture(&self, record: impl FnOnce(&Recording<'_>) -> Result<()>) -> Result<Graph> {
        let recording = Recording {
            capture: Capture::begin(self)?,
            stream: self,
        };
        let recorded = record(&recording);
        let ended = recording.capture.end();
        recorded?;
        let contents = Contents::of(self.device(), ended?);
        Ok(Graph {
            contents: Arc::new(contents),
        })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        // After a panic of the closure; otherwise it has ended.
        self.capture.abandon();
    }
}

impl Recording<'_> {
    /// Adds a stream to the capture: its work is recorded, too, to run after what is recorded by now on the first stream, and then concurrently,
    /// unless memory is shared.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for a stream of another device, [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch),
    /// [`Error::LimitExceeded`](crate::Error::LimitExceeded) for more than 8 streams, and the errors of the CUDA functions.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn fork(&self, stream: &Stream) -> Result<()> {
        stream.check_runtime(&self.stream.device(), "the stream")?;
        self.capture.fork(stream.inner())
    }

    /// Gives a value a name: [`GraphExec::set`] changes it in all recorded launches that take it.
    ///
    /// The same name with another type or another value is an error of the launch that takes it.
    pub fn scalar<T: NoUninit>(&self, name: &str, value: T) -> Scalar<T> {
        let index = self.capture.scalar(NamedScalar {
            name: name.to_owned(),
            of: TypeId::of::<T>(),
            type_name: type_name::<T>(),
            value: bytemuck::bytes_of(&value).to_vec(),
        });
        Scalar::named(value, self.capture.id(), index)
    }
}

/// Returns true if this thread captures.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn is_capturing() -> bool {
    capture::current().is_some()
}

#[doc(hidden)]
pub use crate::sync::outside;

impl Graph {
    /// The numbers of the buffers that the launches must get, and whether they are written.
    #[doc(hidden)]
    pub fn required(&self) -> impl Iterator<Item = (u64, bool)> {
        let slots = self.contents.slots.iter();
        let given = slots.filter(|slot| slot.kept.is_none() && !slot.bytes.is_empty());
        given.map(|slot| (slot.id, slot.writes))
    }

    /// Makes an executable graph. A graph may have several, but only one at a time if buffers were dropped in the capture, whose memory it has.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) for a second one of such a graph, and the errors of `cudaGraphInstantiateWithFlags`.
    #[doc(alias = "cudaGraphInstantiate")]
    pub fn instantiate(&self) -> Result<GraphExec> {
        GraphExec::of(&self.contents)
    }
}

debug!([] Graph, "Graph", |it| device: it.contents.device.ordinal(), kernels: it.contents.kernels.len(), buffers: it.contents.slots.len());

debug!([] Recording<'_>, "Recording", |it| stream: it.stream);
