//! Names that users of this crate were promised, on each storage. They call the API of the other modules, which does not use them.

use cuda_um::{
    Capabilities, DeviceBuffer, hints_by_ordinal, host_slices,
    managed::{HintOutcome, MemoryAdvice},
};

use crate::backend::CudaBackend;
use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::shared::SharedBuffer;

host_slices!([T: Element] dyn Buffer<T> + '_);

hints_by_ordinal!([T: Element] dyn Buffer<T> + '_, |buffer| buffer.device());
hints_by_ordinal!([] SharedBuffer, |buffer| buffer.device());

impl CudaBackend {
    /// Whether [`allocate_unified`](Self::allocate_unified) returns managed memory. Otherwise it returns mapped pinned memory:
    /// [`Device::managed_memory_obstacle`](cuda_um::Device::managed_memory_obstacle) has the reason.
    ///
    /// # Errors
    /// None at present: the device's capabilities are read when it is opened.
    pub fn supports_unified_memory(&self) -> Result<bool> {
        Ok(self.device().managed_memory_obstacle().is_none())
    }

    /// Allocates a buffer of `len` zeros in device memory, for a caller that has the element type as a value, too.
    ///
    /// # Errors
    /// As for [`DeviceBuffer::zeroed`]; [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch) if `dtype` is not that of `T`.
    #[doc(alias = "cudaMalloc")]
    #[track_caller]
    pub fn create_buffer<T: Element>(&self, len: usize, dtype: DType) -> Result<DeviceBuffer<T>> {
        dtype.check::<T>()?;
        self.zeroed(len)
    }

    /// Calls `prefetch_to_device` of the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::prefetch_range`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device<T: Element>(
        &self,
        buffer: &dyn Buffer<T>,
        device: Option<usize>,
    ) -> Result<HintOutcome> {
        buffer.prefetch_to_device(device)
    }

    /// Calls `prefetch_to_host` of the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::prefetch_range`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host<T: Element>(&self, buffer: &dyn Buffer<T>) -> Result<HintOutcome> {
        buffer.prefetch_to_host()
    }

    /// Calls `set_memory_advice` of the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::advise`].
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
    /// Whether the device has a capability: a field of [`capabilities`](cuda_um::Device::capabilities).
    ///
    /// # Errors
    /// None at present: the device's capabilities are read when it is opened.
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn supports_feature(&self, feature: CudaFeature) -> Result<bool> {
        Ok(feature.is_among(self.capabilities()))
    }
}
