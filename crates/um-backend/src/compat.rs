//! Names that users of this crate were promised. They call the API of the other modules, which does not use them.

use std::sync::Arc;

use cuda_um::{Advice, Capabilities, Device, HintOutcome, HostMut, HostRef, Location};

use crate::backend::CudaBackend;
use crate::buffer::Buffer;
use crate::cuda_buffer::CudaBuffer;
use crate::device::{CudaDevice, checked_ordinal};
use crate::dtype::{DType, Element};
use crate::erased::ErasedBuffer;
use crate::error::Result;
use crate::memory::BufferMemory;
use crate::range_ops::not_managed;
use crate::shared::SharedBuffer;
use crate::typed::Typed;
use crate::unified_buffer::UnifiedBuffer;

/// Advice without its location, for [`UnifiedBuffer::set_memory_advice`]. [`Advice`] has the location in the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "cudaMemoryAdvise")]
#[non_exhaustive]
pub enum MemoryAdvice {
    /// [`Advice::SetReadMostly`].
    #[doc(alias = "cudaMemAdviseSetReadMostly")]
    SetReadMostly,
    /// [`Advice::UnsetReadMostly`].
    #[doc(alias = "cudaMemAdviseUnsetReadMostly")]
    UnsetReadMostly,
    /// [`Advice::SetPreferredLocation`].
    #[doc(alias = "cudaMemAdviseSetPreferredLocation")]
    SetPreferredLocation,
    /// [`Advice::UnsetPreferredLocation`].
    #[doc(alias = "cudaMemAdviseUnsetPreferredLocation")]
    UnsetPreferredLocation,
    /// [`Advice::SetAccessedBy`].
    #[doc(alias = "cudaMemAdviseSetAccessedBy")]
    SetAccessedBy,
    /// [`Advice::UnsetAccessedBy`].
    #[doc(alias = "cudaMemAdviseUnsetAccessedBy")]
    UnsetAccessedBy,
}

impl MemoryAdvice {
    fn at(self, location: Location) -> Advice {
        match self {
            Self::SetReadMostly => Advice::SetReadMostly,
            Self::UnsetReadMostly => Advice::UnsetReadMostly,
            Self::SetPreferredLocation => Advice::SetPreferredLocation(location),
            Self::UnsetPreferredLocation => Advice::UnsetPreferredLocation,
            Self::SetAccessedBy => Advice::SetAccessedBy(location),
            Self::UnsetAccessedBy => Advice::UnsetAccessedBy(location),
        }
    }
}

/// The device of memory; `None` for memory of the host.
fn owner<T: Element>(memory: BufferMemory<'_, T>) -> Option<Device> {
    match memory {
        BufferMemory::Cuda(view) => Some(view.device().clone()),
        BufferMemory::Host(_) | BufferMemory::Opaque => None,
    }
}

/// Gives a hint about a place. Memory of the host takes no hints.
fn at_place(
    owner: Option<Device>,
    call: &str,
    place: impl FnOnce(&Device) -> Result<Location>,
    give: impl FnOnce(Location) -> Result<HintOutcome>,
) -> Result<HintOutcome> {
    match owner {
        Some(device) => give(place(&device)?),
        None => Ok(not_managed(call, "host memory")),
    }
}

/// The location that an optional ordinal means: a device, or `default` if there is none.
fn location(own: &Device, device: Option<usize>, default: Location) -> Result<Location> {
    device.map_or(Ok(default), |ordinal| {
        Ok(Location::Device(checked_ordinal(own.runtime(), ordinal)?))
    })
}

impl<T: Element> UnifiedBuffer<T> {
    /// [`zeroed`](Self::zeroed), with the element type as a value, too.
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed); [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch) if `dtype` is not that of `T`.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn new(device: Arc<CudaDevice>, len: usize, dtype: DType) -> Result<Self> {
        dtype.check::<T>()?;
        Self::zeroed(device, len)
    }

    /// [`host`](Self::host).
    ///
    /// # Errors
    /// As for [`host`](Self::host).
    pub fn as_slice(&self) -> Result<HostRef<'_, T>> {
        self.host()
    }

    /// [`host_mut`](Self::host_mut).
    ///
    /// # Errors
    /// As for [`host_mut`](Self::host_mut).
    pub fn as_slice_mut(&mut self) -> Result<HostMut<'_, T>> {
        self.host_mut()
    }
}

