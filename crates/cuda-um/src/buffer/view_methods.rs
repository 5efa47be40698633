//! The methods that views share with buffers.

use crate::DeviceCopy;
use crate::buffer::guard::HostMut;
use crate::buffer::view::{View, ViewMut};
use crate::error::Result;

read_methods!(['a] View);
host_read_methods!(['a] View, 'a);

read_methods!(['a] ViewMut);
write_methods!(['a] ViewMut, reborrow);
host_read_methods!(['a] ViewMut, '_);
host_write_methods!(['a] ViewMut, reborrow);

impl<'a, T: DeviceCopy> ViewMut<'a, T> {
    /// Does the same as [`host_mut`](Self::host_mut), for a guard that lives as long as the borrow of the buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`host_mut`](Self::host_mut).
    pub fn into_host_mut(self) -> Result<HostMut<'a, T>> {
        HostMut::wait(self)
    }
}
