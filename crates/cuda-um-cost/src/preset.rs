//! Models that are built in.

use crate::CostModel;
use std::collections::BTreeSet;
use std::time::Duration;

const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

impl CostModel {
    /// One H200 over PCIe 5 x16, measured; each field says how.
    pub fn h200() -> CostModel {
        CostModel {
            name: "H200, PCIe 5 x16".to_owned(),
            source: "built in: measured on one H200 with CUDA 13.0".to_owned(),
            assumed: BTreeSet::new(),
            launch: ns(2_800),
            kernel: ns(5_000),
            copy: ns(6_000),
            pageable_to_device: ns(6_500),
            device_to_pageable: ns(9_200),
            pageable_to_managed: ns(13_000),
            managed_to_pageable: ns(11_600),
            staged_to_device: ns(60_000),
            staged_to_host: ns(75_000),
            prefetch: ns(12_500),
            prefetch_resident: ns(1_900),
            prefetch_block: ns(870),
            gpu_fault_group: ns(30_000),
            gpu_fault: ns(9_000),
            cpu_fault: ns(17_000),
            host_populate_page: ns(950),
            managed_alloc: ns(3_000),
            device_alloc_small: ns(1_000),
            device_alloc: ns(45_000),
            pool_alloc: ns(400),
            advise: ns(800),
            event_record: ns(170),
            query: ns(1_300),
            stream_wait: ns(160),
            enqueue: ns(500),
            kernel_rate: 500e9,
            remote_rate: 45e9,
            host_copy_rate: 11e9,
            pinned_rate: 55.5e9,
            pageable_rate: 16e9,
            staged_to_device_rate: 41e9,
            staged_to_host_rate: 45e9,
            device_rate: 2_000e9,
            prefetch_to_device_rate: 51e9,
            prefetch_to_host_rate: 24.5e9,
            fault_rate: 25e9,
            device_populate_rate: 119e9,
            pin_rate: 3.8e9,
            map_rate: 55e9,
        }
    }

    /// Grace Hopper: the same GPU behind NVLink-C2C, with coherent access from both sides. Measured nowhere: from the link's
    /// and the memory's bandwidth; a staged copy is bound by the host's threads.
    pub fn gh200() -> CostModel {
        CostModel {
            name: "GH200, NVLink-C2C".to_owned(),
            remote_rate: 380e9,
            host_copy_rate: 20e9,
            pinned_rate: 380e9,
            pageable_rate: 200e9,
            staged_to_device_rate: 100e9,
            staged_to_host_rate: 100e9,
            prefetch_to_device_rate: 350e9,
            prefetch_to_host_rate: 250e9,
            fault_rate: 150e9,
            ..CostModel::h200().derived()
        }
    }

    /// An A100 over PCIe 4 x16. Measured nowhere: the H200's link figures by half, as the link is.
    pub fn ampere() -> CostModel {
        CostModel {
            name: "A100, PCIe 4 x16".to_owned(),
            kernel_rate: 350e9,
            remote_rate: 21e9,
            host_copy_rate: 10e9,
            pinned_rate: 25e9,
            pageable_rate: 10e9,
            staged_to_device_rate: 20e9,
            staged_to_host_rate: 21e9,
            device_rate: 1_000e9,
            prefetch_to_device_rate: 23e9,
            prefetch_to_host_rate: 12e9,
            fault_rate: 12e9,
            device_populate_rate: 100e9,
            ..CostModel::h200().derived()
        }
    }

    /// A P100 over PCIe 3 x16. Measured nowhere: from the link's and the memory's bandwidth.
    pub fn pascal() -> CostModel {
        CostModel {
            name: "P100, PCIe 3 x16".to_owned(),
            kernel_rate: 200e9,
            remote_rate: 10e9,
            host_copy_rate: 8e9,
            pinned_rate: 12e9,
            pageable_rate: 6e9,
            staged_to_device_rate: 10e9,
            staged_to_host_rate: 10e9,
            device_rate: 400e9,
            prefetch_to_device_rate: 11e9,
            prefetch_to_host_rate: 8e9,
            gpu_fault_group: ns(45_000),
            fault_rate: 6e9,
            ..CostModel::h200().derived()
        }
    }

    /// A Maxwell card over PCIe 3 x16: whole allocations move at each launch. Measured nowhere.
    pub fn maxwell() -> CostModel {
        CostModel {
            name: "Maxwell, PCIe 3 x16".to_owned(),
            kernel_rate: 100e9,
            device_rate: 200e9,
            ..CostModel::pascal()
        }
    }

    /// An integrated GPU that shares the host's memory. Measured nowhere: every rate is the memory's, or part of it.
    pub fn integrated() -> CostModel {
        CostModel {
            name: "integrated GPU".to_owned(),
            kernel_rate: 100e9,
            remote_rate: 100e9,
            host_copy_rate: 10e9,
            pinned_rate: 60e9,
            pageable_rate: 30e9,
            staged_to_device_rate: 30e9,
            staged_to_host_rate: 30e9,
            device_rate: 100e9,
            fault_rate: 30e9,
            ..CostModel::h200().derived()
        }
    }

    /// What a model starts from that was measured nowhere.
    fn derived(self) -> CostModel {
        CostModel {
            source: "built in: an H200's figures, changed after link and memory; measured nowhere"
                .to_owned(),
            ..self.all_assumed()
        }
    }
}
