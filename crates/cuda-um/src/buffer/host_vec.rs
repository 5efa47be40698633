//! Memory of the host for as many elements as a buffer has: where there is not enough, that is an error like any other.

use crate::Element;
use crate::driver::host_memory;
use crate::error::{Error, Result};

/// So many zeros, for `call`.
pub(crate) fn zeroed<T: Element>(call: &'static str, len: usize) -> Result<Vec<T>> {
    bytemuck::allocation::try_zeroed_vec(len).map_err(|()| {
        let (free_bytes, total_bytes) = host_memory();
        Error::OutOfMemory {
            call,
            subject: format!("host memory for {len} elements"),
            requested_bytes: len.saturating_mul(size_of::<T>()),
            free_bytes,
            total_bytes,
        }
    })
}
