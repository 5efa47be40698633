//! The size of an arena.

use crate::error::{Error, Result};
use um_backend::Device;
use um_backend::cuda_um::resource::DeviceArena;

/// The size of an [`Arena`](crate::Arena). It is rounded down to whole slots of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Budget {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the memory of the device that is free when the arena is made: above 0, and at most 1.
    ShareOfFree(f64),
}

impl Budget {
    /// The size in slots.
    pub(crate) fn slots(self, device: &Device) -> Result<usize> {
        let refused = |given: String, reason: String| Err(Error::Budget { given, reason });
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::ShareOfFree(share) if share > 0.0 && share <= 1.0 => {
                (device.memory_info()?.free_bytes as f64 * share) as u64
            }
            Self::ShareOfFree(share) => {
                let reason = "a share is above 0 and at most 1".to_owned();
                return refused(format!("{share:?} of the free memory"), reason);
            }
        };
        let slot = DeviceArena::SLOT_BYTES as u64;
        if bytes < slot {
            return refused(format!("{bytes} bytes"), format!("a slot has {slot} bytes"));
        }
        Ok(usize::try_from(bytes / slot).unwrap_or(usize::MAX))
    }
}
