//! Executable graphs: launches, parameters, updates.
#![allow(unsafe_code, reason = "passes handles and addresses to CUDA")]

mod change;
mod residency;

use crate::context::capture::{self, KernelNode, Kind, Node, kernels};
use crate::context::enqueue::enqueue_op;
use crate::context::observer::What;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight};
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::graph::Graph;
use crate::graph::contents::{Contents, Required, Taken};
use crate::kernel::argument::KernelArgs;
use crate::kernel::arguments::Arguments;
use crate::kernel::launch::elsewhere;
use crate::sync::outside;
use change::Refusal;
use cuda_um_sys::cudaGraphExec_t;
use smallvec::SmallVec;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// An executable graph, from [`Graph::instantiate`].
///
/// The kernels, and the memory that belongs to the graph, stay until its last launch is complete. A drop does not wait.
#[doc(alias = "cudaGraphExec_t")]
pub struct GraphExec {
    /// The work of later launches.
    contents: Taken,
    /// The graph that this was made from, whose nodes name the work also after an update.
    origin: Arc<Contents>,
    raw: ManuallyDrop<Owned<cudaGraphExec_t>>,
    /// What each launch must get, in the order of the slots.
    required: Vec<Required>,
    /// The index of each slot's argument in the last launch.
    order: Vec<usize>,
    /// The values of kernels whose parameters were set.
    changed: Vec<(usize, KernelNode)>,
    /// The name of the launch in traces.
    name: String,
    in_flight: InFlight,
    /// Why no launch is possible, after a change of buffers or values.
    refusal: Option<Refusal>,
}

impl GraphExec {
    pub(super) fn of(contents: &Arc<Contents>) -> Result<Self> {
        let taken = contents.take()?;
        let (device, ordinal) = (&contents.device, contents.device.ordinal());
        let raw = {
            let graph = contents.graph.lock();
            // SAFETY: the graph is live, and the lock keeps other threads off.
            unsafe { device.api().graph_instantiate(ordinal, graph.raw()) }?
        };
        // SAFETY: the object is new.
        let raw = unsafe { Owned::new(device.api(), ordinal, raw) };
        let mut exec = Self {
            contents: taken,
            origin: Arc::clone(contents),
            raw: ManuallyDrop::new(raw),
            required: Vec::new(),
            order: Vec::new(),
            changed: Vec::new(),
            name: String::new(),
            in_flight: InFlight::default(),
            refusal: None,
        };
        exec.follow();
        Ok(exec)
    }

    /// Takes what the graph requires of each launch.
    fn follow(&mut self) {
        let slots = self.contents.slots.iter();
        self.required = slots.map(Required::of).collect();
        self.order = (0..self.required.len()).collect();
        self.changed.clear();
        self.refusal = None;
        let nodes = &self.contents.nodes;
        let is_kernel = |node: &&Node| matches!(node.kind, Kind::Kernel(_));
        let others = nodes.len() - nodes.iter().filter(is_kernel).count();
        let kernels = kernels(nodes).len();
        self.name = format!("graph of {kernels} kernels and {others} other operations");
    }

    /// Enqueues all work of the graph on a stream, with one call
    /// ([`cudaGraphLaunch`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html)).
    ///
    /// `buffers` are the buffers that the recorded work uses, as for [`Kernel::launch`](crate::Kernel::launch): `&buffer` (or a
    /// [`View`](crate::View)) for those that it only reads, `&mut buffer` (or a [`ViewMut`](crate::ViewMut)) for those that it writes. Each must have
    /// the memory that was recorded, all bytes that the work uses; their order is free (that of the first uses is the fastest). Other buffers, and
    /// values, are ignored. [`Arguments`](crate::kernel::Arguments) is for more than 16.
    ///
    /// # Ordering
    ///
    /// The work is enqueued on the stream when this returns, after earlier uses of the buffers on any stream that it must not overlap, and after
    /// earlier launches of the same executable graph. Host guards, later work and the drops of the buffers are ordered after it.
    ///
    /// Before it, on the same stream: recorded advice, at the first launch; then one prefetch for the managed memory that may have left the
    /// graph's device since the last launch (after an access of the host, for example), because a graph that faults is slow. It is left out for
    /// buffers with advice of the program, and while host guards of the buffer live. A prefetch that was recorded names another place.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidArgument`] if a buffer is missing, is borrowed to read though the work writes it, or is a view without bytes that the
    ///   work uses; if [`set_buffer`](Self::set_buffer) gave one buffer two places, and the work writes one; after a change that CUDA could not
    ///   undo.
    /// - [`Error::DeviceMismatch`], [`Error::RuntimeMismatch`], [`Error::Busy`] as for a launch of a kernel.
    /// - [`Error::Capture`] on a stream that this thread captures.
    /// - The errors of `cudaMemAdvise`, `cudaMemPrefetchAsync` and `cudaGraphLaunch`.
    #[doc(alias = "cudaGraphLaunch")]
    pub fn launch(&mut self, stream: &Stream, buffers: impl KernelArgs) -> Result<()> {
        buffers.collect(|arguments| self.launch_list(stream, arguments, arguments.parts()))
    }

