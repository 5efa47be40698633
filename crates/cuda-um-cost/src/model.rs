//! The model: its times and rates.

use std::time::Duration;

macro_rules! cost_model {
    (
        times { $($(#[$time_doc:meta])* $time:ident,)* }
        rates { $($(#[$rate_doc:meta])* $rate:ident: $rate_key:literal,)* }
    ) => {
        /// The costs on a machine: times of single operations, and rates in bytes a second.
        ///
        /// The fields are public, so a program can set impossible values, for which a sum of times may overflow and panic.
        /// [`check`](Self::check) finds them. Models that are read from a file or set for a device are checked.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct CostModel {
            /// A description of the source of the values.
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
        /// A kernel that accesses no memory.
        kernel,
        /// Additional time of a kernel that accesses memory over the link, independent of the number of bytes.
        remote,
        /// Setup of an explicit copy, and the wait for it.
        copy,
        /// Additional time of a copy to or from managed memory.
        copy_managed,
        /// Additional time of a copy of 64 KiB or more from or to pageable memory, because the driver stages it.
        staging,
        /// Waking another thread that helps.
        thread_wake,
        /// Additional time of a large copy from or to pageable memory, whatever its size, because several threads stage it.
        staged,
        /// Setup of a prefetch that moves data.
        prefetch,
        /// A prefetch that moves nothing, because all data are in place.
        prefetch_resident,
        /// Additional time of such a prefetch for each 2 MiB that the driver checks.
        prefetch_block,
        /// Serving one group of GPU faults.
        gpu_fault_group,
        /// Each fault in a group.
        gpu_fault,
        /// Serving one CPU fault.
        cpu_fault,
        /// First access to 4 KiB by the host: a page is allocated, cleared and mapped.
        host_populate_page,
        /// The part of this time for the mapping. After a prefetch to the host, the first access only maps.
        host_map_page,
        /// Additional time to allocate and clear 4 KiB in a piece of memory that is larger than the host's caches.
        host_cold_page,
        /// Additional time of the host's first access to 4 KiB that were discarded on a device.
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
        /// Pinned allocation, without the time to lock memory above 1 MiB.
        pinned_alloc,
        /// Stream-ordered and pool allocation.
        pool_alloc,
        /// Advice, without the time for mappings.
        advise,
        /// Recording an event.
        event_record,
        /// Querying an event or a stream.
        query,
        /// Making a stream wait for an event.
        stream_wait,
        /// Enqueuing any other work.
        enqueue,
        /// Beginning and ending a stream capture.
        graph_capture,
        /// Capturing one operation.
        graph_capture_node,
        /// Instantiating a graph.
        graph_instantiate,
        /// Each node of such a graph.
        graph_instantiate_node,
        /// The host's part of the launch of a graph.
        graph_launch,
        /// From then on, the time until the first node of the graph begins.
        graph_start,
        /// A kernel of a graph that accesses no memory.
        graph_kernel,
        /// Setting the parameters of a node.
        graph_params,
        /// Setup of a copy from one device to another, and the wait for it.
        peer,
        /// Setup of a prefetch that moves managed memory from one device to another.
        peer_prefetch,
    }
    rates {
        /// A kernel that reads or writes resident memory.
        kernel_rate: "kernel_bytes_per_s",
        /// A kernel that reads or writes memory that stays on the other side of the link, for example mapped pinned memory.
        /// Both directions at the same time are as fast.
        remote_rate: "remote_bytes_per_s",
        /// Copies between the device and pinned memory.
        pinned_rate: "pinned_bytes_per_s",
        /// Copies between the device and pageable memory, by the driver.
        pageable_rate: "pageable_bytes_per_s",
        /// One host thread that copies memory, or writes memory that is not in its caches.
        host_copy_rate: "host_copy_bytes_per_s",
        /// One host thread that writes memory that is in its caches.
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
        /// Copies that faults cause.
        fault_rate: "fault_bytes_per_s",
        /// Populating fresh managed memory on the device.
        device_populate_rate: "device_populate_bytes_per_s",
        /// Locking large pinned allocations.
        pin_rate: "pin_bytes_per_s",
        /// Mapping resident memory, for accessed-by advice.
        map_rate: "map_bytes_per_s",
        /// Copies from one device to another over NVLink.
        peer_rate: "peer_bytes_per_s",
        /// Prefetches of managed memory from one device to another over NVLink.
        peer_prefetch_rate: "peer_prefetch_bytes_per_s",
        /// Copies over NVLink that the faults of a device cause.
        peer_fault_rate: "peer_fault_bytes_per_s",
        /// Prefetches over NVLink that duplicate read-mostly pages of another device.
        peer_duplicate_rate: "peer_duplicate_bytes_per_s",
    }
}

/// The time for `bytes` at a rate in bytes a second. It is [`Duration::MAX`] for an impossible rate (see [`CostModel::check`]),
/// and if the time does not fit into a `Duration`.
pub fn at_rate(bytes: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX)
}
