//! What things cost on the simulated machine.

use std::time::Duration;

/// The prices of the virtual clock. Times are for one operation, rates are bytes a second.
///
/// The H200's numbers were measured on one; the others follow from their link and memory (see the fidelity notes).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CostModel {
    /// The host's part of a kernel launch.
    pub launch: Duration,
    /// A kernel that touches nothing.
    pub kernel: Duration,
    /// Rate at which a kernel works through resident memory.
    pub kernel_rate: f64,
    /// Rate at which a kernel reads or writes memory that stays on the other side of the link.
    pub remote_rate: f64,
    /// Setting an explicit copy up.
    pub copy: Duration,
    /// Rate of copies between the device and pinned memory.
    pub pinned_rate: f64,
    /// Rate of copies between the device and pageable memory.
    pub pageable_rate: f64,
    /// Rate of copies inside one device, and of memset.
    pub device_rate: f64,
    /// Setting a prefetch that moves something up.
    pub prefetch: Duration,
    /// A prefetch that finds everything there.
    pub prefetch_resident: Duration,
    /// The same, for each 2 MiB looked at.
    pub prefetch_block: Duration,
    /// Rate of prefetches to the device.
    pub prefetch_to_device_rate: f64,
    /// Rate of prefetches to the host.
    pub prefetch_to_host_rate: f64,
    /// Serving one group of GPU faults.
    pub gpu_fault_group: Duration,
    /// Each fault in a group.
    pub gpu_fault: Duration,
    /// Serving one CPU fault.
    pub cpu_fault: Duration,
    /// Rate of the copies that faults cause.
    pub fault_rate: f64,
    /// First touch of 4 KiB by the host.
    pub host_populate_page: Duration,
    /// Rate of populating fresh memory on the device.
    pub device_populate_rate: f64,
    /// Managed allocation.
    pub managed_alloc: Duration,
    /// Device allocation below 1 MiB, served from memory already mapped.
    pub device_alloc_small: Duration,
    /// Device allocation from 1 MiB on.
    pub device_alloc: Duration,
    /// Rate at which large pinned allocations are locked.
    pub pin_rate: f64,
    /// Stream-ordered and pool allocation.
    pub pool_alloc: Duration,
    /// Advice, before what it maps.
    pub advise: Duration,
    /// Rate at which accessed-by advice maps resident memory.
    pub map_rate: f64,
    /// Recording an event.
    pub event_record: Duration,
    /// Asking an event or a stream.
    pub query: Duration,
    /// Making a stream wait for an event.
    pub stream_wait: Duration,
    /// Enqueuing anything else.
    pub enqueue: Duration,
}

const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

impl CostModel {
    /// One H200 over PCIe 5 x16.
    pub fn h200() -> CostModel {
        CostModel {
            launch: ns(2_800),
            kernel: ns(5_000),
            kernel_rate: 500e9,
            remote_rate: 45e9,
            copy: ns(6_000),
            pinned_rate: 55.5e9,
            pageable_rate: 16e9,
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

    /// Grace Hopper: the same GPU behind NVLink-C2C, with coherent access from both sides.
    pub fn gh200() -> CostModel {
        CostModel {
            remote_rate: 380e9,
            pinned_rate: 380e9,
            pageable_rate: 200e9,
            prefetch_to_device_rate: 350e9,
            prefetch_to_host_rate: 250e9,
            fault_rate: 150e9,
            ..CostModel::h200()
        }
    }

    /// A P100 over PCIe 3 x16.
    pub fn pascal() -> CostModel {
        CostModel {
            kernel_rate: 200e9,
            remote_rate: 10e9,
            pinned_rate: 12e9,
            pageable_rate: 6e9,
            device_rate: 400e9,
            prefetch_to_device_rate: 11e9,
            prefetch_to_host_rate: 8e9,
            gpu_fault_group: ns(45_000),
            fault_rate: 6e9,
            ..CostModel::h200()
        }
    }

    /// A Maxwell card over PCIe 3 x16: whole allocations move at each launch.
    pub fn maxwell() -> CostModel {
        CostModel {
            kernel_rate: 100e9,
            device_rate: 200e9,
            ..CostModel::pascal()
        }
    }

    /// An integrated GPU that shares the host's memory.
    pub fn integrated() -> CostModel {
        CostModel {
            kernel_rate: 100e9,
            remote_rate: 100e9,
            pinned_rate: 60e9,
            pageable_rate: 30e9,
            device_rate: 100e9,
            fault_rate: 30e9,
            ..CostModel::h200()
        }
    }
}

/// Time that `bytes` take at a rate.
pub(crate) fn at_rate(bytes: u64, rate: f64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate)
}
