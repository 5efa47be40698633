//! Built-in values.

use crate::{CostModel, LinkKind};
use std::time::Duration;

const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

impl CostModel {
    /// The values for a GPU, by its name and the arguments of [`LinkKind::of`]: an H100 and an A100 have their own, as a GB10 has, and other
    /// GPUs those of their link; that of an H200 is the default.
    ///
    /// ```
    /// use cuda_um_cost::CostModel;
    /// assert_eq!(CostModel::of_gpu("NVIDIA H100 80GB HBM3", (9, 0), false), CostModel::h100());
    /// assert_eq!(CostModel::of_gpu("NVIDIA A100-SXM4-80GB", (8, 0), false), CostModel::a100());
    /// assert_eq!(CostModel::of_gpu("NVIDIA B200", (10, 0), false), CostModel::h200());
    /// assert_eq!(CostModel::of_gpu("NVIDIA A40", (8, 6), false), CostModel::pcie4());
    /// let jetson = CostModel::integrated(); // which these arguments do not show
    /// ```
    pub fn of_gpu(name: &str, compute_capability: (u32, u32), uses_host_page_tables: bool) -> Self {
        match (
            LinkKind::of(compute_capability, uses_host_page_tables),
            compute_capability,
        ) {
            (LinkKind::Pcie5, (9, 0)) if name.contains("H100") => Self::h100(),
            (LinkKind::Pcie4, (8, 0)) => Self::a100(),
            (LinkKind::NvlinkC2c, _) if name.contains("GB10") => Self::gb10(),
            (link, _) => Self::built_in(link),
        }
    }

    /// The values for a class of link, taken from one machine with this link.
    pub fn built_in(link: LinkKind) -> Self {
        match link {
            LinkKind::Pcie5 => Self::h200(),
            LinkKind::Pcie4 => Self::pcie4(),
            LinkKind::Pcie3 => Self::pascal(),
            LinkKind::NvlinkC2c => Self::gh200(),
        }
    }

    /// One H200 over PCIe 5 x16. The values were measured on one (docs/results/h200-cuda-13.0). The comments name the work that they were
    /// taken from.
    pub fn h200() -> Self {
        Self {
            source: "built in: an H200 over PCIe 5 x16, measured".to_owned(),
            launch: ns(2_800),
            kernel: ns(5_000),
            // "the GPU reads in turn, read-mostly": input and output of `scale`.
            kernel_rate: 1_500e9,
            // "scale kernel, mapped": 1 MiB takes longer than its rate, 256 MiB do not.
            remote: ns(2_500),
            remote_rate: 42e9,
            // "copy pinned to the device" at 64 KiB and 256 MiB.
            copy: ns(6_500),
            pinned_rate: 55.5e9,
            // "copy pinned to managed", "copy managed to pinned": their mean.
            copy_managed: ns(2_800),
            // "copy pageable to the device": 64 KiB, then 1 MiB.
            staging: ns(3_000),
            pageable_rate: 16e9,
            thread_wake: ns(145_000),
            // Round trips by copies of 64 and 256 MiB (`bench.md`), half of one.
            staged: ns(240_000),
            // "pinned rewrite and copy": 256 MiB, and 16 MiB.
            host_copy_rate: 12e9,
            host_write_rate: 28e9,
            staged_to_device_rate: 45e9,
            staged_to_host_rate: 46e9,
            device_rate: 2_000e9,
            // "prefetch to the device", "prefetch to the host": 64 KiB and 256 MiB.
            prefetch: ns(11_500),
            prefetch_to_device_rate: 53e9,
            prefetch_to_host_rate: 24.5e9,
            // Prefetch of data in place: 4 KiB, and 256 MiB in 128 blocks.
            prefetch_resident: ns(700),
            prefetch_block: ns(870),
            // "a kernel faults it in": 4 KiB is one fault in one group; the rest from 1 MiB and 16 MiB.
            gpu_fault_group: ns(26_000),
            gpu_fault: ns(3_000),
            // "the CPU faults it back": 4 KiB is one fault; 256 MiB. Copies for faults have pieces of 4 KiB and more.
            cpu_fault: ns(10_500),
            fault_rate: 12e9,
            // "first CPU write", and the two halves "after a prefetch to the host": 16 MiB, and 256 MiB for cold memory.
            host_populate_page: ns(690),
            host_map_page: ns(350),
            host_cold_page: ns(260),
            // "discard, rewrite, prefetch" minus "rewrite": 3.1 to 3.5 us a page at every size.
            host_discarded_page: ns(3_100),
            // "populated on the device": 256 MiB.
            device_populate_rate: 119e9,
            // "allocate and free": the times include the free.
            managed_alloc: ns(3_600),
            managed_alloc_large: ns(6_600),
            managed_alloc_block: ns(33),
            device_alloc_small: ns(1_400),
            device_alloc: ns(46_500),
            device_alloc_block: ns(600),
            pinned_alloc: ns(1_400),
            pin_rate: 3.8e9,
            pool_alloc: ns(400),
            // "accessed-by advice": 4 KiB and 256 MiB.
            advise: ns(800),
            map_rate: 55e9,
            event_record: ns(170),
            query: ns(1_300),
            stream_wait: ns(160),
            enqueue: ns(500),
            // "CUDA graphs": 1 to 1000 kernels of 1024 elements.
            graph_capture: ns(7_000),
            graph_capture_node: ns(750),
            graph_instantiate: ns(20_000),
            graph_instantiate_node: ns(1_600),
            graph_launch: ns(1_800),
            graph_start: ns(4_200),
            graph_kernel: ns(920),
            graph_params: ns(500),
            // Two of them over NVLink (18 links), CUDA 13.0: a copy of 64 KiB takes 8 us, of 256 MiB 391 GB/s; a prefetch of 1, 16 and
            // 256 MiB 28, 152 and 183 GB/s; faults of a kernel 12.4 GB/s, a prefetch that duplicates 68 GB/s, of 256 MiB.
            peer: ns(7_300),
            peer_prefetch: ns(29_000),
            peer_rate: 395e9,
            peer_prefetch_rate: 196e9,
            peer_fault_rate: 19.5e9,
            peer_duplicate_rate: 70e9,
        }
    }

