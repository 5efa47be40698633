//! The capabilities of a device.

use crate::driver::Api;
use crate::error::{Error, Result};
use cuda_um_sys::{cudaDeviceAttr as Attribute, cudaError};

/// Each capability with its type, and CUDA's attributes for it.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $read:ident($($attribute:ident),*),)*) => {
        /// The capabilities of one device, queried once and cached.
        ///
        /// ```
        /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
        /// let capabilities = device.capabilities();
        /// assert!(capabilities.managed_memory);
        /// println!("compute capability {:?}", capabilities.compute_capability);
        /// # Ok::<(), cuda_um::Error>(())
        /// ```
        #[doc(alias = "cudaDeviceGetAttribute")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Capabilities {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Capabilities {
            pub(crate) fn read(api: &Api, ordinal: u32) -> Result<Self> {
                Ok(Self {
                    $($field: $read(api, ordinal, [$(Attribute::$attribute),*])?,)*
                })
            }
        }
    };
}

capabilities! {
    /// The compute capability: major and minor.
    compute_capability: (u32, u32) = pair(cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor),
    /// True if managed memory can be allocated.
    managed_memory: bool = flag(cudaDevAttrManagedMemory),
    /// True if the CPU may access managed memory while kernels run. Otherwise there is no prefetch, and host guards block launches.
    concurrent_managed_access: bool = flag(cudaDevAttrConcurrentManagedAccess),
    /// True if kernels may access pageable host memory, which was not allocated or registered with CUDA.
    pageable_memory_access: bool = flag(cudaDevAttrPageableMemoryAccess),
    /// True if kernels access pageable memory through the CPU's page tables.
    pageable_uses_host_page_tables: bool = flag(cudaDevAttrPageableMemoryAccessUsesHostPageTables),
    /// True if the CPU reads managed memory on the device without migrating it.
    direct_host_access: bool = flag(cudaDevAttrDirectManagedMemAccessFromHost),
    /// True if the host and all devices share one address space.
    unified_addressing: bool = flag(cudaDevAttrUnifiedAddressing),
    /// True if host memory of the caller can be registered.
    host_register: bool = flag(cudaDevAttrHostRegisterSupported),
    /// True if host memory can be mapped into the device's address space.
    map_host_memory: bool = flag(cudaDevAttrCanMapHostMemory),
    /// True if a kernel can access registered host memory at the host's address.
    host_pointer_for_registered: bool = flag(cudaDevAttrCanUseHostPointerForRegisteredMem),
    /// True if the device supports stream-ordered memory pools.
    memory_pools: bool = flag(cudaDevAttrMemoryPoolsSupported),
    /// True if the device shares its memory with the CPU.
    integrated: bool = flag(cudaDevAttrIntegrated),
    /// The NUMA node nearest to the device; `None` if the runtime does not report it.
    host_numa_id: Option<i32> = numa_node(),
    /// The number of streaming multiprocessors.
    multiprocessors: u32 = number(cudaDevAttrMultiProcessorCount),
    /// The number of threads in a warp.
    warp_size: u32 = number(cudaDevAttrWarpSize),
    /// The largest number of threads in a block.
    max_threads_per_block: u32 = number(cudaDevAttrMaxThreadsPerBlock),
    /// The largest block in each dimension, in threads.
    max_block: [u32; 3] = numbers(cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ),
    /// The largest grid in each dimension, in blocks.
    max_grid: [u32; 3] = numbers(cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ),
    /// Shared memory that every kernel may use, in bytes per block.
    shared_bytes_per_block: u32 = number(cudaDevAttrMaxSharedMemoryPerBlock),
    /// Shared memory that a kernel may use after [`Kernel::allow_shared_bytes`](crate::Kernel::allow_shared_bytes), in bytes per
    /// block.
    shared_bytes_per_block_optin: u32 = number(cudaDevAttrMaxSharedMemoryPerBlockOptin),
    /// The number of copy engines, which run concurrently with kernels.
    copy_engines: u32 = number(cudaDevAttrAsyncEngineCount),
    /// The size of the device's L2 cache, in bytes.
    l2_cache_bytes: u32 = number(cudaDevAttrL2CacheSize),
}

// Every supported version has these attributes, so a failure is an error and must not be cached as "no".
fn numbers<const N: usize>(api: &Api, ordinal: u32, of: [Attribute; N]) -> Result<[u32; N]> {
    let mut values = [0; N];
    for (value, attribute) in values.iter_mut().zip(of) {
        *value = u32::try_from(api.attribute(ordinal, attribute)?).unwrap_or(0);
    }
    Ok(values)
}

fn number(api: &Api, ordinal: u32, of: [Attribute; 1]) -> Result<u32> {
    numbers(api, ordinal, of).map(|[value]| value)
}

fn flag(api: &Api, ordinal: u32, of: [Attribute; 1]) -> Result<bool> {
    number(api, ordinal, of).map(|value| value != 0)
}

fn pair(api: &Api, ordinal: u32, of: [Attribute; 2]) -> Result<(u32, u32)> {
    numbers(api, ordinal, of).map(Into::into)
}

