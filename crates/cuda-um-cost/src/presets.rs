//! Values that are built in.

use crate::{CostModel, Link};
use std::time::Duration;

const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

impl CostModel {
    /// The values for a class of link: those of one machine that has it.
    pub fn built_in(link: Link) -> Self {
        match link {
            Link::Pcie5 => Self::h200(),
            Link::Pcie4 => Self::pcie4(),
            Link::Pcie3 => Self::pascal(),
            Link::NvlinkC2c => Self::gh200(),
        }
    }

    /// One H200 over PCIe 5 x16. Measured on one (docs/results/h200-cuda-13.0).
    pub fn h200() -> Self {
        Self {
            source: "built in: an H200 over PCIe 5 x16, measured".to_owned(),
            launch: ns(2_800),
            kernel: ns(5_000),
            kernel_rate: 500e9,
            remote_rate: 45e9,
            copy: ns(6_000),
            copy_managed: ns(3_200),
            thread_wake: ns(145_000),
            pinned_rate: 55.5e9,
            pageable_rate: 16e9,
            host_copy_rate: 12e9,
            staged_to_device_rate: 45e9,
            staged_to_host_rate: 46e9,
            device_rate: 2_000e9,
            prefetch: ns(12_500),
            prefetch_resident: ns(1_900),
            prefetch_block: ns(870),
            prefetch_to_device_rate: 51e9,
            prefetch_to_host_rate: 24.5e9,
            gpu_fault_group: ns(30_000),
            gpu_fault: ns(9_000),
            cpu_fault: ns(17_000),
            fault_rate: 25e9,
            host_populate_page: ns(950),
            device_populate_rate: 119e9,
            managed_alloc: ns(3_000),
            device_alloc_small: ns(1_000),
            device_alloc: ns(45_000),
            pin_rate: 3.8e9,
            pool_alloc: ns(400),
            advise: ns(800),
            map_rate: 55e9,
            event_record: ns(170),
            query: ns(1_300),
            stream_wait: ns(160),
            enqueue: ns(500),
        }
    }

    /// Grace Hopper: the same GPU behind NVLink-C2C, with coherent access from both sides. Estimated from the link.
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

    /// A GPU over PCIe 4 x16. Estimated: half of what PCIe 5 carries.
    pub fn pcie4() -> Self {
        Self {
            source: "built in: PCIe 4 x16, estimated from its link".to_owned(),
            remote_rate: 22e9,
            pinned_rate: 26e9,
            pageable_rate: 12e9,
            staged_to_device_rate: 23e9,
            staged_to_host_rate: 23e9,
            prefetch_to_device_rate: 24e9,
            prefetch_to_host_rate: 16e9,
            fault_rate: 12e9,
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
            fault_rate: 6e9,
            ..Self::h200()
        }
    }

    /// A Maxwell card over PCIe 3 x16: whole allocations move at each launch. Estimated.
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
