//! The model itself: its times and rates.

use std::time::Duration;

macro_rules! cost_model {
    (
        times { $($(#[$time_doc:meta])* $time:ident,)* }
        rates { $($(#[$rate_doc:meta])* $rate:ident: $rate_key:literal,)* }
    ) => {
        /// What things cost on a machine: times of one operation, and rates in bytes a second.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct CostModel {
            /// Where the values come from, in words.
            pub source: String,
            $($(#[$time_doc])* pub $time: Duration,)*
            $($(#[$rate_doc])* pub $rate: f64,)*
        }

        impl CostModel {
            /// All times: the key in JSON (in microseconds), and the field.
            pub(crate) fn times(&mut self) -> Vec<(&'static str, &mut Duration)> {
                vec![$((concat!(stringify!($time), "_us"), &mut self.$time),)*]
            }

            /// All rates: the key in JSON, and the field.
            pub(crate) fn rates(&mut self) -> Vec<(&'static str, &mut f64)> {
                vec![$(($rate_key, &mut self.$rate),)*]
            }
        }
    };
}

cost_model! {
    times {
        /// The host's part of a kernel launch.
        launch,
        /// A kernel that touches nothing.
        kernel,
        /// What a kernel that reaches over the link takes longer, whatever it reads or writes there.
        remote,
        /// Setting an explicit copy up, and waiting for it.
        copy,
        /// What a copy to or from managed memory takes longer.
        copy_managed,
        /// What a copy of 64 KiB or more from or to pageable memory takes longer: the driver stages it.
        staging,
        /// Waking up another thread to help.
        thread_wake,
        /// Setting a prefetch that moves something up.
        prefetch,
        /// A prefetch that finds everything there.
        prefetch_resident,
        /// The same, for each 2 MiB looked at.
        prefetch_block,
        /// Serving one group of GPU faults.
        gpu_fault_group,
        /// Each fault in a group.
        gpu_fault,
        /// Serving one CPU fault.
        cpu_fault,
        /// First touch of 4 KiB by the host: a page is found, cleared and mapped.
        host_populate_page,
        /// The mapping's part of that, which is left to the first touch when a prefetch has found and cleared the page.
        host_map_page,
        /// What finding and clearing 4 KiB takes longer in a piece of memory that is larger than the host's caches.
        host_cold_page,
        /// What the host's first touch of 4 KiB takes longer that were on a device and discarded there.
        host_discarded_page,
        /// Managed allocation below 2 MiB.
        managed_alloc,
        /// Managed allocation from 2 MiB on.
        managed_alloc_large,
        /// Each 2 MiB of such an allocation.
        managed_alloc_block,
        /// Device allocation below 1 MiB, served from memory already mapped.
        device_alloc_small,
        /// Device allocation from 1 MiB on.
        device_alloc,
        /// Each 2 MiB of such an allocation.
        device_alloc_block,
        /// Pinned allocation, before what locking takes above 1 MiB.
        pinned_alloc,
        /// Stream-ordered and pool allocation.
        pool_alloc,
        /// Advice, before what it maps.
        advise,
        /// Recording an event.
        event_record,
        /// Asking an event or a stream.
        query,
        /// Making a stream wait for an event.
        stream_wait,
        /// Enqueuing anything else.
        enqueue,
    }
    rates {
        /// A kernel that works through resident memory.
        kernel_rate: "kernel_bytes_per_s",
        /// A kernel that reads or writes memory that stays on the other side of the link: mapped pinned memory, for one. Both ways at
        /// the same time are as fast.
        remote_rate: "remote_bytes_per_s",
        /// Copies between the device and pinned memory.
        pinned_rate: "pinned_bytes_per_s",
        /// Copies between the device and pageable memory, by the driver.
        pageable_rate: "pageable_bytes_per_s",
        /// One thread of the host that copies memory, or writes memory that its caches do not hold.
        host_copy_rate: "host_copy_bytes_per_s",
        /// One thread of the host that writes memory that its caches hold.
        host_write_rate: "host_write_bytes_per_s",
        /// Large copies from pageable memory to the device, staged by several threads.
        staged_to_device_rate: "staged_to_device_bytes_per_s",
        /// Large copies from the device to pageable memory, staged by several threads.
        staged_to_host_rate: "staged_to_host_bytes_per_s",
        /// Copies inside one device, and memset.
        device_rate: "device_bytes_per_s",
        /// Prefetches to the device.
        prefetch_to_device_rate: "prefetch_to_device_bytes_per_s",
        /// Prefetches to the host.
        prefetch_to_host_rate: "prefetch_to_host_bytes_per_s",
        /// The copies that faults cause.
        fault_rate: "fault_bytes_per_s",
        /// Populating fresh managed memory on the device.
        device_populate_rate: "device_populate_bytes_per_s",
        /// Locking large pinned allocations.
        pin_rate: "pin_bytes_per_s",
        /// Mapping resident memory, for accessed-by advice.
        map_rate: "map_bytes_per_s",
    }
}

/// Time that `bytes` take at a rate in bytes a second. At a rate that no machine can have (see [`CostModel::check`]), and where it takes
/// longer than a `Duration` holds, that is [`Duration::MAX`].
pub fn at_rate(bytes: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX)
}
