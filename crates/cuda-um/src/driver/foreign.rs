//! What CUDA reports about pointers and streams of other libraries.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys as sys;
use std::ops::Range;
use std::ptr::NonNull;

/// The properties of a pointer.
pub(crate) struct PointerProperties {
    pub(crate) kind: sys::cudaMemoryType,
    pub(crate) device: i32,
    /// The address for kernels; `None` if they cannot access the memory.
    pub(crate) on_device: Option<NonNull<u8>>,
}

impl Api {
    /// The properties of the memory at an address, as seen from the device.
    pub(crate) fn pointer_properties(
        &self,
        ordinal: u32,
        address: *const u8,
    ) -> Result<PointerProperties> {
        let mut attributes = sys::PointerAttributes::default();
        let subject = || Subject::new(format_args!("the address {address:p}"));
        self.on(ordinal, "cudaPointerGetAttributes", subject, |table| {
            // SAFETY: the attributes have room for the structure of any version; CUDA does not read through the address.
            unsafe { (table.cudaPointerGetAttributes)(&mut attributes.fields, address.cast()) }
        })?;
        Ok(PointerProperties {
            kind: attributes.fields.type_,
            device: attributes.fields.device,
            on_device: NonNull::new(attributes.fields.devicePointer.cast()),
        })
    }

    /// The addresses of the allocation that contains an address; `None` if the driver does not report them.
    pub(crate) fn pointer_range(&self, ordinal: u32, address: *const u8) -> Option<Range<usize>> {
        use sys::CUpointer_attribute_enum as Attribute;
        let start = Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        let start = self.pointer_attribute(ordinal, address, start)?;
        let bytes = Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        let bytes = self.pointer_attribute(ordinal, address, bytes)?;
        Some(start..start.checked_add(bytes)?)
    }

    /// Returns true for memory of a driver's pool, if the driver reports it.
    pub(crate) fn is_of_pool(&self, ordinal: u32, address: *const u8) -> bool {
        let pool = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        self.pointer_attribute(ordinal, address, pool)
            .is_some_and(|handle| handle != 0)
    }

    /// An attribute that has the size of an address; `None` if the driver does not report it.
    fn pointer_attribute(
        &self,
        ordinal: u32,
        address: *const u8,
        attribute: sys::CUpointer_attribute_enum,
    ) -> Option<usize> {
        let mut value = 0usize;
        let subject = || Subject::new(format_args!("the address {address:p}"));
        self.on_driver(ordinal, "cuPointerGetAttribute", subject, |driver| {
            // SAFETY: the attribute has the size of an address, for which the place is valid; the driver does not read through the
            // address.
            unsafe {
                (driver.cuPointerGetAttribute)(
                    (&raw mut value).cast(),
                    attribute,
                    address.addr() as _,
                )
            }
        })
        .ok()?;
        Some(value)
    }

    /// The ordinal of a stream's device; `None` if the runtime does not report it: before CUDA 12.8.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub(crate) unsafe fn stream_device(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Option<Result<i32>> {
        let ask = self.table.cudaStreamGetDevice?;
        let mut device = 0;
        let subject = || Subject::new(format_args!("the stream {stream:p}"));
        let asked = self.on(ordinal, "cudaStreamGetDevice", subject, |_| {
            // SAFETY: the place is valid for one write; the stream is guaranteed by the caller.
            unsafe { ask(stream, &mut device) }
        });
        Some(asked.map(|()| device))
    }
}