    /// Does the same as [`launch`](Self::launch), with two lists. Not part of the public interface: crates of this workspace use it.
    #[doc(hidden)]
    pub fn launch_with(
        &mut self,
        stream: &Stream,
        buffers: impl KernelArgs,
        others: impl KernelArgs,
    ) -> Result<()> {
        buffers.collect(|buffers| {
            others.collect(|others| {
                others.check(&self.contents.device)?;
                let parts = buffers.parts().iter().chain(others.parts());
                let parts: SmallVec<[Part<'_>; 16]> = parts.cloned().collect();
                self.launch_list(stream, buffers, &parts)
            })
        })
    }

    fn launch_list(
        &mut self,
        stream: &Stream,
        arguments: &Arguments<'_>,
        given: &[Part<'_>],
    ) -> Result<()> {
        fork::check("cudaGraphLaunch")?;
        self.check_changes()?;
        let contents = Arc::clone(&self.contents);
        let (device, inner) = (&contents.device, stream.inner());
        if inner.device().identity() != device.state().identity() {
            return Err(elsewhere(stream, device));
        }
        if capture::is_active() {
            capture::refuse("a launch of a graph", NESTED, inner, given)?;
        }
        arguments.check(device)?;
        let parts = self.parts(&contents, given)?;
        if self
            .required
            .iter()
            .any(|slot| !slot.used.advice.is_empty())
        {
            // This thread may capture other work: then the launch is no part of that.
            outside(|| residency::advise(&mut self.required, &parts))?;
        }
        residency::bring_in(&mut self.required, &parts, stream)?;
        let used = (device, Some(&self.in_flight));
        let what = What::Graph { name: &self.name };
        enqueue_op(what, used, stream, &parts, |stream| {
            // SAFETY: all memory of the graph is in the parts, which track this use; `self` is borrowed exclusively, and waits for its launches
            // before the executable graph is destroyed.
            unsafe {
                device
                    .api()
                    .graph_launch(device.ordinal(), self.raw.raw(), stream)
            }
        })
    }

    /// The memory of each slot with bytes, from the arguments and from the graph.
    fn parts<'p>(
        &mut self,
        contents: &'p Contents,
        given: &[Part<'p>],
    ) -> Result<SmallVec<[Part<'p>; 16]>> {
        let mut parts = SmallVec::new();
        for (index, required) in self.required.iter().enumerate() {
            if required.used.bytes.is_empty() {
                continue;
            }
            if let Some(kept) = contents.slots[index].kept_part() {
                parts.push(kept);
                continue;
            }
            let is_it = |part: &Part<'p>| part.memory.id() == required.memory.id;
            let expected = given.get(self.order[index]).filter(|part| is_it(part));
            let part = match expected {
                Some(part) => part,
                None => {
                    let at = given.iter().position(is_it);
                    let at = at.ok_or_else(|| required.missing(given.len()))?;
                    self.order[index] = at;
                    &given[at]
                }
            };
            parts.push(required.check(part)?);
        }
        Ok(parts)
    }

    /// Takes the work of a new capture of the same shape, for later launches: the same kinds of work in the same order.
    ///
    /// It is faster than a new executable graph. Launches take the buffers of the new graph from now on, and parameters are those of the new one.
    ///
    /// # Ordering
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the shape differs: it names the work that differs, and nothing has changed. [`Error::Busy`] for a graph with
    /// memory of its own that another executable graph has, as for [`Graph::instantiate`]. [`Error::DeviceMismatch`] and
    /// [`Error::RuntimeMismatch`] for a graph of another device. After an error of `cudaGraphExecUpdate`, launches are refused until an update
    /// succeeds.
    #[doc(alias = "cudaGraphExecUpdate")]
    pub fn update(&mut self, graph: &Graph) -> Result<()> {
        let (device, new) = (&self.contents.device, &graph.contents);
        if device.state().identity() != new.device.state().identity() {
            return Err(match device.runtime().is_same(new.device.runtime()) {
                false => Error::RuntimeMismatch { what: "the graph" },
                true => Error::DeviceMismatch {
                    what: "the graph",
                    expected: device.ordinal(),
                    found: new.device.ordinal(),
                },
            });
        }
        // The kinds, and the work that each work is after. CUDA compares both as well, but it may pair work that was recorded in another order.
        let of_kind = |contents: &Contents| {
            let nodes = contents.nodes.iter().enumerate();
            let kinds = nodes
                .map(|(index, node)| (std::mem::discriminant(&node.kind), contents.after(index)));
            kinds.collect::<Vec<_>>()
        };
        let differs = |work: String, reason: &str| Error::InvalidArgument {
            what: "the graph of an update",
            value: work,
            reason: format!("{reason}: instantiate the new graph"),
        };
        if let Some(at) = new.nodes.iter().position(|node| node.kind.is_body()) {
            let work = format!("one whose work {at} is {}", new.nodes[at].kind.name());
            return Err(differs(work, "the bodies of conditions are not updated"));
        }
        let (before, after) = (of_kind(&self.origin), of_kind(new));
        if before != after {
            let same = before
                .iter()
                .zip(&after)
                .take_while(|(a, b)| a == b)
                .count();
            let work = new
                .nodes
                .get(same)
                .map_or("one with less work".to_owned(), |node| {
                    let is_kind = before.get(same).map(|(kind, _)| *kind)
                        == Some(std::mem::discriminant(&node.kind));
                    let how = if is_kind { ", after other work" } else { "" };
                    format!("one whose work {same} is {}{how}", node.kind.name())
                });
            return Err(differs(
                work,
                "the executable graph was made from other work",
            ));
        }
        let taken = match Arc::ptr_eq(&self.contents, new) {
            true => None,
            false => Some(new.take()?),
        };
        let updated = {
            let raw = new.graph.lock();
            // SAFETY: both are live; `self` is borrowed exclusively, and the lock keeps other threads off the graph.
            let updated = unsafe {
                device
                    .api()
                    .graph_update(device.ordinal(), self.raw.raw(), raw.raw())
            };
            // It is not known which work the executable graph has now.
            updated.inspect_err(|_| self.refusal = Some(Refusal::Mixed))?
        };
        if let Err(refused) = updated {
            let mut named = [new, &self.origin].into_iter();
            let named = named.find_map(|contents| contents.name_of(refused.node));
            let work = named.unwrap_or_else(|| "one of another shape".to_owned());
            let result = refused.result.0;
            return Err(differs(
                work,
                &format!("CUDA refuses it (cudaGraphExecUpdateResult {result})"),
            ));
        }
        // Launches of the work before may still run.
        self.contents.keep_kernels(&self.in_flight);
        if let Some(taken) = taken {
            self.contents = taken;
        }
        self.follow();
        Ok(())
    }
}

/// Why a graph cannot be launched in a capture.
const NESTED: &str = "a graph does not contain other graphs: launch both, one after the other, when the capture has ended";

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: the handle is not used again.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        // Otherwise the drop of the handle does nothing, either.
        if !fork::is_over() {
            self.contents.keep_kernels(&self.in_flight);
            let uses = self.in_flight.before(Access::Write);
            self.contents.device.destroy_after(uses, raw);
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec")
            .field("device", &self.contents.device.ordinal())
            .field("what", &self.name)
            .field("buffers", &self.required.len())
            .finish_non_exhaustive()
    }
}
