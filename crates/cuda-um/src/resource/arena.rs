//! Device memory of a fixed size, in which the caller chooses the place of each buffer.

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::allocation::parts::Whole;
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
    memory: Arc<Whole>,
    device: Device,
}

impl DeviceArena {
    /// The size of a slot in bytes.
    pub const SLOT_BYTES: usize = 2 << 20;

    pub(crate) fn of(slab: Allocation) -> Self {
        let (device, slots) = (slab.device().clone(), slab.bytes() / Self::SLOT_BYTES);
        let memory = Arc::new(Whole::new(slab, "device memory of an arena", slots));
        Self { memory, device }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
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
        if end > slots.len() {
            return refused(format!("the arena has {} slots", slots.len()));
        }
        if let Some(at) = (first..end).find(|at| slots[*at].is_none()) {
            return refused(format!("slot {at} is in use by another buffer"));
        }
        let mut left = slots[first..end].to_vec();
        slots[first..end].fill(None);
        drop(slots);
        // Neighbours often had the same buffer.
        left.dedup_by(|next, last| match (next, last) {
            (Some(next), Some(last)) => Arc::ptr_eq(next, last),
            _ => false,
        });
        let bytes = (bytes, (end - first) * Self::SLOT_BYTES);
        let part = self.memory.part(first * Self::SLOT_BYTES, bytes, false);
        let uses = left.iter().flatten();
        uses.for_each(|uses| part.in_flight.inherit(uses));
        Ok(part)
    }
}

debug!([] DeviceArena, "DeviceArena", |it| device: it.device.ordinal(), slots: it.memory.slots.lock().len());
