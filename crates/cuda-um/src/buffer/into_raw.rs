//! Memory of a driver's pool that another owner frees.

use crate::DeviceCopy;
use crate::buffer::unified::UnifiedBuffer;
use crate::context::op::Op;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use std::ptr::NonNull;

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Gives the memory of a buffer of a [`DriverPool`](crate::resource::DriverPool) to another owner, and returns its address. The owner frees it in
    /// stream order, with `cudaFreeAsync`, on `stream` or on a stream that is ordered after it.
    ///
    /// # Ordering
    ///
    /// Work that is enqueued on `stream` after the call runs after all earlier work on the buffer.
    ///
    /// # Errors
    ///
    /// The buffer comes back with the error: [`Error::NotSupported`] if the memory is not of a [`DriverPool`](crate::resource::DriverPool), and for a
    /// buffer without elements; [`Error::RuntimeMismatch`]; and the errors of `cudaStreamWaitEvent`.
    #[doc(alias = "cudaFreeAsync")]
    #[allow(clippy::result_large_err, reason = "the buffer comes back")]
    pub fn into_raw(self, stream: &Stream) -> Result<NonNull<T>, (Self, Error)> {
        if !self.raw.traits().can_give {
            let error = Error::NotSupported {
                what: format!("giving the memory of buffer {} to another owner", self.id()),
                needs: "a buffer with elements in memory of a DriverPool".to_owned(),
                have: self.raw.traits().name.to_owned() + " memory",
            };
            return Err((self, error));
        }
        let part = [self.as_view().part(Access::Write)];
        match stream.submit(&Op::with_host(self.device(), &part), |_| Ok(())) {
            Ok(()) => Ok(self.raw.give().cast()),
            Err(error) => Err((self, error)),
        }
    }
}
