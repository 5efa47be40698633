//! Executable graphs: launches, and the values of named scalars.
#![allow(unsafe_code, reason = "passes handles and addresses to CUDA")]

mod residency;
mod scalars;

use crate::context::capture::NamedScalar;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight};
use crate::driver::owned::Owned;
use crate::error::Result;
use crate::graph::contents::Contents;
use crate::kernel::argument::KernelArgs;
use crate::kernel::launch::elsewhere;
use crate::sync::outside;
use cuda_um_sys::cudaGraphExec_t;
use smallvec::SmallVec;
use std::sync::Arc;

/// An executable graph, from [`Graph::instantiate`](crate::graph::Graph::instantiate).
///
/// The kernels, and the memory that belongs to the graph, stay until its last launch is complete. A drop does not wait.
#[doc(alias = "cudaGraphExec_t")]
pub struct GraphExec {
    contents: Arc<Contents>,
    raw: Owned<cudaGraphExec_t>,
    /// The departures of the neighbours of each slot's memory before the last launch.
    departures: Vec<u64>,
    /// True after the recorded advice was given.
    is_advised: bool,
    /// The index of each slot's argument in the last launch.
    order: Vec<usize>,
    /// The named scalars, with the values of later launches.
    scalars: Vec<NamedScalar>,
    name: String,
    in_flight: InFlight,
    /// True after a change of a scalar that failed half-way: launches have old and new values.
    is_mixed: bool,
}

impl GraphExec {
    pub(super) fn of(contents: &Arc<Contents>) -> Result<Self> {
        let (device, ordinal) = (&contents.device, contents.device.ordinal());
        let (taken, raw) = {
            let graph = contents.graph.lock();
            let taken = contents.take()?;
            // SAFETY: the graph is live, and the lock keeps other threads off.
            let raw = unsafe { device.api().graph_instantiate(ordinal, graph.raw()) }?;
            (taken, raw)
        };
        // SAFETY: the object is new.
        let raw = unsafe { Owned::new(device.api(), ordinal, raw) };
        let (kernels, others) = (contents.kernels.len(), contents.others);
        let slots = contents.slots.len();
        Ok(Self {
            contents: taken,
            raw,
            order: (0..slots).collect(),
            departures: vec![0; slots],
            is_advised: false,
            scalars: contents.scalars.clone(),
            name: format!("graph of {kernels} kernels and {others} other operations"),
            in_flight: InFlight::default(),
            is_mixed: false,
        })
    }

    /// Enqueues all work of the graph on a stream, with one call
    /// ([`cudaGraphLaunch`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html)).
    ///
    /// `buffers` are the buffers that the recorded work uses, as for [`Kernel::launch`](crate::Kernel::launch), to read or to write. Each must
    /// have the memory that was recorded, all bytes that the work uses; their order is free. Other buffers, and values, are ignored.
    ///
    /// # Ordering
    ///
    /// The work is enqueued on the stream when this returns, after earlier uses of the buffers on any stream that it must not overlap, and after
    /// earlier launches of the same executable graph. Host guards, later work and the drops of the buffers are ordered after it.
    ///
    /// Before it, recorded advice is given at the first launch, and managed memory that may have left the graph's device, or the place of a recorded
    /// prefetch, is prefetched, unless the program has given advice for the buffer or a host guard of it lives.
    ///
    /// # Errors
    ///
    /// - [`InvalidArgument`] if a buffer, or bytes of it, are missing, or it is borrowed to read though the work writes it; after a
    ///   [`set`](Self::set) that CUDA could not undo.
    /// - [`DeviceMismatch`], [`RuntimeMismatch`], [`Busy`] as for a launch of a kernel.
    /// - [`Capture`] on a stream that this thread captures.
    /// - The errors of `cudaMemAdvise`, `cudaMemPrefetchAsync` and `cudaGraphLaunch`.
    ///
    /// [`InvalidArgument`]: crate::Error::InvalidArgument
    /// [`DeviceMismatch`]: crate::Error::DeviceMismatch
    /// [`RuntimeMismatch`]: crate::Error::RuntimeMismatch
    /// [`Busy`]: crate::Error::Busy
    /// [`Capture`]: crate::Error::Capture
    #[doc(alias = "cudaGraphLaunch")]
    pub fn launch(&mut self, stream: &Stream, buffers: impl KernelArgs) -> Result<()> {
        buffers.collect(|arguments| self.launch_list(stream, arguments.parts()))
    }

