//! Host vectors of a buffer's length. A failed allocation is an error, not an abort.

use crate::DeviceCopy;
use crate::driver::host_memory;
use crate::error::{Error, Result};
use crate::range;

/// Allocates `len` zeros on behalf of `call`.
///
/// # Errors
///
/// [`Error::TooLarge`], [`Error::OutOfMemory`].
pub fn zeroed<T: DeviceCopy>(call: &'static str, len: usize) -> Result<Vec<T>> {
    let requested_bytes = range::size_bytes::<T>(len)?;
    bytemuck::allocation::try_zeroed_vec(len).map_err(|()| {
        let (free_bytes, total_bytes) = host_memory();
        Error::OutOfMemory {
            call,
            subject: format!("host memory for {len} elements"),
            requested_bytes,
            free_bytes,
            total_bytes,
        }
    })
}
