//! CUDA graphs: work that is recorded once and launched many times, with one call for all of it.
//!
//! [`Stream::capture`] records what a closure enqueues and runs nothing. [`Graph::instantiate`] makes a [`GraphExec`], and
//! [`GraphExec::launch`] enqueues all of the work. A launch takes the buffers that the work uses, as a launch of a kernel does, so it has the same
//! safety and the same ordering: the buffers are borrowed for the call, and track one use each.
//!
//! ```
//! # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
//! use cuda_um::UnifiedBuffer;
//!
//! let stream = device.create_stream()?;
//! let source = UnifiedBuffer::from_slice(&device, &[1.0f32; 1000])?;
//! let mut target = UnifiedBuffer::<f32>::zeroed(&device, 1000)?;
//! let graph = stream.capture(|_| {
//!     target.fill_on(0.5, &stream)?; // recorded: nothing runs
//!     stream.copy_range(&source, ..500, &mut target, 0)
//! })?;
//! let mut exec = graph.instantiate()?;
//! for _ in 0..3 {
//!     exec.launch(&stream, (&source, &mut target))?; // one call of CUDA for both
//! }
//! assert_eq!(target.host()?[499..501], [1.0, 0.5]);
//!
//! let other = stream.capture(|_| {
//!     target.fill_on(0.25, &stream)?;
//!     stream.copy_range(&source, ..500, &mut target, 0)
//! })?;
//! exec.update(&other)?; // the same work with other values
//! # Ok::<(), cuda_um::Error>(())
//! ```

mod condition;
mod contents;
mod dot;
mod exec;
mod parameter;

pub use exec::GraphExec;
pub use parameter::GraphParameter;

use crate::buffer::any::Memory;
use crate::context::capture::{self, Capture};
use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::error::Result;
use bytemuck::NoUninit;
use contents::Contents;
use std::fmt;
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
    /// ([`Stream::enqueue_foreign`]); on further streams after [`Recording::fork`]. Work that shares memory is ordered as always, also between
    /// streams. Prefetches and advice become steps before the launches of the graph, because CUDA cannot capture them.
    ///
    /// Work of other threads on this stream, and work on other streams, is not recorded: it runs at once. But a wait for the whole device
    /// ([`Device::synchronize`], and host guards of managed memory without concurrent access) waits until the capture has ended, because CUDA
    /// refuses it: the closure must not wait for a thread that does it. What the host does at once (an allocation,
    /// zeros of a [`PinnedBuffer`](crate::PinnedBuffer)) is done once, and not in each launch. The zeros of a new buffer of device or managed
    /// memory are written once and in each launch. A buffer that the closure makes and drops belongs to the graph from then on, with its address; but an
    /// import (`from_foreign`) or registered memory of the caller ends with its drop, and no launch of the graph is possible. What a `tracing`
    /// subscriber does is not recorded.
    ///
    /// # Ordering
    ///
    /// The capture orders nothing, and waits for nothing. Each launch of the graph is ordered as a launch of a kernel with all its buffers.
    ///
    /// # Errors
    ///
    /// The error of the closure; then nothing is recorded. [`Error::Capture`](crate::Error::Capture) if this thread captures already; and, in the
    /// closure, for calls that cannot be captured: accesses of the host to memory that recorded work uses (guards, copies from and to slices),
    /// waits for a recorded stream or its device, events of other streams. The capture goes on after such an error. After an error of CUDA in
    /// recorded work there is no graph, because CUDA may have recorded a part of that work.
    /// [`Error::NotSupported`](crate::Error::NotSupported) if the runtime has no graphs, and the errors of `cudaStreamBeginCapture` and
    /// `cudaStreamEndCapture`.
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
        let contents = Contents::of(self.device(), recording.capture.id(), ended?);
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
    /// The stream that is captured.
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Adds a stream to the capture: its work is recorded, too, from now on. It runs after the work that is recorded by now on the first stream,
    /// and, beyond that, concurrently, unless memory is shared. The end of the graph is after the work of all streams.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// let (first, second) = (device.create_stream()?, device.create_stream()?);
    /// let mut parts = [0, 1].map(|_| cuda_um::DeviceBuffer::<f32>::zeroed(&device, 1000).unwrap());
    /// let graph = first.capture(|recording| {
    ///     recording.fork(&second)?;
    ///     parts[0].fill_on(1.0, &first)?;
    ///     parts[1].fill_on(2.0, &second)
    /// })?;
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for a stream of another device, [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch),
    /// [`Error::LimitExceeded`](crate::Error::LimitExceeded) for more than 8 streams, and the errors of `cudaStreamCreateWithFlags`,
    /// `cudaEventRecord` and `cudaStreamWaitEvent`.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn fork(&self, stream: &Stream) -> Result<()> {
        stream.check_runtime(&self.stream.device(), "the stream")?;
        self.capture.fork(stream.inner())
    }

    /// Makes a parameter: an argument of recorded launches, with this value, that [`GraphExec::set`] replaces.
    pub fn parameter<T: NoUninit>(&self, value: T) -> GraphParameter<T> {
        let bytes = bytemuck::bytes_of(&value);
        GraphParameter::new(self.capture.id(), self.capture.parameter(bytes), 0..0)
    }

    /// Makes a parameter of a buffer or view, which [`GraphExec::set_buffer`] replaces by another one in all recorded launches.
    pub fn buffer<T>(&self, buffer: &impl Memory<T>) -> GraphParameter<[T]> {
        let view = buffer.to_view();
        let part = view.raw.part_of(view.bytes(), Access::Read);
        let slot = self.capture.slot_of(&part).0;
        GraphParameter::new(self.capture.id(), slot as u32, view.bytes())
    }
}

