//! What CUDA reports about pointers and streams of other libraries.

use crate::driver::api::Api;
use crate::driver::call::calls;
use cuda_um_sys::{self as sys, CUpointer_attribute_enum as Attribute, cudaStream_t as Stream};
use std::ops::Range;

calls! {
    /// The properties of the memory at an address, as seen from the device. CUDA does not read through the address.
    safe fn pointer_attributes(ordinal, address: *const u8)
        -> found: sys::PointerAttributes as sys::cudaPointerAttributes = Ok(found.fields)
        => runtime.cudaPointerGetAttributes(&mut found.fields, address.cast()),
        of ("the address {address:p}");

    /// An attribute that has the size of an address. The driver does not read through the address.
    /// # Safety: the attribute has this size.
    unsafe fn pointer_attribute(ordinal, address: *const u8, attribute: Attribute) -> value: usize
        => driver.cuPointerGetAttribute((&raw mut value).cast(), attribute, address.addr() as _),
        of ("the address {address:p}");

    /// The ordinal of a stream's device, from CUDA 12.8 on.
    /// # Safety: the stream is live.
    unsafe fn stream_device(ordinal, stream: Stream) -> device: i32
        => newer.cudaStreamGetDevice(stream, &mut device),
        of ("the stream {stream:p}");
}

impl Api {
    /// The addresses of the allocation that contains an address; `None` if the driver does not report them.
    pub(crate) fn pointer_range(&self, ordinal: u32, address: *const u8) -> Option<Range<usize>> {
        // SAFETY: both attributes have the size of an address.
        let ask = |attribute| unsafe { self.pointer_attribute(ordinal, address, attribute) };
        let start = ask(Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR).ok()?;
        let bytes = ask(Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE).ok()?;
        Some(start..start.checked_add(bytes)?)
    }

    /// Returns true for memory of a driver's pool, if the driver reports it.
    pub(crate) fn is_of_pool(&self, ordinal: u32, address: *const u8) -> bool {
        let pool = Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        // SAFETY: a handle has the size of an address.
        let handle = unsafe { self.pointer_attribute(ordinal, address, pool) };
        handle.is_ok_and(|handle| handle != 0)
    }
}
