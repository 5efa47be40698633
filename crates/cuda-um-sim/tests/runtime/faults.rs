//! Page faults and the pages that they move.

use std::ptr::null_mut;

use crate::support::{MIB, bytes, call, h200, ok};

/// The case that was measured: 1000 vectors of 3 KiB, in 3 MiB.
const MEASURED: usize = 3 * MIB;

#[test]
fn the_measured_case_faults_without_prefetch_and_not_with_it() {
    let cuda = h200();
    let data = cuda.managed(MEASURED);
    bytes(data, MEASURED).fill(1);
    assert_eq!(
        cuda.sim.counters().cpu_faults,
        11,
        "6 for the block of 2 MiB and 5 for the half"
    );
    assert_eq!(
        cuda.sim.counters().bytes_to_host,
        0,
        "fresh memory comes from nowhere"
    );

    cuda.sim.reset_counters();
    let start = cuda.sim.now();
    cuda.run("read", data, MEASURED);
    let faulting = cuda.sim.now() - start;
    let counters = cuda.sim.counters();
    // Measured, a round of three: 15 faults in 5 groups.
    assert_eq!((counters.gpu_faults, counters.gpu_fault_groups), (18, 5));
    assert_eq!(
        (counters.bytes_to_device, counters.bytes_to_host),
        (MEASURED as u64, 0)
    );
    assert!(
        (400.0..900.0).contains(&(faulting.as_secs_f64() * 1e6)),
        "measured: 654 us, here {faulting:?}"
    );

    cuda.sim.reset_counters();
    assert_eq!(
        bytes(data, MEASURED)
            .iter()
            .map(|byte| u64::from(*byte))
            .sum::<u64>(),
        MEASURED as u64
    );
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.cpu_faults, counters.bytes_to_host),
        (11, MEASURED as u64)
    );

    cuda.sim.reset_counters();
    ok(cuda.prefetch(data, MEASURED, 0, null_mut()));
    cuda.sync(null_mut());
    let start = cuda.sim.now();
    cuda.run("read", data, MEASURED);
    let resident = cuda.sim.now() - start;
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.gpu_faults, counters.bytes_to_device),
        (0, MEASURED as u64)
    );
    assert_eq!(counters.transfers_to_device, 2, "one for each 2 MiB block");
    assert_eq!(counters.prefetched_bytes, MEASURED as u64);
    assert!(
        (8.0..20.0).contains(&(resident.as_secs_f64() * 1e6)),
        "measured: 13.6 us, here {resident:?}"
    );
}

#[test]
fn a_kernel_faults_in_four_blocks_at_the_same_time() {
    // 10 faults a block, in 5 groups for every four blocks.
    for (mib, faults, groups) in [(2, 10, 5), (8, 40, 5), (10, 50, 10)] {
        let cuda = h200();
        let data = cuda.managed(mib * MIB);
        bytes(data, mib * MIB).fill(1);
        cuda.run("read", data, mib * MIB);
        let counters = cuda.sim.counters();
        assert_eq!(
            (counters.gpu_faults, counters.gpu_fault_groups),
            (faults, groups),
            "{mib} MiB"
        );
    }
}

#[test]
fn a_touch_of_one_byte_brings_64_kib() {
    let cuda = h200();
    let data = cuda.managed(4 * MIB);
    bytes(data, 4 * MIB).fill(3);
    cuda.run("read", data, 4 * MIB);
    cuda.sim.reset_counters();
    assert_eq!(bytes(data, 1)[0], 3);
    let counters = cuda.sim.counters();
    assert_eq!((counters.cpu_faults, counters.bytes_to_host), (1, 64 << 10));
}

#[test]
fn many_threads_may_fault_at_once() {
    let cuda = h200();
    let data = cuda.managed(8 * MIB);
    cuda.run("write", data, 8 * MIB);
    let address = data as usize;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert!(
                    bytes(address as *mut u8, 8 * MIB)
                        .iter()
                        .all(|byte| *byte == 7)
                )
            });
        }
    });
    assert_eq!(
        cuda.sim.counters().bytes_to_host,
        8 * MIB as u64,
        "nothing moved twice"
    );
}

#[test]
fn too_much_for_the_device_evicts_what_was_used_longest_ago() {
    let cuda =
        crate::support::Cuda::new(cuda_um_sim::Sim::builder().total_memory_bytes(64 * MIB as u64));
    let (mut free, mut total) = (0, 0);
    ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
    assert_eq!(total, 64 * MIB);
    let half = free / 2 / (2 * MIB) * (2 * MIB);
    let (a, b, c) = (cuda.managed(half), cuda.managed(half), cuda.managed(half));
    cuda.run("write", a, half);
    cuda.run("write", b, half);
    assert_eq!(cuda.sim.counters().evicted_bytes, 0);
    cuda.run("write", c, half);
    assert_eq!(cuda.sim.counters().evicted_bytes, half as u64, "only a");
    cuda.sim.reset_counters();
    cuda.run("read", b, half);
    assert_eq!(cuda.sim.counters().gpu_faults, 0, "b stayed");
    assert!(
        bytes(a, half).iter().all(|byte| *byte == 7),
        "the evicted data is intact"
    );
}

/// The pages of the block were used longest ago, and must stay: the rest of the block is being brought to them.
#[test]
fn a_block_that_grows_on_a_full_device_does_not_evict_itself() {
    let cuda =
        crate::support::Cuda::new(cuda_um_sim::Sim::builder().total_memory_bytes(32 * MIB as u64));
    let (mut free, mut total) = (0, 0);
    ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
    let (block, others) = (cuda.managed(2 * MIB), cuda.managed(free - MIB));
    cuda.run("write", block, MIB);
    cuda.run("write", others, free - MIB);
    assert_eq!(cuda.sim.counters().evicted_bytes, 0);
    cuda.run("write", block.wrapping_add(MIB), MIB);
    assert_eq!(
        cuda.sim.counters().evicted_bytes,
        2 * MIB as u64,
        "one block of the others"
    );
    cuda.sim.reset_counters();
    cuda.run("read", block, 2 * MIB);
    let counters = cuda.sim.counters();
    assert_eq!((counters.gpu_faults, counters.evicted_bytes), (0, 0));
}

/// Only pages of the same block could make room: they stay, and the new pages are mapped over the link.
#[test]
fn a_block_does_not_make_room_for_itself() {
    let cuda =
        crate::support::Cuda::new(cuda_um_sim::Sim::builder().total_memory_bytes(2 * MIB as u64));
    let block = cuda.managed(2 * MIB);
    cuda.run("write", block, MIB);
    cuda.run("write", block.wrapping_add(MIB), MIB);
    let counters = cuda.sim.counters();
    assert_eq!(counters.evicted_bytes, 0);
    assert!(counters.remote_accesses > 0);
    assert!(bytes(block, 2 * MIB).iter().all(|byte| *byte == 7));
}

#[test]
fn a_device_full_of_explicit_memory_maps_managed_memory() {
    let cuda =
        crate::support::Cuda::new(cuda_um_sim::Sim::builder().total_memory_bytes(32 * MIB as u64));
    let (mut free, mut total) = (0, 0);
    ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
    cuda.device(free / (2 * MIB) * (2 * MIB));
    let data = cuda.managed(4 * MIB);
    bytes(data, 4 * MIB).fill(1);
    cuda.sim.reset_counters();
    cuda.run("add", data, 4 * MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_to_device, counters.remote_accesses),
        (0, 1024)
    );
    assert!(bytes(data, 4 * MIB).iter().all(|byte| *byte == 2));
}
