//! Changes of an executable graph: other values and buffers for recorded launches.

use super::GraphExec;
use crate::buffer::any::Memory as AnyMemory;
use crate::context::capture::{KernelNode, Kind, Memory};
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::graph::KernelParameters;
use crate::error::{Error, Result};
use crate::graph::GraphParameter;
use crate::graph::contents::{Required, Slot};
use crate::kernel::arguments::words;
use bytemuck::NoUninit;
use std::sync::Arc;

/// Why an executable graph cannot be launched.
#[derive(Clone)]
pub(super) enum Refusal {
    /// Two recorded buffers were replaced by this one, though recorded work writes one of them.
    Twice(String),
    /// A change failed, and could not be undone.
    Mixed,
}

impl GraphExec {
    /// Refuses a launch after a change that left the graph unusable.
    pub(super) fn check_changes(&self) -> Result<()> {
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
        let kind = part.memory.info().kind;
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
            if after.words == before.words {
                continue;
            }
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
        // CUDA reads the node: other threads must not use the graph meanwhile.
        let _graph = self.origin.graph.lock();
        // SAFETY: `self` is borrowed exclusively; the node is that of this launch, as the update has checked, whose module the graph keeps; and
        // the values are those of the launch, but for one of the same size.
        unsafe {
            device
                .api()
                .graph_set_kernel(device.ordinal(), self.raw.raw(), node, parameters)
        }
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
