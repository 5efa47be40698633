//! Executable graphs: launches, parameters, updates.
#![allow(unsafe_code, reason = "passes handles and addresses to CUDA")]

mod residency;

use crate::buffer::any::Memory as AnyMemory;
use crate::context::capture::{self, KernelNode, Kind, Memory};
use crate::context::observer::{Started, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight};
use crate::driver::graph::KernelParameters;
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::graph::contents::{Contents, Required, Slot, Taken};
use crate::graph::{Graph, GraphParameter};
use crate::kernel::argument::KernelArgs;
use crate::kernel::arguments::{Arguments, words};
use crate::kernel::launch::elsewhere;
use bytemuck::NoUninit;
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

/// Why an executable graph cannot be launched.
#[derive(Clone)]
enum Refusal {
    /// Two recorded buffers were replaced by this one, though recorded work writes one of them.
    Twice(String),
    /// A change failed, and could not be undone.
    Mixed,
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
        let kernels = |kind: &Kind| matches!(kind, Kind::Kernel(_));
        let all = self.contents.nodes.len();
        let kernels = self
            .contents
            .nodes
            .iter()
            .filter(|node| kernels(&node.kind))
            .count();
        self.name = format!(
            "graph of {kernels} kernels and {} other operations",
            all - kernels
        );
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
        let started = Started::now(device);
        let parts = self.parts(&contents, given)?;
        // This thread may capture other work: then the launch is no part of that.
        capture::outside(|| residency::advise(&mut self.required, &parts))?;
        residency::bring_in(&mut self.required, &parts, stream)?;
        let _span = crate::telemetry::span!("launch of a graph", device = device.ordinal());
        let used = (device, Some(&self.in_flight));
        started.enqueue(What::Launch(&self.name), used, stream, &parts, |stream| {
            // SAFETY: all memory of the graph is in the parts, which track this use; `self` is borrowed exclusively, and waits for its launches
            // before the executable graph is destroyed.
            unsafe {
                device
                    .api()
                    .graph_launch(device.ordinal(), self.raw.raw(), stream)
            }
        })
    }

    /// Refuses a launch after a change that left the graph unusable.
    fn check_changes(&self) -> Result<()> {
        let (value, reason) = match &self.refusal {
            None => return Ok(()),
            Some(Refusal::Twice(buffer)) => (
                format!("{buffer}, in the place of two"),
                "the graph writes one of them, and uses them as different buffers: set one of them to another buffer",
            ),
            Some(Refusal::Mixed) => (
                "those of a change that failed".to_owned(),
                "CUDA could not undo it, and may have made a part of it: instantiate the graph again, or update it",
            ),
        };
        Err(Error::InvalidArgument {
            what: "the buffers of a graph",
            value,
            reason: reason.to_owned(),
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

    /// Sets a parameter of recorded launches, for later launches of this executable graph.
    ///
    /// # Ordering
    ///
    /// Launches that are enqueued keep the earlier value. The call uses no stream.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a parameter of another graph, and the errors of `cuGraphExecKernelNodeSetParams`: as for
    /// [`set_buffer`](Self::set_buffer).
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub fn set<T: NoUninit>(&mut self, parameter: GraphParameter<T>, value: T) -> Result<()> {
        parameter.check(self.contents.capture)?;
        let value = bytemuck::bytes_of(&value);
        let takes = |kernel: &KernelNode| {
            let mut all = kernel.parameters.iter();
            all.any(|(.., index)| *index == parameter.index)
        };
        self.change(takes, |_, kernel| {
            for (word, bytes, index) in kernel.parameters.clone() {
                if index == parameter.index {
                    let target = &mut kernel.words[word..word + words(bytes as usize)];
                    bytemuck::cast_slice_mut::<u64, u8>(target)[..value.len()]
                        .copy_from_slice(value);
                }
            }
        })
    }

    /// Replaces a buffer in all recorded launches, for later launches of this executable graph, which then take the new one.
    ///
    /// # Ordering
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] and [`Error::InvalidArgument`] for a buffer of another size, another kind of memory or a smaller alignment (up to 16
    /// bytes), for a parameter of another graph, and if recorded work other than launches uses the buffer; [`Error::DeviceMismatch`]; and the
    /// errors of `cuGraphExecKernelNodeSetParams`. Then nothing has changed; if CUDA refuses to undo a part, launches are refused until an
    /// [`update`](Self::update).
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub fn set_buffer<T>(
        &mut self,
        parameter: GraphParameter<[T]>,
        buffer: &impl AnyMemory<T>,
    ) -> Result<()> {
        parameter.check(self.contents.capture)?;
        let (index, view) = (parameter.index as usize, buffer.to_view());
        let part = view.raw.part_of(view.bytes(), Access::Read);
        crate::range::same_length(
            "the buffer of a graph",
            parameter.bytes / size_of::<T>(),
            view.len(),
        )?;
        part.memory.check_kernel_of(&self.contents.device)?;
        self.check_replaceable(index, parameter, &part)?;
        let recorded = &self.contents.slots[index];
        // From the recorded address of the first byte of the parameter to the new one.
        let from = recorded.memory.address + parameter.start;
        let by = part.kernel_address().addr().wrapping_sub(from);
        let used = recorded.used.shifted(parameter.start, view.bytes().start);
        let takes = |kernel: &KernelNode| kernel.addresses.iter().any(|(_, slot)| *slot == index);
        self.change(takes, |recorded, kernel| {
            for (word, _) in recorded.addresses.iter().filter(|(_, slot)| *slot == index) {
                kernel.words[*word] = recorded.words[*word].wrapping_add(by as u64);
            }
        })?;
        self.required[index] = Required {
            memory: Memory::of(&part),
            used,
            departures: 0,
        };
        if !matches!(self.refusal, Some(Refusal::Mixed)) {
            self.refusal = twice(&self.required).map(Refusal::Twice);
        }
        Ok(())
    }

    /// Refuses a buffer that cannot take the place of the one in the slot.
    fn check_replaceable<T>(
        &self,
        index: usize,
        parameter: GraphParameter<[T]>,
        part: &Part<'_>,
    ) -> Result<()> {
        let refuse = |value: String, reason: &str| {
            Err(Error::InvalidArgument {
                what: "the new buffer of a graph",
                value,
                reason: reason.to_owned(),
            })
        };
        let Slot { memory, used, kept } = &self.contents.slots[index];
        let end = parameter.start + parameter.bytes;
        if !used.bytes.is_empty() && (used.bytes.start < parameter.start || used.bytes.end > end) {
            let outside = format!(
                "for the bytes {}..{end} of the recorded one",
                parameter.start
            );
            return refuse(
                outside,
                "recorded work uses other bytes of it, too: make the parameter of the whole buffer",
            );
        }
        let kind = part.memory.describe().kind;
        if kind != memory.kind {
            return refuse(
                format!("{} of {kind} memory", part.memory.title()),
                &format!("the recorded one is {} memory", memory.kind),
            );
        }
        // Kernels may rely on the alignment: of the elements, or of a vector of them.
        let alignment = |address: usize| 1 << address.trailing_zeros().min(4);
        let needed: usize = alignment(memory.address + parameter.start);
        if alignment(part.kernel_address().addr()) < needed {
            return refuse(
                format!("{} from byte {} on", part.memory.title(), part.bytes.start),
                &format!("its address is not a multiple of {needed}, as that of the recorded one"),
            );
        }
        if used.writes {
            part.memory.check_write()?;
        }
        if kept.is_some() {
            return refuse(
                part.memory.title(),
                "the recorded one was dropped in the capture, and belongs to the graph",
            );
        }
        let mut nodes = self.contents.nodes.iter();
        let uses = |uses: &[(usize, Access)]| uses.iter().any(|(slot, _)| *slot == index);
        match nodes.find(|node| uses(&node.uses) && !matches!(node.kind, Kind::Kernel(_))) {
            None => Ok(()),
            Some(node) => refuse(
                part.memory.title(),
                &format!(
                    "recorded work uses the buffer in a {}, and only launches of kernels can take another one",
                    node.kind.name()
                ),
            ),
        }
    }

    /// Changes the recorded launches that `takes` selects, all or none.
    fn change(
        &mut self,
        takes: impl Fn(&KernelNode) -> bool,
        change: impl Fn(&KernelNode, &mut KernelNode),
    ) -> Result<()> {
        let contents = Arc::clone(&self.contents);
        let mut done: Vec<(usize, KernelNode, KernelNode)> = Vec::new();
        for (index, node) in contents.nodes.iter().enumerate() {
            let Kind::Kernel(recorded) = &node.kind else {
                continue;
            };
            if !takes(recorded) {
                continue;
            }
            let changed = self.changed.iter().find(|(of, _)| *of == index);
            let before = changed.map_or_else(|| (**recorded).clone(), |(_, kernel)| kernel.clone());
            let mut after = before.clone();
            change(recorded, &mut after);
            let result = self.set_kernel(index, &mut after);
            done.push((index, before, after));
            if let Err(error) = result {
                // Also the last one: CUDA may report an error of earlier work, and do what was asked.
                for (index, mut before, _) in done {
                    if self.set_kernel(index, &mut before).is_err() {
                        // Buffers of before and of after the change.
                        self.refusal = Some(Refusal::Mixed);
                    }
                }
                return Err(error);
            }
        }
        for (index, _, after) in done {
            self.changed.retain(|(of, _)| *of != index);
            self.changed.push((index, after));
        }
        Ok(())
    }

    fn set_kernel(&mut self, index: usize, kernel: &mut KernelNode) -> Result<()> {
        let device = &self.contents.device;
        let Some(node) = self.origin.nodes[index].nodes.first().copied() else {
            return Ok(());
        };
        let (mut next, mut values) = (kernel.words.as_mut_ptr(), Vec::new());
        for bytes in &kernel.sizes {
            values.push(next.cast());
            next = next.wrapping_add(words(*bytes as usize));
        }
        let parameters = KernelParameters {
            function: kernel.function,
            shape: kernel.shape,
            values: &mut values,
        };
        // SAFETY: `self` is borrowed exclusively; the node is that of this launch, as the update has checked, whose module the graph keeps, and the values are those of the
        // launch but for one of the same size.
        unsafe {
            device
                .api()
                .graph_set_kernel(device.ordinal(), self.raw.raw(), node, parameters)
        }
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

/// The buffer that stands for two recorded ones, of which recorded work writes one.
fn twice(required: &[Required]) -> Option<String> {
    let mut all: Vec<_> = required
        .iter()
        .filter(|slot| !slot.used.bytes.is_empty())
        .collect();
    all.sort_by_key(|slot| slot.memory.id);
    let meet = |a: &Required, b: &Required| {
        let (of_a, of_b) = (&a.used.bytes, &b.used.bytes);
        (a.used.writes || b.used.writes) && of_a.start < of_b.end && of_b.start < of_a.end
    };
    let mut same = all.chunk_by(|a, b| a.memory.id == b.memory.id);
    same.find_map(|same| {
        let mut pairs = (1..same.len()).flat_map(|end| same[..end].iter().map(move |a| (a, end)));
        let found = pairs.find(|(a, end)| meet(a, same[*end]));
        found.map(|(a, _)| a.memory.title.clone())
    })
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
