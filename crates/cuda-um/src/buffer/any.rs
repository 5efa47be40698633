//! The traits that all buffer types and views implement.

use crate::buffer::view::{View, ViewMut};
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::{element, range};
use std::ops::Range;

/// Elements that can be read: a buffer of any kind ([`UnifiedBuffer`](crate::UnifiedBuffer), [`DeviceBuffer`](crate::DeviceBuffer),
/// [`PinnedBuffer`](crate::PinnedBuffer), [`RegisteredBuffer`](crate::RegisteredBuffer)), a [`View`], or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
pub trait Memory<T>: sealed::Raw + sealed::ToView<T> {
    /// Returns the number of elements.
    fn element_count(&self) -> usize {
        self.to_view().len()
    }
}

/// Elements that can be read and written: a buffer of any kind, or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of `{T}` that can be written",
    note = "write to a buffer (`&mut buffer`) or to a part of it (`buffer.view_mut(…)`, a `ViewMut`); a `View` only reads"
)]
pub trait MemoryMut<T>: Memory<T> + sealed::RawMut + sealed::ToViewMut<T> {}

mod sealed {
    use super::{Allocation, Range, View, ViewMut};

    /// Access to the untyped buffer.
    pub trait Raw {
        /// The buffer, and the range of its bytes.
        #[doc(hidden)]
        fn raw_part(&self) -> (&Allocation, Range<usize>);
    }

    /// Memory that `&mut` of this type may write.
    #[diagnostic::on_unimplemented(
        message = "`&mut {Self}` is no memory that a kernel can write",
        note = "pass `&mut buffer`, or a part of it (`buffer.view_mut(…)`, a `ViewMut`); a `View` only reads"
    )]
    pub trait RawMut: Raw {}

    pub trait ToView<T> {
        #[doc(hidden)]
        fn to_view(&self) -> View<'_, T>;
    }

    pub trait ToViewMut<T> {
        #[doc(hidden)]
        fn to_view_mut(&mut self) -> ViewMut<'_, T>;
    }
}
pub(crate) use sealed::{Raw, RawMut, ToView, ToViewMut};

impl<T> Memory<T> for View<'_, T> {}
impl<T> Raw for View<'_, T> {
    fn raw_part(&self) -> (&Allocation, Range<usize>) {
        (self.raw, self.bytes())
    }
}
impl<T> ToView<T> for View<'_, T> {
    fn to_view(&self) -> View<'_, T> {
        *self
    }
}

impl<T> Memory<T> for ViewMut<'_, T> {}
impl<T> MemoryMut<T> for ViewMut<'_, T> {}
impl<T> RawMut for ViewMut<'_, T> {}
impl<T> Raw for ViewMut<'_, T> {
    fn raw_part(&self) -> (&Allocation, Range<usize>) {
        (self.raw, self.bytes())
    }
}
impl<T> ToView<T> for ViewMut<'_, T> {
    fn to_view(&self) -> View<'_, T> {
        self.as_view()
    }
}
impl<T> ToViewMut<T> for ViewMut<'_, T> {
    fn to_view_mut(&mut self) -> ViewMut<'_, T> {
        self.reborrow()
    }
}

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
            fork::check("allocation")?;
            resource.allocate(bytes)
        }
    }
}
