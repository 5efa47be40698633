//! Allocations that are parts of one.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::context::op::What;
use crate::context::tracker::InFlight;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::arena::DeviceArena;
use crate::resource::block::Block;
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// Memory that several allocations share. It goes back when the last of them, and the last handle, is dropped.
pub(crate) struct Whole {
    memory: ManuallyDrop<Allocation>,
    traits: Traits,
    /// The parts that did not come back.
    out: AtomicUsize,
    /// The slots of an arena, where parts follow each other.
    pub(crate) slots: Mutex<Box<[Slot]>>,
}

/// A slot of an arena, with the uses of its last buffer; `None` while a buffer has it, or if it is lost.
pub(crate) type Slot = Option<Arc<InFlight>>;

impl Allocation {
    /// Makes an allocation of each of these ranges of bytes, which do not overlap. The work of a part is ordered after the work of the whole memory
    /// until now, and not after that of other parts.
    pub(crate) fn into_parts(mut self, parts: Vec<Range<usize>>) -> impl Iterator<Item = Self> {
        // From here on observers see the parts.
        self.tell(What::Free);
        let label = self.label.replace(Label::slab());
        let (chosen, is_away) = (self.chosen, self.pages.is_away());
        let is_read_only = self.is_read_only;
        let device = self.device().clone();
        self.in_flight.prune();
        let uses = InFlight::inherited(&self.in_flight);
        let name = self.traits().name;
        let whole = Arc::new(Whole::new(self, name, 0));
        parts.into_iter().map(move |range| {
            let mut part = match range.len() {
                0 => Self::empty::<u128>(&device),
                bytes => {
                    let part = whole.part(range.start, (bytes, bytes), is_away);
                    part.in_flight.inherit(&uses);
                    part
                }
            };
            part.chosen = chosen;
            if is_read_only {
                part.refuse_writes();
            }
            label.into_iter().for_each(|label| part.set_label(label));
            part
        })
    }
}

impl Whole {
    pub(crate) fn new(memory: Allocation, name: &'static str, slots: usize) -> Self {
        let traits = memory.traits().clone();
        let traits = Traits {
            can_give: false,
            name,
            pages: Some(traits.pages.unwrap_or_default()),
            ..traits
        };
        let uses = Arc::new(InFlight::inherited(&memory.in_flight));
        Self {
            traits,
            out: AtomicUsize::new(0),
            slots: Mutex::new(vec![Some(uses); slots].into()),
            memory: ManuallyDrop::new(memory),
        }
    }

    /// Makes an allocation of the bytes from `start` on, which no other one has: of so many bytes, in so many.
    pub(crate) fn part(
        self: &Arc<Self>,
        start: usize,
        (bytes, reserved_bytes): (usize, usize),
        is_away: bool,
    ) -> Allocation {
        let memory = &self.memory;
        let mut block = Block::new(memory.address.offset(start), bytes);
        (block.reserved_bytes, block.is_away) = (reserved_bytes, is_away);
        self.out.fetch_add(1, Ordering::Relaxed);
        let device = Some(memory.device().for_buffer());
        Allocation::of_block(Arc::clone(self) as _, device, block)
    }
}

impl Owner for Whole {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(
        self: Arc<Self>,
        device: &Device,
        bytes: usize,
    ) -> Option<Result<Allocation>> {
        // A place in an arena is the caller's choice.
        let is_arena = !self.slots.lock().is_empty();
        let owner = (!is_arena).then(|| Arc::clone(&self.memory.owner))?;
        owner.allocate_again(device, bytes)
    }

    /// The memory goes back after the uses of its parts.
    unsafe fn free(&self, block: Box<Block>) -> Result<Held> {
        let memory = &self.memory;
        let mut slots = self.slots.lock();
        if slots.is_empty() {
            memory.in_flight.inherit(&block.in_flight);
            if block.is_away {
                memory.pages.lost();
            }
        } else {
            let first = (block.at() - memory.at()) / DeviceArena::SLOT_BYTES;
            let end = first + block.reserved_bytes / DeviceArena::SLOT_BYTES;
            slots[first..end].fill(Some(Arc::new(block.in_flight)));
        }
        // Release: the uses are there before the last part is back.
        self.out.fetch_sub(1, Ordering::Release);
        Ok(None)
    }

    unsafe fn release(&self, mut released: Released<'_>) {
        released.block.in_flight.retire();
        // SAFETY: guaranteed by the caller; memory in use may be taken back.
        let _ = unsafe { self.free(released.block) };
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: it is taken once, and not used again.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        // Acquire: the last part's uses are there.
        if self.out.load(Ordering::Acquire) > 0 {
            // Work that could not be waited for may still use a part.
            return memory.leak();
        }
        let uses = self.slots.get_mut().iter().flatten();
        uses.for_each(|uses| memory.in_flight.inherit(uses));
    }
}
