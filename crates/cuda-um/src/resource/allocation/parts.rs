//! Allocations that are parts of one.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::context::op::What;
use crate::context::tracker::InFlight;
use crate::driver::location::Location;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Block, Uses};
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cuda_um_sys::cudaMemoryAdvise;
use std::ops::Range;
use std::sync::Arc;

/// The memory of parts, which goes back when the last part is dropped.
struct Whole {
    /// `None` only while it is dropped.
    memory: Option<Allocation>,
    traits: Traits,
    /// The parts that did not come back.
    out: AtomicUsize,
    /// How often pages of a part may have left the device, and those of its neighbours with them.
    departures: AtomicU64,
}

impl Allocation {
    /// Makes an allocation of each of these ranges of bytes, which do not overlap. The work of a part is ordered after the work of the whole memory
    /// until now, and not after that of other parts.
    pub(crate) fn into_parts(mut self, parts: Vec<Range<usize>>) -> impl Iterator<Item = Self> {
        // From here on observers see the parts.
        self.tell(What::Free);
        let label = self.label.replace(Label::slab());
        let (block, chosen) = (self.block_now(), self.chosen);
        let is_read_only = self.is_read_only;
        let device = self.device().clone();
        self.in_flight.prune();
        let uses = InFlight::inherited(&self.in_flight);
        let whole = Arc::new(Whole {
            traits: Traits {
                can_give: false,
                ..self.owner.traits().clone()
            },
            out: AtomicUsize::new(0),
            departures: AtomicU64::new(0),
            memory: Some(self),
        });
        parts.into_iter().map(move |range| {
            let mut part = match range.len() {
                0 => Self::empty::<u128>(&device),
                bytes => {
                    let block = Block {
                        is_away: block.is_away,
                        ..Block::new(block.address.offset(range.start), bytes)
                    };
                    let uses = Uses::of(Some(InFlight::inherited(&uses)));
                    whole.out.fetch_add(1, Ordering::Relaxed);
                    Self::of_block(
                        Arc::clone(&whole) as _,
                        Some(device.for_buffer()),
                        block,
                        uses,
                    )
                }
            };
            part.chosen = chosen;
            part.is_read_only = is_read_only;
            part.rate();
            label.into_iter().for_each(|label| part.set_label(label));
            part
        })
    }
}

impl Whole {
    /// The memory, as its owner knows it.
    fn owned(&self) -> Option<(&Arc<dyn Owner>, &Block)> {
        self.memory.as_ref().map(|all| (&all.owner, &all.block))
    }

    fn take_back(&self, block: &Block, uses: Option<&InFlight>) {
        if let Some(memory) = &self.memory {
            uses.into_iter()
                .for_each(|uses| memory.in_flight.inherit(uses));
            if block.is_away {
                memory.pages.lost();
            }
        }
        // Release: the uses are there before the last part is back.
        self.out.fetch_sub(1, Ordering::Release);
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
        let (owner, _) = self.owned()?;
        Arc::clone(owner).allocate_again(device, bytes)
    }

    fn track_advice(&self, range: Range<usize>, advice: cudaMemoryAdvise, location: Location) {
        if let Some((owner, _)) = self.owned() {
            owner.track_advice(range, advice, location);
        }
    }

    fn left_device(&self, _: &Block) {
        self.departures.fetch_add(1, Ordering::Relaxed);
        if let Some((owner, block)) = self.owned() {
            owner.left_device(block);
        }
    }

    fn departures(&self, _: &Block) -> u64 {
        let of_owner = self
            .owned()
            .map_or(0, |(owner, block)| owner.departures(block));
        of_owner.wrapping_add(self.departures.load(Ordering::Relaxed))
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        self.take_back(block, None);
        Ok(None)
    }

    /// The memory goes back after the uses.
    unsafe fn release(&self, released: Released<'_>) {
        let uses = released.uses.into_left();
        self.take_back(&released.block, uses.as_deref());
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let memory = self.memory.take();
        // Acquire: the last part's uses are there.
        if self.out.load(Ordering::Acquire) > 0 {
            // Work that could not be waited for may still use a part.
            memory.into_iter().for_each(Allocation::leak);
        }
    }
}