    /// Does the same as [`launch`](Self::launch), with two lists.
    #[doc(hidden)]
    pub fn launch_with(
        &mut self,
        stream: &Stream,
        buffers: impl KernelArgs,
        others: impl KernelArgs,
    ) -> Result<()> {
        buffers.collect(|buffers| {
            others.collect(|others| {
                let parts = buffers.parts().iter().chain(others.parts());
                let parts: SmallVec<[Part<'_>; 16]> = parts.cloned().collect();
                self.launch_list(stream, &parts)
            })
        })
    }

    fn launch_list(&mut self, stream: &Stream, given: &[Part<'_>]) -> Result<()> {
        self.check_scalars()?;
        let contents = Arc::clone(&self.contents);
        let (device, inner) = (&contents.device, stream.inner());
        if inner.device().identity() != device.state().identity() {
            return Err(elsewhere(stream, device));
        }
        let what = What::Graph { name: &self.name };
        let refused = InCapture::Refuses(NESTED);
        stream.admit(&Op::new(what, device, given).in_capture(refused))?;
        let parts = self.parts(&contents, given)?;
        if !self.is_advised {
            // This thread may capture other work: then the launch is no part of that.
            outside(|| residency::advise(&contents, &parts))?;
            self.is_advised = true;
        }
        residency::bring_in(&contents, &mut self.departures, &parts, stream)?;
        let what = What::Graph { name: &self.name };
        let op = Op {
            module: Some(&self.in_flight),
            ..Op::new(what, device, &parts).in_capture(refused)
        };
        stream.submit(&op, |on| {
            // SAFETY: all memory of the graph is in the parts, which track this use; `self` is borrowed exclusively, and waits for its launches
            // before the executable graph is destroyed.
            unsafe {
                device
                    .api()
                    .graph_launch(device.ordinal(), self.raw.raw(), on.raw)
            }
        })
    }

    fn parts<'p>(
        &mut self,
        contents: &'p Contents,
        given: &[Part<'p>],
    ) -> Result<SmallVec<[Part<'p>; 16]>> {
        let mut parts = SmallVec::new();
        for (slot, order) in contents.slots.iter().zip(&mut self.order) {
            if slot.bytes.is_empty() {
                continue;
            }
            if let Some(kept) = slot.kept_part() {
                parts.push(kept);
                continue;
            }
            let is_it = |part: &Part<'p>| part.memory.id() == slot.id;
            let expected = given.get(*order).filter(|part| is_it(part));
            let part = match expected {
                Some(part) => part,
                None => {
                    let at = given.iter().position(is_it);
                    let at = at.ok_or_else(|| slot.missing(given.len()))?;
                    *order = at;
                    &given[at]
                }
            };
            parts.push(slot.check(part)?);
        }
        Ok(parts)
    }
}

const NESTED: &str = "a graph does not contain other graphs: launch both, one after the other, when the capture has ended";

impl Drop for GraphExec {
    fn drop(&mut self) {
        let raw = self.raw.take();
        self.contents.device.destroy_after(raw, || {
            self.contents.keep_kernels(&self.in_flight);
            self.in_flight.before(Access::Write)
        });
    }
}

debug!([] GraphExec, "GraphExec", |it| device: it.contents.device.ordinal(), what: it.name, buffers: it.order.len());
