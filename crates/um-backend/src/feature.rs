//! What a device may be able to do.

use cuda_um::Capabilities;

/// A capability to ask a device for: [`CudaDevice::supports_feature`](crate::CudaDevice::supports_feature).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaFeature {
    /// Managed memory can be allocated.
    ManagedMemory,
    /// The CPU may use managed memory while kernels run; without it there is no prefetch, and host views hold launches off.
    ConcurrentManagedAccess,
    /// Kernels may use memory that was never given to CUDA.
    PageableMemoryAccess,
    /// They do so through the CPU's own page tables.
    PageableUsesHostPageTables,
    /// The CPU reads managed memory on the device without migrating it.
    DirectHostAccess,
    /// One address space for the host and all devices.
    UnifiedAddressing,
    /// Host memory that the caller owns can be registered.
    HostRegister,
    /// Host memory can be mapped into the device's address space: zero-copy.
    MapHostMemory,
    /// A kernel can use registered host memory at the host's own address.
    HostPointerForRegistered,
    /// Stream-ordered memory pools.
    MemoryPools,
    /// The device shares its memory with the CPU.
    Integrated,
}

impl CudaFeature {
    /// Every feature.
    pub const ALL: [Self; 11] = [
        Self::ManagedMemory,
        Self::ConcurrentManagedAccess,
        Self::PageableMemoryAccess,
        Self::PageableUsesHostPageTables,
        Self::DirectHostAccess,
        Self::UnifiedAddressing,
        Self::HostRegister,
        Self::MapHostMemory,
        Self::HostPointerForRegistered,
        Self::MemoryPools,
        Self::Integrated,
    ];

    pub(crate) fn is_among(self, capabilities: &Capabilities) -> bool {
        match self {
            Self::ManagedMemory => capabilities.managed_memory,
            Self::ConcurrentManagedAccess => capabilities.concurrent_managed_access,
            Self::PageableMemoryAccess => capabilities.pageable_memory_access,
            Self::PageableUsesHostPageTables => capabilities.pageable_uses_host_page_tables,
            Self::DirectHostAccess => capabilities.direct_host_access,
            Self::UnifiedAddressing => capabilities.unified_addressing,
            Self::HostRegister => capabilities.host_register,
            Self::MapHostMemory => capabilities.map_host_memory,
            Self::HostPointerForRegistered => capabilities.host_pointer_for_registered,
            Self::MemoryPools => capabilities.memory_pools,
            Self::Integrated => capabilities.integrated,
        }
    }
}
