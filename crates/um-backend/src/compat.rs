//! Names that users of this crate were promised. They call the API of the other modules, which does not use them.

use std::sync::Arc;

use cuda_um::{Advice, Capabilities, Device, HostMut, HostRef, Location, Stream};

use crate::backend::CudaBackend;
use crate::cuda_buffer::CudaBuffer;
use crate::device::{CudaDevice, checked_ordinal};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::hint::HintOutcome;
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

    /// [`prefetch`](Self::prefetch) to a device, or to the buffer's own device for `None`, on the stream of the buffer's device.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device(&self, device: Option<usize>) -> Result<HintOutcome> {
        let own = self.as_cuda_um().device();
        self.prefetch(location(own, device, own.into())?, &self.own_stream()?)
    }

    /// [`prefetch`](Self::prefetch) to the host, on the stream of the buffer's device.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host(&self) -> Result<HintOutcome> {
        self.prefetch(Location::Host, &self.own_stream()?)
    }

    fn own_stream(&self) -> Result<Stream> {
        Ok(self.as_cuda_um().device().default_stream()?)
    }

    /// [`advise`](Self::advise). `device` is the location of advice that has one; `None` is the CPU.
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_memory_advice(
        &self,
        advice: MemoryAdvice,
        device: Option<usize>,
    ) -> Result<HintOutcome> {
        let own = self.as_cuda_um().device();
        self.advise(advice.at(location(own, device, Location::Host)?))
    }

    /// [`advise`](Self::advise) with [`Advice::SetReadMostly`].
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn set_read_mostly(&self) -> Result<HintOutcome> {
        self.advise(Advice::SetReadMostly)
    }

    /// [`advise`](Self::advise) with [`Advice::UnsetReadMostly`].
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn unset_read_mostly(&self) -> Result<HintOutcome> {
        self.advise(Advice::UnsetReadMostly)
    }

    /// [`advise`](Self::advise) with [`Advice::SetPreferredLocation`] and a device.
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn set_preferred_location(&self, device: usize) -> Result<HintOutcome> {
        self.set_memory_advice(MemoryAdvice::SetPreferredLocation, Some(device))
    }

    /// [`advise`](Self::advise) with [`Advice::UnsetPreferredLocation`]. A buffer has at most one preferred location.
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn unset_preferred_location(&self) -> Result<HintOutcome> {
        self.advise(Advice::UnsetPreferredLocation)
    }

    /// [`advise`](Self::advise) with [`Advice::SetAccessedBy`] and a device.
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn set_accessed_by(&self, device: usize) -> Result<HintOutcome> {
        self.set_memory_advice(MemoryAdvice::SetAccessedBy, Some(device))
    }

    /// [`advise`](Self::advise) with [`Advice::UnsetAccessedBy`] and a device.
    ///
    /// # Errors
    /// As for [`advise`](Self::advise).
    pub fn unset_accessed_by(&self, device: usize) -> Result<HintOutcome> {
        self.set_memory_advice(MemoryAdvice::UnsetAccessedBy, Some(device))
    }
}

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
        buffer: &UnifiedBuffer<T>,
        device: Option<usize>,
    ) -> Result<HintOutcome> {
        buffer.prefetch_to_device(device)
    }

    /// [`UnifiedBuffer::prefetch_to_host`].
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host<T: Element>(&self, buffer: &UnifiedBuffer<T>) -> Result<HintOutcome> {
        buffer.prefetch_to_host()
    }

    /// [`UnifiedBuffer::set_memory_advice`].
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::advise`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_memory_advice<T: Element>(
        &self,
        buffer: &UnifiedBuffer<T>,
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
