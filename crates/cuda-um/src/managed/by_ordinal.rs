//! Names that users of um-backend were promised: hints that name a device by an optional ordinal, and a constructor with a dtype. They call the
//! methods of the other modules, which do not use them.

use crate::DeviceCopy;
use crate::buffer::unified::UnifiedBuffer;
use crate::context::device::Device;
use crate::context::runtime::Runtime;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::element::ElementType;
use crate::error::{Error, Result};
use crate::managed::hint::HintOutcome;
use std::ops::Deref;

/// Advice without its location, for `set_memory_advice`. [`Advice`] has the location in the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "cudaMemoryAdvise")]
#[non_exhaustive]
pub enum MemoryAdvice {
    /// [`Advice::SetReadMostly`].
    SetReadMostly,
    /// [`Advice::UnsetReadMostly`].
    UnsetReadMostly,
    /// [`Advice::SetPreferredLocation`].
    SetPreferredLocation,
    /// [`Advice::UnsetPreferredLocation`].
    UnsetPreferredLocation,
    /// [`Advice::SetAccessedBy`].
    SetAccessedBy,
    /// [`Advice::UnsetAccessedBy`].
    UnsetAccessedBy,
}

impl MemoryAdvice {
    /// The advice with a location; `None` is the CPU.
    #[doc(hidden)]
    pub fn at(self, own: &Device, device: Option<usize>) -> Result<Advice> {
        let location = location(own, device, Location::Host)?;
        Ok(match self {
            Self::SetReadMostly => Advice::SetReadMostly,
            Self::UnsetReadMostly => Advice::UnsetReadMostly,
            Self::SetPreferredLocation => Advice::SetPreferredLocation(location),
            Self::UnsetPreferredLocation => Advice::UnsetPreferredLocation,
            Self::SetAccessedBy => Advice::SetAccessedBy(location),
            Self::UnsetAccessedBy => Advice::UnsetAccessedBy(location),
        })
    }
}

/// The location that an optional ordinal means: a device, or `default` if there is none.
#[doc(hidden)]
pub fn location(own: &Device, device: Option<usize>, default: Location) -> Result<Location> {
    match device {
        // Also for advice that does not use its location.
        Some(ordinal) => own.runtime().checked_ordinal(ordinal).map(Location::Device),
        None => Ok(default),
    }
}

/// The outcome of a hint for memory that CUDA does not manage.
#[doc(hidden)]
pub fn not_managed(what: &str, have: &str) -> HintOutcome {
    HintOutcome::NotApplied {
        what: what.to_owned(),
        needs: "managed memory".to_owned(),
        have: have.to_owned(),
    }
}

impl Runtime {
    /// The ordinal of a device that exists. Not part of the public interface: um-backend uses it.
    #[doc(hidden)]
    pub fn checked_ordinal(&self, ordinal: usize) -> Result<u32> {
        let count = self.device_count()?;
        let within = u32::try_from(ordinal).ok().filter(|_| ordinal < count);
        within.ok_or(Error::NoSuchDevice { ordinal, count })
    }
}

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Does the same as [`zeroed`](Self::zeroed), for a caller that has the element type as a value, too: the dtype of a tensor. `device` is a
    /// `&Device`, or an `Arc` of a type that has one.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed); [`Error::DTypeMismatch`] if `dtype` is not that of `T`.
    #[track_caller]
    pub fn new(
        device: impl Deref<Target: AsRef<Device>>,
        len: usize,
        dtype: impl ElementType<T>,
    ) -> Result<Self> {
        dtype.check()?;
        Self::zeroed((*device).as_ref(), len)
    }
}

/// The promised names on a type of storage that has `prefetch` and `advise`. `$owner` is the device of its memory, or `None` for memory that
/// takes no hints.
#[doc(hidden)]
#[macro_export]
macro_rules! hints_by_ordinal {
    ([$($generics:tt)*] $storage:ty, |$this:ident| $owner:expr) => {
        impl<$($generics)*> $storage {
            /// Migrates the buffer to a device (its own one for `None`), on the library's stream of its device, after earlier work on it.
            ///
            /// # Errors
            ///
            /// The errors of `prefetch`.
            pub fn prefetch_to_device(
                &self,
                device: Option<usize>,
            ) -> $crate::Result<$crate::managed::HintOutcome> {
                let $this = self;
                let owner: Option<&$crate::Device> = $owner;
                match owner {
                    Some(own) => self.prefetch($crate::managed::location(own, device, own.into())?),
                    None => Ok($crate::managed::not_managed("prefetch", "host memory")),
                }
            }

            /// Migrates the buffer to the host, as [`prefetch_to_device`](Self::prefetch_to_device) does.
            ///
            /// # Errors
            ///
            /// The errors of `prefetch`.
            pub fn prefetch_to_host(&self) -> $crate::Result<$crate::managed::HintOutcome> {
                self.prefetch($crate::Location::Host)
            }

            /// Gives [`Advice`]($crate::Advice). `device` is the location of advice that has one; `None` is the CPU.
            ///
            /// # Errors
            ///
            /// The errors of `advise`.
            pub fn set_memory_advice(
                &self,
                advice: $crate::managed::MemoryAdvice,
                device: Option<usize>,
            ) -> $crate::Result<$crate::managed::HintOutcome> {
                let $this = self;
                let owner: Option<&$crate::Device> = $owner;
                match owner {
                    Some(own) => self.advise(advice.at(own, device)?),
                    None => Ok($crate::managed::not_managed("advice", "host memory")),
                }
            }

            $crate::advice_by_name! {
                set_read_mostly, SetReadMostly, None;
                unset_read_mostly, UnsetReadMostly, None;
                set_preferred_location, SetPreferredLocation, Some(device);
                unset_preferred_location, UnsetPreferredLocation, None;
                set_accessed_by, SetAccessedBy, Some(device);
                unset_accessed_by, UnsetAccessedBy, Some(device);
            }
        }
    };
}

/// A method for each advice, whose argument is the ordinal of a device if the advice has a location.
#[doc(hidden)]
#[macro_export]
macro_rules! advice_by_name {
    ($($name:ident, $advice:ident, $some:ident $(($device:ident))?;)*) => {$(
        #[doc = concat!("[`Advice::", stringify!($advice), "`]($crate::Advice::", stringify!($advice), ").")]
        ///
        /// # Errors
        ///
        /// The errors of `advise`.
        pub fn $name(&self $(, $device: usize)?) -> $crate::Result<$crate::managed::HintOutcome> {
            self.set_memory_advice($crate::managed::MemoryAdvice::$advice, $some $(($device))?)
        }
    )*};
}

/// The promised names for the host's access.
#[doc(hidden)]
#[macro_export]
macro_rules! host_slices {
    ([$element:ident: $bound:path] $storage:ty) => {
        impl<$element: $bound> $storage {
            /// Does the same as `host`.
            ///
            /// # Errors
            ///
            /// The errors of `host`.
            pub fn as_slice(&self) -> $crate::Result<$crate::HostRef<'_, $element>> {
                self.host()
            }

            /// Does the same as `host_mut`.
            ///
            /// # Errors
            ///
            /// The errors of `host_mut`.
            pub fn as_slice_mut(&mut self) -> $crate::Result<$crate::HostMut<'_, $element>> {
                self.host_mut()
            }
        }
    };
}

hints_by_ordinal!([T: DeviceCopy] UnifiedBuffer<T>, |buffer| Some(buffer.device()));
host_slices!([T: DeviceCopy] UnifiedBuffer<T>);
