//! The machines and CUDA versions that can be simulated.

use cuda_um_cost::{CostModel, PeerLink};
use cuda_um_ptx::Checks;

/// The CUPTI of a simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Cupti {
    /// The one of the CUDA version.
    #[default]
    Present,
    /// The machine has none: its symbols are missing.
    Absent,
    /// A version older than CUDA 11.8.
    TooOld,
    /// The one of the CUDA version, without this function.
    Lacks(&'static str),
}

/// What is checked while kernels run. What a check finds is the sticky error of the launch, and a [`Misuse`](crate::Misuse).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum KernelChecks {
    /// Nothing: an access that a GPU would refuse reads 0, or writes nothing.
    None,
    /// That accesses are aligned and stay within live allocations and arguments, and that all threads reach barriers.
    #[default]
    Default,
    /// Also that no thread reads memory that was never written, or uses memory that another one writes without order between them. Kernels
    /// run several times slower.
    All,
}

impl KernelChecks {
    pub(crate) fn parse(text: &str) -> Option<KernelChecks> {
        Some(match text {
            "none" => KernelChecks::None,
            "default" => KernelChecks::Default,
            "all" => KernelChecks::All,
            _ => return None,
        })
    }

    pub(crate) fn of_machine(self) -> Checks {
        match self {
            KernelChecks::None => Checks::NONE,
            KernelChecks::Default => Checks::default(),
            KernelChecks::All => Checks::ALL,
        }
    }
}

/// A generation of GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Gpu {
    /// H200: managed memory with page faults, over PCIe 5.
    #[default]
    H200,
    /// Grace Hopper: host and device reach each other's memory coherently; an access migrates no pages.
    Gh200,
    /// A card over PCIe 4 (an L40S) on Linux with HMM: kernels access memory that was not allocated with CUDA, and faults migrate it.
    Hmm,
    /// GB10: the host and an integrated GPU have one memory, in which nothing migrates.
    Gb10,
    /// Pascal: managed memory with page faults, over PCIe 3.
    Pascal,
    /// Maxwell: managed memory without page faults; whole allocations migrate at each launch.
    Maxwell,
    /// A modern integrated GPU whose managed memory the host must not touch while a kernel runs.
    NoConcurrentAccess,
}

/// A CUDA version: it determines the symbols and their signatures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[non_exhaustive]
pub enum CudaVersion {
    /// 11.8: prefetch and advise take a device ordinal; `_v2` and batch calls do not exist.
    V11_8,
    /// 12.2: `_v2` of prefetch and advise take a location.
    V12_2,
    /// 12.9: batch copies with 9 arguments, libraries.
    V12_9,
    /// 13.0: prefetch and advise take a location under the plain name; batch prefetch and discard, managed pools.
    #[default]
    V13_0,
    /// 13.4: as 13.0, and `cudaMemGetLocationInfo`.
    V13_4,
}

impl CudaVersion {
    /// The number that `cudaRuntimeGetVersion` returns.
    pub fn number(self) -> i32 {
        match self {
            CudaVersion::V11_8 => 11080,
            CudaVersion::V12_2 => 12020,
            CudaVersion::V12_9 => 12090,
            CudaVersion::V13_0 => 13000,
            CudaVersion::V13_4 => 13040,
        }
    }

    /// The major version. The soname of the library has the same, except that all of 11.x have 11.0.
    pub fn major(self) -> u32 {
        self.number() as u32 / 1000
    }

    pub(crate) fn parse(text: &str) -> Option<CudaVersion> {
        Some(match text {
            "11.8" => CudaVersion::V11_8,
            "12.2" => CudaVersion::V12_2,
            "12.9" => CudaVersion::V12_9,
            "13.0" => CudaVersion::V13_0,
            "13.4" => CudaVersion::V13_4,
            _ => return None,
        })
    }
}

impl Gpu {
    pub(crate) fn parse(text: &str) -> Option<Gpu> {
        Some(match text {
            "h200" => Gpu::H200,
            "gh200" => Gpu::Gh200,
            "hmm" => Gpu::Hmm,
            "gb10" => Gpu::Gb10,
            "pascal" => Gpu::Pascal,
            "maxwell" => Gpu::Maxwell,
            "no-concurrent" => Gpu::NoConcurrentAccess,
            _ => return None,
        })
    }

    pub(crate) fn profile(self) -> Profile {
        match self {
            Gpu::H200 => Profile::h200(),
            Gpu::Gh200 => Profile::gh200(),
            Gpu::Hmm => Profile::hmm(),
            Gpu::Gb10 => Profile::gb10(),
            Gpu::Pascal => Profile::pascal(),
            Gpu::Maxwell => Profile::maxwell(),
            Gpu::NoConcurrentAccess => Profile::no_concurrent_access(),
        }
    }
}

/// How the devices of a simulator are connected to each other. Each has a link of its own to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topology {
    /// By PCIe: bytes between two devices take the links of both to the host.
    Pcie,
    /// By NVLink, which the clock does not let get busy.
    NvLink,
}

impl Topology {
    /// The link of two devices, for the cost model.
    pub(crate) fn link(self) -> PeerLink {
        match self {
            Topology::Pcie => PeerLink::Pcie,
            Topology::NvLink => PeerLink::NvLink,
        }
    }
}

