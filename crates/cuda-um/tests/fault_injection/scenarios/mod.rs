//! Typical uses of the library: each scenario uses a fresh simulator, and releases everything at its end.

mod copies;
mod devices;
mod foreign;
mod memory;
mod placing;
mod pools;
mod threads;
mod work;

use crate::world::{Machine, World};
use cuda_um_sim::CudaVersion::{self, V11_8, V12_9, V13_0, V13_4};
use cuda_um_sim::Gpu::{self, Gh200, H200, Hmm, Maxwell, NoConcurrentAccess};
use cuda_um_testkit::faults::check;

pub type Scenario = check::Scenario<World>;

const fn machine(devices: usize, gpu: Gpu, cuda: CudaVersion) -> Machine {
    Machine {
        gpu,
        cuda,
        devices,
        pooled: false,
    }
}

const fn pooled(machine: Machine) -> Machine {
    Machine {
        pooled: true,
        ..machine
    }
}

const ONE: &[Machine] = &[machine(1, H200, V13_0)];
/// Also on the second of two devices, which is not the thread's current device.
const ALL: &[Machine] = &[
    machine(1, H200, V13_0),
    machine(1, NoConcurrentAccess, V12_9),
    machine(1, Maxwell, V11_8),
    machine(2, H200, V13_0),
];
const POOLED: &[Machine] = &[
    pooled(machine(1, H200, V13_0)),
    pooled(machine(2, NoConcurrentAccess, V12_9)),
];
const SEVERAL: &[Machine] = &[
    machine(2, H200, V13_0),
    machine(4, H200, V12_9),
    machine(2, NoConcurrentAccess, V12_9),
    machine(2, Maxwell, V11_8),
];
const FAULTING: &[Machine] = &[machine(1, H200, V13_4), machine(1, H200, V12_9)];
const PEERS: &[Machine] = &[machine(2, H200, V13_0), machine(4, H200, V12_9)];
const PAGEABLE: &[Machine] = &[machine(1, Gh200, V13_0), machine(2, Hmm, V12_9)];

macro_rules! scenarios {
    ($($room:ident::$name:ident on $machines:expr;)*) => {
        pub const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            machines: $machines,
            run: $room::$name,
        }),*];
    };
}

scenarios! {
    memory::main_job on ALL;
    memory::device_memory on ALL;
    copies::staged_copies on ALL;
    copies::copies_on_two_threads on ONE;
    copies::async_copies on ALL;
    copies::copies_within on ALL;
    memory::overwritten on ALL;
    memory::read_from_a_file on ALL;
    pools::default_pools on POOLED;
    pools::unified_pool on ALL;
    pools::pinned_pool on ALL;
    pools::device_pool on ALL;
    placing::batch_prefetch on FAULTING;
    placing::advice_and_residency on FAULTING;
    memory::dropped_in_flight on ALL;
    memory::registered_memory on ALL;
    memory::system_memory on PAGEABLE;
    memory::mapped_memory on ALL;
    work::events_and_streams on ALL;
    work::modules on ALL;
    work::graphs on ALL;
    work::from_open_to_end on ALL;
    devices::one_buffer_on_all_devices on SEVERAL;
    devices::copies_between_devices on SEVERAL;
    devices::pools_of_all_devices on SEVERAL;
    devices::dropped_while_another_device_reads on SEVERAL;
    devices::each_device_for_itself on SEVERAL;
    devices::peers on PEERS;
    foreign::adopted_streams on ALL;
    foreign::imported_memory on ALL;
    foreign::exports_and_foreign_work on ALL;
    foreign::managed_pool on ONE;
    threads::pools_are_shared on ALL;
}

/// Elements of a small buffer.
const COUNT: usize = 5000;
/// Several chunks of [`copies::small_ring`], each of which is reused.
const MANY: usize = 28_000;
/// More than half of a slab.
const LARGE: usize = 300_000;
