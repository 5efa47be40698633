//! What a graph and its executable graphs share.

use crate::context::capture::{KernelNode, NamedScalar, Recorded, SlotUse};
use crate::context::device::Device;
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight};
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::kernel::module::Loaded;
use crate::resource::allocation::Allocation;
use crate::sync::Mutex;
use cuda_um_sys::cudaGraph_t;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub(super) struct Contents {
    // Before the memory and the modules that it refers to. Only one thread may use it at a time.
    pub(super) graph: Mutex<Owned<cudaGraph_t>>,
    pub(super) device: Device,
    pub(super) slots: Vec<SlotUse>,
    pub(super) kernels: Vec<KernelNode>,
    pub(super) others: usize,
    pub(super) scalars: Vec<NamedScalar>,
}

impl Contents {
    pub(super) fn of(device: Device, recorded: Recorded) -> Self {
        Self {
            graph: Mutex::new(recorded.graph),
            device,
            slots: recorded.slots,
            kernels: recorded.kernels,
            others: recorded.others,
            scalars: recorded.scalars,
        }
    }

    /// A handle for an executable graph, which has the memory that belongs to the graph alone: each launch has exclusive access to it. The caller
    /// holds the lock of `graph`, so that no other thread takes one meanwhile.
    pub(super) fn take(self: &Arc<Self>) -> Result<Arc<Self>> {
        let has_memory = self.slots.iter().any(|slot| slot.kept.is_some());
        // One handle is that of the graph itself.
        if has_memory && Arc::strong_count(self) > 1 {
            return Err(Error::Busy {
                what: "the graph".to_owned(),
                by: "another executable graph has the buffers that were dropped in the capture: drop it, capture again, or make these buffers before the capture".to_owned(),
            });
        }
        // The drop of a handle releases: the launches of one executable graph, and their uses of the memory, are before those of the next one.
        fence(Ordering::Acquire);
        Ok(Arc::clone(self))
    }

    /// The kernels stay loaded until these launches are complete.
    pub(super) fn keep_kernels(&self, launches: &InFlight) {
        let mut last = None;
        for kernel in &self.kernels {
            if let Some(module) = kernel.module.downcast_ref::<Loaded>()
                // Most launches in a row are of one module.
                && last.replace(std::ptr::from_ref(module)) != Some(std::ptr::from_ref(module))
            {
                module.in_flight.inherit(launches);
            }
        }
    }
}

impl SlotUse {
    pub(super) fn kept_part(&self) -> Option<Part<'_>> {
        let access = if self.writes {
            Access::Write
        } else {
            Access::Read
        };
        let kept = self.kept.as_ref()?.downcast_ref::<Allocation>()?;
        Some(kept.part_of(self.bytes.clone(), access))
    }

    /// Selects what a launch got for this memory, and says what is wrong with it.
    pub(super) fn check<'p>(&self, part: &Part<'p>) -> Result<Part<'p>> {
        let (given, needed, writes) = (&part.bytes, &self.bytes, self.writes);
        let may_write = part.access.is_write();
        if given.start <= needed.start && needed.end <= given.end && (may_write || !writes) {
            let access = if writes { part.access } else { Access::Read };
            return Ok(Part {
                access,
                ..part.clone()
            });
        }
        let access = if may_write { "to write" } else { "to read" };
        Err(self.needs(format!(
            "{}, bytes {}..{}, {access}",
            self.title, given.start, given.end
        )))
    }

    pub(super) fn missing(&self, given: usize) -> Error {
        self.needs(format!("{given} buffers without {}", self.title))
    }

    #[cold]
    fn needs(&self, value: String) -> Error {
        let (how, bytes) = (if self.writes { "&mut " } else { "&" }, &self.bytes);
        Error::InvalidArgument {
            what: "the arguments of a graph's launch",
            value,
            reason: format!(
                "the graph uses its bytes {}..{}: pass `{how}buffer`",
                bytes.start, bytes.end
            ),
        }
    }
}
