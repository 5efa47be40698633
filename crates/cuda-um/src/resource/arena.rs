//! Device memory of a fixed size, in which the caller chooses the place of each buffer.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::context::tracker::InFlight;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block, Uses};
use crate::resource::kind::MemoryKind;
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::sync::Mutex;
use std::fmt;
use std::sync::Arc;

/// Device memory of a fixed size, allocated once, in slots of 2 MiB. The caller chooses the place of each buffer. A clone is the same arena.
///
/// [`place`](Self::place) makes a buffer in given slots. The driver is not asked for memory again.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::resource::DeviceArena;
///
/// let arena = DeviceArena::new(&device, 8 * DeviceArena::SLOT_BYTES)?;
/// let weights = arena.place::<f32>(0, 1 << 20)?; // slots 0 and 1
/// let refused = arena.place::<u8>(1, 5).unwrap_err();
/// assert!(refused.to_string().contains("slot 1 is in use"));
/// drop(weights);
/// arena.place::<u8>(1, 5)?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// A buffer that is dropped in use leaves its uses in its slots: the work of the next buffer there is ordered after them, on the device.
/// Neither waits on the host.
///
/// # Lifetime
///
/// The memory returns to CUDA when the last handle and the last buffer are dropped, and the work on them is done.
#[derive(Clone)]
pub struct DeviceArena {
    memory: Arc<Memory>,
}

struct Memory {
    /// The allocation; `None` while the arena is dropped.
    slab: Option<Allocation>,
    device: Device,
    traits: Traits,
    address: Address,
    bytes: usize,
    slots: Mutex<Box<[Slot]>>,
}

#[derive(Clone)]
enum Slot {
    /// A buffer has it, or it is lost.
    Taken,
    /// No buffer has it; the uses are those of the last one.
    Free(Option<Arc<InFlight>>),
}

impl DeviceArena {
    /// The size of a slot in bytes.
    pub const SLOT_BYTES: usize = 2 << 20;

    /// Makes the arena of an initialised allocation of whole slots.
    pub(crate) fn of(slab: Allocation) -> Self {
        let uses = Arc::from(InFlight::inherited(&slab.in_flight));
        let bytes = slab.bytes();
        let device = slab.device().clone();
        let name = "device memory of an arena";
        Self {
            memory: Arc::new(Memory {
                traits: Traits::of(device.state(), MemoryKind::Device, name),
                device,
                address: Address::shared(slab.pointer()),
                bytes,
                slots: Mutex::new(vec![Slot::Free(Some(uses)); bytes / Self::SLOT_BYTES].into()),
                slab: Some(slab),
            }),
        }
    }

    /// The device of the arena.
    pub(crate) fn device(&self) -> &Device {
        &self.memory.device
    }

    /// Takes the slots from `first` on for `bytes`, which are not 0, with the uses of their last buffers.
    pub(crate) fn take_at(&self, first: usize, bytes: usize) -> Result<Allocation> {
        let memory = &self.memory;
        let mut slots = memory.slots.lock();
        let end = first.saturating_add(bytes.div_ceil(Self::SLOT_BYTES));
        let refused = |reason| {
            Err(Error::InvalidArgument {
                what: "the place in an arena",
                value: format!("slots {first}..{end}"),
                reason,
            })
        };
        if end > slots.len() {
            return refused(format!("the arena has {} slots", slots.len()));
        }
        let is_taken = |at: &usize| matches!(slots[*at], Slot::Taken);
        if let Some(at) = (first..end).find(is_taken) {
            return refused(format!("slot {at} is in use by another buffer"));
        }
        let mut left = slots[first..end].to_vec();
        slots[first..end].fill(Slot::Taken);
        drop(slots);
        let uses = Uses::of(None);
        // Neighbours often had the same buffer.
        left.dedup_by(|next, last| match (next, last) {
            (Slot::Free(Some(next)), Slot::Free(Some(last))) => Arc::ptr_eq(next, last),
            _ => false,
        });
        left.iter().for_each(|slot| slot.leave_to(&uses));
        let block = Block {
            reserved_bytes: (end - first) * Self::SLOT_BYTES,
            ..Block::new(memory.address.offset(first * Self::SLOT_BYTES), bytes)
        };
        let device = Some(memory.device.for_buffer());
        Ok(Allocation::of_block(
            Arc::clone(memory) as _,
            device,
            block,
            uses,
        ))
    }
}

impl Slot {
    /// Adds the uses of the last buffer to those of the next.
    fn leave_to(&self, next: &InFlight) {
        if let Self::Free(Some(uses)) = self {
            next.inherit(uses);
        }
    }
}

impl Memory {
    fn take_back(&self, block: &Block, uses: Option<Arc<InFlight>>) {
        let first = (block.at() - self.address.host.as_ptr().addr()) / DeviceArena::SLOT_BYTES;
        let end = first + block.reserved_bytes / DeviceArena::SLOT_BYTES;
        self.slots.lock()[first..end].fill(Slot::Free(uses));
    }
}

impl Owner for Memory {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        self.take_back(block, None);
        Ok(None)
    }

    /// The next owner's work is ordered after the uses.
    unsafe fn release(&self, released: Released<'_>) {
        let uses = released.uses.into_left().map(Arc::from);
        self.take_back(&released.block, uses);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(slab) = self.slab.take() else {
            return;
        };
        if fork::is_inherited() {
            return drop(slab);
        }
        let slots = std::mem::take(&mut *self.slots.lock());
        if slots.iter().any(|slot| matches!(slot, Slot::Taken)) {
            // Work that could not be waited for may still use the slot.
            return slab.leak();
        }
        slots.iter().for_each(|slot| slot.leave_to(&slab.in_flight));
        // Freed when the uses are done.
        drop(slab);
    }
}

impl fmt::Debug for DeviceArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceArena")
            .field("device", &self.memory.device.ordinal())
            .field("slots", &(self.memory.bytes / Self::SLOT_BYTES))
            .finish_non_exhaustive()
    }
}