/// The promised names for the host's access, on each storage that has it under the trait's names.
macro_rules! host_access {
    ($storage:ty) => {
        impl<T: Element> $storage {
            /// [`host`](Buffer::host).
            ///
            /// # Errors
            /// As for [`host`](Buffer::host).
            pub fn as_slice(&self) -> Result<HostRef<'_, T>> {
                self.host()
            }

            /// [`host_mut`](Buffer::host_mut).
            ///
            /// # Errors
            /// As for [`host_mut`](Buffer::host_mut).
            pub fn as_slice_mut(&mut self) -> Result<HostMut<'_, T>> {
                self.host_mut()
            }
        }
    };
}
host_access!(dyn Buffer<T> + '_);
host_access!(Typed<T>);

/// The promised names for hints, on each storage. `$owner` is the device of its memory; `$prefetch` and `$advise` are the calls behind the names.
macro_rules! hints {
    ([$($generics:tt)*] $storage:ty, |$this:ident| $owner:expr, $prefetch:expr, $advise:expr) => {
        impl<$($generics)*> $storage {
            /// Migrates the buffer to a device, or to the buffer's own device for `None`, on the stream of the buffer's device.
            ///
            /// # Ordering
            /// Enqueued after earlier work on the buffer.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::prefetch`].
            #[doc(alias = "cudaMemPrefetchAsync")]
            pub fn prefetch_to_device(&self, device: Option<usize>) -> Result<HintOutcome> {
                let $this = self;
                at_place(
                    $owner,
                    "prefetch",
                    |own| location(own, device, own.into()),
                    $prefetch,
                )
            }

            /// Migrates the buffer to the host, on the stream of the buffer's device.
            ///
            /// # Ordering
            /// As for [`UnifiedBuffer::prefetch_to_device`].
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::prefetch`].
            #[doc(alias = "cudaMemPrefetchAsync")]
            pub fn prefetch_to_host(&self) -> Result<HintOutcome> {
                let $this = self;
                at_place($owner, "prefetch", |_| Ok(Location::Host), $prefetch)
            }

            /// Gives [`Advice`]. `device` is the location of advice that has one; `None` is the CPU.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            #[doc(alias = "cudaMemAdvise")]
            pub fn set_memory_advice(
                &self,
                advice: MemoryAdvice,
                device: Option<usize>,
            ) -> Result<HintOutcome> {
                let $this = self;
                let give: fn(&Self, Advice) -> Result<HintOutcome> = $advise;
                at_place(
                    $owner,
                    "advice",
                    |own| location(own, device, Location::Host),
                    |location| give($this, advice.at(location)),
                )
            }

            /// [`Advice::SetReadMostly`].
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn set_read_mostly(&self) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::SetReadMostly, None)
            }

            /// [`Advice::UnsetReadMostly`].
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn unset_read_mostly(&self) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::UnsetReadMostly, None)
            }

            /// [`Advice::SetPreferredLocation`] with a device.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn set_preferred_location(&self, device: usize) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::SetPreferredLocation, Some(device))
            }

            /// [`Advice::UnsetPreferredLocation`]. A buffer has at most one preferred location.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn unset_preferred_location(&self) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::UnsetPreferredLocation, None)
            }

            /// [`Advice::SetAccessedBy`] with a device.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn set_accessed_by(&self, device: usize) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::SetAccessedBy, Some(device))
            }

            /// [`Advice::UnsetAccessedBy`] with a device.
            ///
            /// # Errors
            /// As for [`UnifiedBuffer::advise`].
            pub fn unset_accessed_by(&self, device: usize) -> Result<HintOutcome> {
                self.set_memory_advice(MemoryAdvice::UnsetAccessedBy, Some(device))
            }
        }
    };
}

hints!([T: Element] UnifiedBuffer<T>, |buffer|
    Some(buffer.as_cuda_um().device().clone()),
    |location| buffer.prefetch(location),
    |buffer, advice| buffer.advise(advice));
hints!([T: Element] dyn Buffer<T> + '_, |buffer|
    owner(buffer.memory()),
    |location| buffer.prefetch_range(0..buffer.len(), location),
    |buffer, advice| buffer.advise_range(0..buffer.len(), advice));
hints!([T: Element] Typed<T>, |buffer|
    owner(buffer.memory()),
    |location| buffer.prefetch_range(0..buffer.len(), location),
    |buffer, advice| buffer.advise_range(0..buffer.len(), advice));
hints!([] ErasedBuffer, |buffer|
    owner(buffer.bytes().memory()),
    |location| buffer.prefetch(location),
    |buffer, advice| buffer.advise(advice));
hints!([] SharedBuffer, |buffer|
    owner(buffer.read()?.bytes().memory()),
    |location| buffer.read()?.prefetch(location),
    |buffer, advice| buffer.read()?.advise(advice));

impl CudaBackend {
    /// Whether [`allocate_unified`](Self::allocate_unified) returns managed memory. Otherwise it returns mapped pinned memory:
    /// [`CudaDevice::unified_memory_obstacle`] has the reason.
    ///
    /// # Errors
    /// None at present: the device's capabilities are read when it is opened.
    pub fn supports_unified_memory(&self) -> Result<bool> {
        Ok(self.device().unified_memory_obstacle().is_none())
    }

    /// [`CudaBuffer::zeroed`], with the element type as a value, too.
    ///
    /// # Errors
    /// As for [`CudaBuffer::zeroed`]; [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch) if `dtype` is not that of `T`.
    #[doc(alias = "cudaMalloc")]
    #[track_caller]
    pub fn create_buffer<T: Element>(&self, len: usize, dtype: DType) -> Result<CudaBuffer<T>> {
        dtype.check::<T>()?;
        self.create_cuda(len)
    }

    /// [`UnifiedBuffer::prefetch_to_device`].
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device<T: Element>(
        &self,
        buffer: &dyn Buffer<T>,
        device: Option<usize>,
    ) -> Result<HintOutcome> {
        buffer.prefetch_to_device(device)
    }

    /// [`UnifiedBuffer::prefetch_to_host`].
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host<T: Element>(&self, buffer: &dyn Buffer<T>) -> Result<HintOutcome> {
        buffer.prefetch_to_host()
    }

    /// [`UnifiedBuffer::set_memory_advice`].
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::advise`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_memory_advice<T: Element>(
        &self,
        buffer: &dyn Buffer<T>,
        advice: MemoryAdvice,
        device: Option<usize>,
    ) -> Result<HintOutcome> {
        buffer.set_memory_advice(advice, device)
    }
}

macro_rules! features {
    ($($feature:ident: $field:ident),* $(,)?) => {
        /// A capability, for [`CudaDevice::supports_feature`]. Each is a field of [`Capabilities`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum CudaFeature {
            $(
                #[doc = concat!("[`Capabilities::", stringify!($field), "`].")]
                $feature,
            )*
        }

        impl CudaFeature {
            /// Every feature.
            pub const ALL: [Self; [$(stringify!($feature)),*].len()] = [$(Self::$feature),*];

            fn is_among(self, capabilities: &Capabilities) -> bool {
                match self {
                    $(Self::$feature => capabilities.$field,)*
                }
            }
        }
    };
}

features! {
    ManagedMemory: managed_memory,
    ConcurrentManagedAccess: concurrent_managed_access,
    PageableMemoryAccess: pageable_memory_access,
    PageableUsesHostPageTables: pageable_uses_host_page_tables,
    DirectHostAccess: direct_host_access,
    UnifiedAddressing: unified_addressing,
    HostRegister: host_register,
    MapHostMemory: map_host_memory,
    HostPointerForRegistered: host_pointer_for_registered,
    MemoryPools: memory_pools,
    Integrated: integrated,
}

impl CudaDevice {
    /// Whether the device has a capability: a field of [`capabilities`](Self::capabilities).
    ///
    /// # Errors
    /// None at present: the device's capabilities are read when it is opened.
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn supports_feature(&self, feature: CudaFeature) -> Result<bool> {
        Ok(feature.is_among(self.capabilities()))
    }
}