/// Returns true if this thread captures. Not part of the public interface: crates of this workspace use it.
#[doc(hidden)]
#[inline]
#[must_use]
pub fn is_capturing() -> bool {
    capture::is_active() && capture::current().is_some()
}

/// Does work now, also if this thread captures. Not part of the public interface: crates of this workspace use it.
#[doc(hidden)]
pub fn outside<R>(work: impl FnOnce() -> R) -> R {
    crate::sync::outside(work)
}

impl Graph {
    /// The numbers of the buffers that the launches must get, and whether they are written. Not part of the public interface: crates of this
    /// workspace use it.
    #[doc(hidden)]
    pub fn required(&self) -> impl Iterator<Item = (u64, bool)> {
        let slots = self.contents.slots.iter();
        let given = slots.filter(|slot| slot.kept.is_none() && !slot.used.bytes.is_empty());
        given.map(|slot| (slot.memory.id, slot.used.writes))
    }

    /// Makes an executable graph. Each one can be launched again and again; one graph may have many, but for a graph with memory of its own (buffers
    /// that were dropped in the capture), which has one at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`](crate::Error::Busy) for a second executable graph of a graph with memory of its own, and the errors of
    /// `cudaGraphInstantiateWithFlags`.
    #[doc(alias = "cudaGraphInstantiate")]
    pub fn instantiate(&self) -> Result<GraphExec> {
        GraphExec::of(&self.contents)
    }

    /// The device that the graph runs on.
    pub fn device(&self) -> &Device {
        &self.contents.device
    }

    /// The number of CUDA's nodes. A fill, or work of another library, may have several.
    ///
    /// # Errors
    ///
    /// The errors of `cudaGraphGetNodes`.
    #[doc(alias = "cudaGraphGetNodes")]
    pub fn node_count(&self) -> Result<usize> {
        self.contents.node_count()
    }

    /// The names of the kernels, in the order of their launches in the capture, with those in bodies of conditions.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let kernels = capture::kernels(&self.contents.nodes).into_iter();
        kernels.map(|kernel| &*kernel.name)
    }

    /// The graph as a picture in the language of Graphviz: recorded work with the buffers that it uses, and what runs after what.
    #[doc(alias = "cudaGraphDebugDotPrint")]
    pub fn to_dot(&self) -> String {
        dot::draw(&self.contents)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("device", &self.device().ordinal())
            .field("work", &self.contents.nodes.len())
            .field("buffers", &self.contents.slots.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("stream", self.stream)
            .finish_non_exhaustive()
    }
}