    /// One H100 over PCIe 5 x16. The values are the medians of five calibrations
    /// (docs/results/h100-cuda-13.0/calibration.txt); those that it does not measure are of the H200. That of `copy_managed` is the median of
    /// the last three, which copy from pinned memory.
    pub fn h100() -> Self {
        Self {
            source: "built in: an H100 over PCIe 5 x16, measured".to_owned(),
            launch: ns(3_794),
            kernel: ns(5_494),
            remote: ns(912),
            copy: ns(6_200),
            copy_managed: ns(3_437),
            staging: ns(3_992),
            thread_wake: ns(15_582),
            // Found as that of the H200.
            staged: ns(270_000),
            prefetch: ns(16_429),
            prefetch_resident: ns(636),
            prefetch_block: ns(1_285),
            cpu_fault: ns(14_131),
            host_populate_page: ns(622),
            managed_alloc: ns(2_691),
            managed_alloc_large: ns(8_643),
            managed_alloc_block: ns(36),
            device_alloc_small: ns(3_382),
            device_alloc: ns(47_912),
            device_alloc_block: ns(98),
            pinned_alloc: ns(207_346),
            pool_alloc: ns(645),
            advise: ns(889),
            event_record: ns(308),
            query: ns(361),
            stream_wait: ns(293),
            enqueue: ns(1_263),
            kernel_rate: 2_387e9,
            remote_rate: 52.8e9,
            pinned_rate: 55e9,
            pageable_rate: 11.8e9,
            // By `--cache`: pieces that fit into the CPU's caches.
            host_copy_rate: 11.9e9,
            staged_to_device_rate: 44.5e9,
            staged_to_host_rate: 38.4e9,
            device_rate: 1_490e9,
            prefetch_to_device_rate: 50.4e9,
            prefetch_to_host_rate: 16.6e9,
            fault_rate: 9.5e9,
            device_populate_rate: 298e9,
            pin_rate: 2.2e9,
            map_rate: 43.7e9,
            ..Self::h200()
        }
    }

    /// An A100 over PCIe 4 x16. Estimated: the rates of [`pcie4`](Self::pcie4), and those inside the device scaled by NVIDIA's figures for the
    /// memory (1.56 TB/s, an H200 has 4.8).
    pub fn a100() -> Self {
        Self {
            source: "built in: an A100 over PCIe 4 x16, estimated from half the link rate of an H200 and from its memory"
                .to_owned(),
            kernel_rate: 490e9,
            device_rate: 650e9,
            ..Self::pcie4()
        }
    }

