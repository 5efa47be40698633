//! Device memory of a fixed size, in which the caller chooses the place of each buffer.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::context::tracker::InFlight;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::sync::Mutex;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Device memory of a fixed size, allocated once, in slots of 2 MiB. The caller chooses the place of each buffer. A clone is the same arena.
///
/// [`place`](Self::place) makes a buffer in given slots; as a [`MemoryResource`], the arena takes the first free slots in which a buffer
/// fits. The driver is not asked for memory again.
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
    count: usize,
    slots: Mutex<Vec<Slot>>,
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
    pub(crate) fn of(mut slab: Allocation) -> Self {
        let uses = Arc::new(std::mem::take(&mut slab.in_flight));
        let count = slab.bytes() / Self::SLOT_BYTES;
        let memory = Memory {
            device: slab.device().clone(),
            traits: Traits::of(
                slab.device().state(),
                MemoryKind::Device,
                "device memory of an arena",
            ),
            address: Address::shared(slab.pointer()),
            count,
            slots: Mutex::new(vec![Slot::Free(Some(uses)); count]),
            slab: Some(slab),
        };
        Self {
            memory: Arc::new(memory),
        }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.memory.count
    }

    /// Takes the slots from `first` on for `bytes`, which are not 0, with the uses of their last buffers.
    pub(crate) fn take_at(&self, first: usize, bytes: usize) -> Result<Allocation> {
        let mut slots = self.memory.slots.lock();
        let end = first.saturating_add(bytes.div_ceil(Self::SLOT_BYTES));
        let refused = |reason| {
            Err(Error::InvalidArgument {
                what: "the place in an arena",
                value: format!("slots {first}..{end}"),
                reason,
            })
        };
        if end > self.memory.count {
            return refused(format!("the arena has {} slots", self.memory.count));
        }
        let is_taken = |at: &usize| matches!(slots[*at], Slot::Taken);
        if let Some(at) = (first..end).find(is_taken) {
            return refused(format!("slot {at} is in use by another buffer"));
        }
        let left = take(&mut slots[first..end]);
        drop(slots);
        Ok(self.allocation(first..end, bytes, &left))
    }

    fn allocation(&self, slots: Range<usize>, bytes: usize, left: &[Arc<InFlight>]) -> Allocation {
        let in_flight = InFlight::default();
        for (at, uses) in left.iter().enumerate() {
            // Neighbours often had the same buffer.
            if at == 0 || !Arc::ptr_eq(uses, &left[at - 1]) {
                in_flight.inherit(uses);
            }
        }
        let block = Block {
            address: self.memory.at(slots.start),
            bytes,
            reserved_bytes: slots.len() * Self::SLOT_BYTES,
            class: None,
            is_away: false,
        };
        let device = Some(self.memory.device.for_buffer());
        Allocation::of_block(Arc::clone(&self.memory) as _, device, block, in_flight)
    }
}

/// Takes free slots, and returns the uses of their last buffers.
fn take(slots: &mut [Slot]) -> Vec<Arc<InFlight>> {
    let taken = slots
        .iter_mut()
        .map(|slot| std::mem::replace(slot, Slot::Taken));
    let uses = |slot| match slot {
        Slot::Free(uses) => uses,
        Slot::Taken => None,
    };
    taken.filter_map(uses).collect()
}

impl MemoryResource for DeviceArena {
    fn device(&self) -> &Device {
        &self.memory.device
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Device
    }
}

impl Allocate for DeviceArena {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let needed = bytes.div_ceil(Self::SLOT_BYTES);
        let mut slots = self.memory.slots.lock();
        let runs = slots.chunk_by(|a, b| {
            matches!(
                (a, b),
                (Slot::Free(_), Slot::Free(_)) | (Slot::Taken, Slot::Taken)
            )
        });
        let (mut first, mut largest, mut found) = (0, 0, None);
        for run in runs {
            if matches!(run[0], Slot::Free(_)) {
                largest = largest.max(run.len());
                if run.len() >= needed {
                    found = Some(first);
                    break;
                }
            }
            first += run.len();
        }
        let Some(first) = found else {
            let (device, total) = (self.memory.device.ordinal(), self.memory.count);
            return Err(Error::OutOfMemory {
                call: MemoryKind::Device.call(),
                subject: format!("slots of an arena on device {device}, not allocated"),
                requested_bytes: bytes,
                free_bytes: largest * Self::SLOT_BYTES,
                total_bytes: total * Self::SLOT_BYTES,
            });
        };
        let left = take(&mut slots[first..first + needed]);
        drop(slots);
        Ok(self.allocation(first..first + needed, bytes, &left))
    }
}

impl Memory {
    fn at(&self, slot: usize) -> Address {
        let start = self.address.host.as_ptr();
        let at = start.wrapping_add(slot * DeviceArena::SLOT_BYTES);
        // Within the allocation, so not null.
        NonNull::new(at).map_or(self.address, Address::shared)
    }

    fn take_back(&self, block: &Block, uses: Option<Arc<InFlight>>) {
        let offset = block.address.host.as_ptr().addr() - self.address.host.as_ptr().addr();
        let first = offset / DeviceArena::SLOT_BYTES;
        let end = first + block.reserved_bytes / DeviceArena::SLOT_BYTES;
        self.slots.lock()[first..end].fill(Slot::Free(uses));
    }
}

impl Owner for Memory {
    fn traits(&self) -> &Traits {
        &self.traits
    }

    fn allocate_again(self: Arc<Self>, _: &Device, bytes: usize) -> Option<Result<Allocation>> {
        Some(DeviceArena { memory: self }.allocate(bytes))
    }

    unsafe fn free(&self, block: &Block) -> Result<Held> {
        self.take_back(block, None);
        Ok(None)
    }

    /// The next owner's work is ordered after the uses.
    unsafe fn release(&self, mut released: Released<'_>) {
        let uses = released.in_flight.take().map(Arc::from);
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
        for slot in &slots {
            match slot {
                Slot::Free(Some(uses)) => slab.in_flight.inherit(uses),
                Slot::Free(None) => {}
                // Work that could not be waited for may still use the slot.
                Slot::Taken => return slab.leak(),
            }
        }
        // Freed when the uses are done.
        drop(slab);
    }
}

impl fmt::Debug for DeviceArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceArena")
            .field("device", &self.memory.device.ordinal())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}