/// Older runtimes and drivers do not support this attribute.
fn numa_node(api: &Api, ordinal: u32, _: [Attribute; 0]) -> Result<Option<i32>> {
    match api.attribute(ordinal, Attribute(HOST_NUMA_ID)) {
        Ok(node) => Ok((node >= 0).then_some(node)),
        Err(Error::Call { code, .. }) if code == cudaError::cudaErrorInvalidValue.0 => Ok(None),
        Err(Error::NotSupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The levels of support for unified memory, in CUDA's terms
/// ([CUDA C++ Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#unified-memory-programming)):
/// [`Capabilities::unified_memory`]. `docs/choosing.md` has a table of what each call does on each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnifiedMemory {
    /// Full support, with hardware coherence (GH200, GB200, GB10): kernels use all memory of the process, through the CPU's page tables. The
    /// CPU and the device access each other's memory without page faults; access counters may migrate pages. Vectors and mapped files are
    /// buffers without a copy, registration is not needed, and copies from ordinary memory are not staged.
    FullHardware,
    /// Full support, with software coherence (Linux with HMM): kernels use all memory of the process, and page faults of both sides migrate its
    /// pages. Vectors and mapped files are buffers without a copy; prefetch them. Copies to other memory are staged.
    FullSoftware,
    /// Full support for managed memory only (most GPUs since Pascal, under Linux): managed memory migrates on access. Ordinary memory is
    /// copied or registered.
    ManagedOnly,
    /// Limited support (Windows, WSL, most Jetsons, GPUs before Pascal): managed memory exists, the CPU must not access it while kernels run,
    /// and nothing is prefetched. Ordinary memory is copied or registered.
    Limited,
    /// No managed memory: unified buffers are mapped pinned memory.
    None,
}

impl Capabilities {
    /// The device's support for unified memory.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{UnifiedBuffer, resource::UnifiedMemory};
    ///
    /// let data = UnifiedBuffer::from_vec(&device, vec![1.0f32; 1000])?; // runs on every device
    /// match device.capabilities().unified_memory() {
    ///     UnifiedMemory::FullHardware | UnifiedMemory::FullSoftware => println!("the vector itself"),
    ///     _ => println!("a copy: {}", data.placement()),
    /// }
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    #[must_use]
    pub fn unified_memory(&self) -> UnifiedMemory {
        match self {
            _ if self.pageable_memory_access && self.pageable_uses_host_page_tables => {
                UnifiedMemory::FullHardware
            }
            _ if self.pageable_memory_access => UnifiedMemory::FullSoftware,
            _ if !self.managed_memory => UnifiedMemory::None,
            _ if self.concurrent_managed_access => UnifiedMemory::ManagedOnly,
            _ => UnifiedMemory::Limited,
        }
    }

    /// Returns true if the device reads pageable memory where it is, at the speed of the link: neither staging nor registration makes it
    /// faster.
    pub(crate) fn reads_host_memory_in_place(&self) -> bool {
        self.pageable_memory_access && (self.pageable_uses_host_page_tables || self.integrated)
    }

    /// Refuses a grid, a block, or shared memory (in bytes per block) beyond the limits of the device.
    #[inline]
    pub(crate) fn check_launch(
        &self,
        (grid, block, shared_bytes): (&[u32; 3], &[u32; 3], u32),
    ) -> Result<()> {
        let fits = |sizes: &[u32; 3], limits: &[u32; 3]| {
            // In one comparison each, because 0 - 1 is beyond every limit, and without branches.
            (0..3).fold(true, |fits, at| {
                fits & (sizes[at].wrapping_sub(1) < limits[at])
            })
        };
        let threads: u64 = block.iter().map(|&size| u64::from(size)).product();
        match fits(grid, &self.max_grid) & fits(block, &self.max_block)
            && threads <= u64::from(self.max_threads_per_block)
            && shared_bytes <= self.most_shared_bytes()
        {
            true => Ok(()),
            false => self.does_not_fit((*grid, *block, shared_bytes)),
        }
    }

    /// The error for the first size of a launch that the device cannot run.
    #[cold]
    fn does_not_fit(&self, (grid, block, shared_bytes): ([u32; 3], [u32; 3], u32)) -> Result<()> {
        const GRID: [&str; 3] = ["grid x", "grid y", "grid z"];
        const BLOCK: [&str; 3] = ["block x", "block y", "block z"];
        let sizes = GRID.into_iter().zip(grid).zip(self.max_grid);
        for ((what, value), limit) in sizes.chain(BLOCK.into_iter().zip(block).zip(self.max_block))
        {
            within(what, u64::from(value), limit)?;
        }
        let threads = block.iter().map(|&size| u64::from(size)).product();
        self.check_block(threads, u64::from(shared_bytes))
    }

    pub(crate) fn check_block(&self, threads: u64, shared_bytes: u64) -> Result<()> {
        within("threads of a block", threads, self.max_threads_per_block)?;
        let what = "shared memory of a block in bytes";
        match shared_bytes {
            0 => Ok(()),
            _ => within(what, shared_bytes, self.most_shared_bytes()),
        }
    }

    fn most_shared_bytes(&self) -> u32 {
        self.shared_bytes_per_block_optin
            .max(self.shared_bytes_per_block)
    }
}

fn within(what: &'static str, value: u64, limit: u32) -> Result<()> {
    let limit = u64::from(limit);
    match value {
        0 => Err(Error::InvalidArgument {
            what,
            value: "0".to_owned(),
            reason: "a launch has at least one block and one thread".to_owned(),
        }),
        _ if value <= limit => Ok(()),
        _ => Err(Error::LimitExceeded { what, value, limit }),
    }
}

/// `cudaDevAttrHostNumaId`: missing in the headers of 11.8, whose runtime returns an error for it.
const HOST_NUMA_ID: u32 = 134;
