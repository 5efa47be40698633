//! The trait that all buffer types implement.

use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::{element, range};

/// A buffer of any kind: [`UnifiedBuffer`](crate::UnifiedBuffer), [`DeviceBuffer`](crate::DeviceBuffer),
/// [`PinnedBuffer`](crate::PinnedBuffer), [`RegisteredBuffer`](crate::RegisteredBuffer).
///
/// It cannot be implemented outside this crate.
pub trait Memory<T>: sealed::Raw {
    /// Returns the number of elements.
    fn element_count(&self) -> usize {
        self.raw().bytes() / size_of::<T>()
    }
}

mod sealed {
    /// Access to the untyped buffer.
    pub trait Raw {
        #[doc(hidden)]
        fn raw(&self) -> &crate::resource::allocation::Allocation;

        #[doc(hidden)]
        fn raw_mut(&mut self) -> &mut crate::resource::allocation::Allocation;
    }
}
pub(crate) use sealed::Raw;

/// Allocates memory for `len` uninitialised elements from a resource. The resource must be of the kind that the buffer needs.
pub(crate) fn allocate_in<T>(
    resource: &dyn MemoryResource,
    kind: MemoryKind,
    buffer: &str,
    len: usize,
) -> Result<Allocation> {
    const { element::assert_element::<T>() };
    if resource.kind() != kind {
        return Err(Error::InvalidArgument {
            what: "the memory resource",
            value: resource.kind().name().to_owned(),
            reason: format!("{buffer} needs {}", kind.name()),
        });
    }
    match range::size_bytes::<T>(len)? {
        0 => Ok(Allocation::empty::<T>(resource.device())),
        bytes => {
            resource.device().api().origin.check("allocation")?;
            resource.allocate(bytes)
        }
    }
}