/// The properties in which simulated devices differ.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) compute_capability: (u32, u32),
    pub(crate) total_memory_bytes: u64,
    pub(crate) reserved_memory_bytes: u64,
    pub(crate) page_cache_bytes: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) threads_per_multiprocessor: u32,
    pub(crate) shared_bytes_per_block: u32,
    pub(crate) shared_bytes_per_block_optin: u32,
    pub(crate) concurrent_managed_access: bool,
    pub(crate) pageable_memory_access: bool,
    pub(crate) direct_host_access: bool,
    pub(crate) memory_pools: bool,
    pub(crate) integrated: bool,
    pub(crate) peers: bool,
    /// Of several such devices, unless the builder sets another one.
    pub(crate) topology: Topology,
    pub(crate) cost: CostModel,
}

impl Profile {
    fn h200() -> Profile {
        Profile {
            name: "Simulated NVIDIA H200",
            compute_capability: (9, 0),
            total_memory_bytes: 150_754_820_096,
            reserved_memory_bytes: 1 << 30,
            page_cache_bytes: 0,
            multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            shared_bytes_per_block: 48 << 10,
            shared_bytes_per_block_optin: 227 << 10,
            concurrent_managed_access: true,
            pageable_memory_access: false,
            direct_host_access: false,
            memory_pools: true,
            integrated: false,
            peers: true,
            topology: Topology::NvLink,
            cost: CostModel::h200(),
        }
    }

    fn gh200() -> Profile {
        Profile {
            name: "Simulated NVIDIA GH200",
            total_memory_bytes: 102_005_473_280,
            pageable_memory_access: true,
            direct_host_access: true,
            cost: CostModel::gh200(),
            ..Profile::h200()
        }
    }

    /// Published, not measured here: NVIDIA's data sheet of the L40S (48 GB, 142 multiprocessors, compute capability 8.9). The attributes
    /// are those of "full support for all allocations with software coherence" in the CUDA programming guide.
    fn hmm() -> Profile {
        Profile {
            name: "Simulated NVIDIA L40S with HMM",
            compute_capability: (8, 9),
            total_memory_bytes: 48 << 30,
            multiprocessors: 142,
            threads_per_multiprocessor: 1536,
            shared_bytes_per_block_optin: 99 << 10,
            pageable_memory_access: true,
            topology: Topology::Pcie,
            cost: CostModel::hmm(),
            ..Profile::h200()
        }
    }

    /// Published, not measured here: NVIDIA's figures of the GB10 (128 GB, 6144 cores in 48 multiprocessors, compute capability 12.1), and
    /// the memory that Linux reports on a DGX Spark (<https://github.com/leptonai/gpud/pull/1170>): the device has what the host has.
    /// The attributes are those of "full support for all allocations with hardware coherence" in the CUDA programming guide. A probe of a GB10
    /// printed three of them, `concurrentManagedAccess=1 integrated=1 pageableMemoryAccess=1`
    /// (<https://github.com/lablup/mlxcel/blob/6ad2b8f3ca356b6251794aecb4b3068c0b1340d3/docs/benchmark_results/mlx-pin-upgrade-2026-07-03.md>);
    /// two other published lists of a GB10 have `DirectManagedMemAccessFromHost = 0`.
    fn gb10() -> Profile {
        Profile {
            name: "Simulated NVIDIA GB10",
            compute_capability: (12, 1),
            total_memory_bytes: 128_501_256_192,
            multiprocessors: 48,
            threads_per_multiprocessor: 1536,
            shared_bytes_per_block_optin: 99 << 10,
            pageable_memory_access: true,
            direct_host_access: true,
            integrated: true,
            peers: false,
            cost: CostModel::gb10(),
            ..Profile::h200()
        }
    }

    fn pascal() -> Profile {
        Profile {
            name: "Simulated NVIDIA Tesla P100",
            compute_capability: (6, 0),
            total_memory_bytes: 17_066_885_120,
            reserved_memory_bytes: 256 << 20,
            multiprocessors: 56,
            shared_bytes_per_block_optin: 48 << 10,
            cost: CostModel::pascal(),
            ..Profile::h200()
        }
    }

    fn maxwell() -> Profile {
        Profile {
            name: "Simulated NVIDIA GeForce GTX 980",
            compute_capability: (5, 2),
            total_memory_bytes: 4_294_967_296,
            reserved_memory_bytes: 128 << 20,
            multiprocessors: 16,
            shared_bytes_per_block_optin: 48 << 10,
            concurrent_managed_access: false,
            memory_pools: false,
            peers: false,
            cost: CostModel::maxwell(),
            ..Profile::h200()
        }
    }

    fn no_concurrent_access() -> Profile {
        Profile {
            name: "Simulated NVIDIA Orin",
            compute_capability: (8, 7),
            total_memory_bytes: 32_212_254_720,
            reserved_memory_bytes: 1 << 30,
            multiprocessors: 16,
            threads_per_multiprocessor: 1536,
            shared_bytes_per_block_optin: 163 << 10,
            concurrent_managed_access: false,
            integrated: true,
            peers: false,
            cost: CostModel::integrated(),
            ..Profile::h200()
        }
    }
}