    /// Grace Hopper: the same GPU on NVLink-C2C, with coherent access from both sides. Estimated from the link: published (450 GB/s in each
    /// direction, NVIDIA GH200 Grace Hopper Superchip data sheet), not measured here.
    pub fn gh200() -> Self {
        Self {
            source: "built in: a GH200 over NVLink-C2C, estimated from its link".to_owned(),
            remote_rate: 380e9,
            pinned_rate: 380e9,
            pageable_rate: 200e9,
            staged_to_device_rate: 200e9,
            staged_to_host_rate: 200e9,
            host_copy_rate: 30e9,
            prefetch_to_device_rate: 350e9,
            prefetch_to_host_rate: 250e9,
            fault_rate: 150e9,
            ..Self::h200()
        }
    }

    /// GB10: one memory for the host and the GPU. Estimated from the rate of the memory: published (273 GB/s, NVIDIA DGX Spark hardware
    /// overview, <https://docs.nvidia.com/dgx/dgx-spark/hardware.html>), not measured here. A copy inside one memory reads and writes it.
    pub fn gb10() -> Self {
        Self {
            source: "built in: a GB10, estimated from the published rate of its memory".to_owned(),
            kernel_rate: 273e9,
            remote: ns(0),
            remote_rate: 273e9,
            pinned_rate: 136e9,
            pageable_rate: 100e9,
            staged_to_device_rate: 100e9,
            staged_to_host_rate: 100e9,
            host_copy_rate: 30e9,
            device_rate: 136e9,
            prefetch_to_device_rate: 136e9,
            prefetch_to_host_rate: 136e9,
            fault_rate: 136e9,
            ..Self::h200()
        }
    }

    /// A card over PCIe 4 x16 on Linux with HMM. Estimated: the rates of [`pcie4`](Self::pcie4), and those inside the device scaled by the
    /// published rate of an L40S (864 GB/s, NVIDIA L40S data sheet; an H200 has 4.8 TB/s), not measured here. NVIDIA publishes no figures
    /// of HMM's faults: they are those of managed memory.
    pub fn hmm() -> Self {
        Self {
            source: "built in: a card over PCIe 4 x16 with HMM, estimated from its link and the published rate of its memory"
                .to_owned(),
            kernel_rate: 270e9,
            device_rate: 360e9,
            ..Self::pcie4()
        }
    }

    /// A GPU over PCIe 4 x16. Estimated as half the rates of PCIe 5.
    pub fn pcie4() -> Self {
        Self {
            source: "built in: PCIe 4 x16, estimated from its link".to_owned(),
            kernel_rate: 750e9,
            remote_rate: 22e9,
            pinned_rate: 26e9,
            pageable_rate: 12e9,
            staged_to_device_rate: 23e9,
            staged_to_host_rate: 23e9,
            prefetch_to_device_rate: 24e9,
            prefetch_to_host_rate: 16e9,
            fault_rate: 8e9,
            ..Self::h200()
        }
    }

    /// A P100 over PCIe 3 x16. Estimated from its link and memory.
    pub fn pascal() -> Self {
        Self {
            source: "built in: a P100 over PCIe 3 x16, estimated from its link".to_owned(),
            kernel_rate: 200e9,
            remote_rate: 10e9,
            pinned_rate: 12e9,
            pageable_rate: 6e9,
            staged_to_device_rate: 11e9,
            staged_to_host_rate: 11e9,
            host_copy_rate: 8e9,
            device_rate: 400e9,
            prefetch_to_device_rate: 11e9,
            prefetch_to_host_rate: 8e9,
            gpu_fault_group: ns(45_000),
            fault_rate: 5e9,
            ..Self::h200()
        }
    }

    /// A Maxwell card over PCIe 3 x16: each launch moves whole allocations. Estimated.
    pub fn maxwell() -> Self {
        Self {
            source: "built in: a Maxwell card over PCIe 3 x16, estimated".to_owned(),
            kernel_rate: 100e9,
            device_rate: 200e9,
            ..Self::pascal()
        }
    }

    /// An integrated GPU that shares the host's memory. Estimated.
    pub fn integrated() -> Self {
        Self {
            source: "built in: an integrated GPU, estimated".to_owned(),
            kernel_rate: 100e9,
            remote_rate: 100e9,
            pinned_rate: 60e9,
            pageable_rate: 30e9,
            staged_to_device_rate: 30e9,
            staged_to_host_rate: 30e9,
            device_rate: 100e9,
            fault_rate: 30e9,
            ..Self::h200()
        }
    }
}
