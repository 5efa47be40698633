//! The six pieces of advice and their effects.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Sim};

use crate::support::{Cuda, MIB, bytes, call, h200, host_page, ok};

const READ_MOSTLY: u32 = 1;
const UNSET_READ_MOSTLY: u32 = 2;
const PREFERRED: u32 = 3;
const ACCESSED_BY: u32 = 5;
const UNSET_ACCESSED_BY: u32 = 6;
const HOST: i32 = -1;
const PAGES: u64 = (MIB / 4096) as u64;

fn filled(cuda: &Cuda, len: usize) -> *mut u8 {
    let data = cuda.managed(len);
    bytes(data, len).fill(5);
    cuda.sim.reset_counters();
    data
}

fn sum(data: *mut u8, len: usize) -> u64 {
    // `black_box`: the memory must be read, although the sum is not used.
    std::hint::black_box(bytes(data, len).iter().map(|byte| u64::from(*byte)).sum())
}

#[test]
fn read_mostly_memory_is_duplicated_by_readers_and_collapsed_by_a_write() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, READ_MOSTLY, 0));
    cuda.run("read", data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_to_device, counters.read_duplications),
        (MIB as u64, PAGES)
    );

    sum(data, MIB);
    cuda.run("read", data, MIB);
    let again = cuda.sim.counters();
    assert_eq!(
        (again.cpu_faults, again.gpu_faults, again.bytes_to_host),
        (0, counters.gpu_faults, 0),
        "both read their own copy"
    );

    cuda.sim.reset_counters();
    bytes(data, 1)[0] = 6;
    let counters = cuda.sim.counters();
    assert_eq!(
        (
            counters.cpu_faults,
            counters.collapses,
            counters.bytes_to_host
        ),
        (1, 1, 0),
        "only the host has the page now"
    );
    cuda.sim.reset_counters();
    cuda.run("write", data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(counters.collapses, PAGES - 1);
    assert_eq!(
        counters.bytes_to_device, 4096,
        "the rest was on the device already"
    );
    cuda.sim.reset_counters();
    assert_eq!(sum(data, MIB), 7 * MIB as u64);
    assert_eq!(cuda.sim.counters().bytes_to_host, MIB as u64);
}

#[test]
fn prefetching_read_mostly_memory_duplicates_it() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, READ_MOSTLY, 0));
    ok(cuda.prefetch(data, MIB, 0, null_mut()));
    cuda.sync(null_mut());
    sum(data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.cpu_faults, counters.read_duplications),
        (0, PAGES)
    );
    ok(cuda.advise(data, MIB, UNSET_READ_MOSTLY, 0));
    assert_eq!(cuda.sim.counters().collapses, PAGES);
    sum(data, MIB);
    assert!(
        cuda.sim.counters().cpu_faults > 0,
        "one copy was left, on the device"
    );
}

#[test]
fn memory_that_prefers_the_host_is_mapped_by_kernels() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, PREFERRED, HOST));
    cuda.run("add", data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_to_device, counters.remote_accesses),
        (0, PAGES)
    );
    assert!(counters.gpu_faults > 0, "the first touch maps it");
    cuda.run("add", data, MIB);
    assert_eq!(
        cuda.sim.counters().gpu_faults,
        counters.gpu_faults,
        "and the second finds it mapped"
    );
    assert_eq!(sum(data, MIB), 7 * MIB as u64);
    assert_eq!(cuda.sim.counters().cpu_faults, 0, "it never left the host");
}

#[test]
fn fresh_memory_that_prefers_the_host_is_populated_there() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    ok(cuda.advise(data, MIB, PREFERRED, HOST));
    cuda.run("write", data, MIB);
    sum(data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (
            counters.cpu_faults,
            counters.bytes_to_host,
            counters.populated_bytes
        ),
        (0, 0, MIB as u64)
    );
}

#[test]
fn memory_that_prefers_the_device_still_comes_to_a_host_that_cannot_reach_it() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, PREFERRED, 0));
    cuda.run("read", data, MIB);
    sum(data, MIB);
    assert_eq!(cuda.sim.counters().bytes_to_host, MIB as u64);
}

#[test]
fn accessed_by_maps_instead_of_migrating() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, ACCESSED_BY, 0));
    cuda.run("add", data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (
            counters.gpu_faults,
            counters.bytes_to_device,
            counters.remote_accesses
        ),
        (0, 0, PAGES)
    );
    assert_eq!(sum(data, MIB), 6 * MIB as u64);
    ok(cuda.advise(data, MIB, UNSET_ACCESSED_BY, 0));
    cuda.run("read", data, MIB);
    assert_eq!(cuda.sim.counters().bytes_to_device, MIB as u64);
}

#[test]
fn advice_for_the_host_to_access_does_not_let_it_reach_a_pcie_device() {
    let cuda = h200();
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, ACCESSED_BY, HOST));
    cuda.run("write", data, MIB);
    sum(data, MIB);
    assert_eq!(cuda.sim.counters().bytes_to_host, MIB as u64);
}

#[test]
fn peers_reach_each_other_where_advice_says_so() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let data = filled(&cuda, MIB);
    ok(cuda.prefetch(data, MIB, 0, null_mut()));
    cuda.sync(null_mut());
    ok(cuda.advise(data, MIB, ACCESSED_BY, 1));
    ok(call!(cuda.table, cudaSetDevice(1)));
    ok(call!(cuda.table, cudaDeviceEnablePeerAccess(0, 0)));
    cuda.sim.reset_counters();
    cuda.run("read", data, MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_device_to_device, counters.remote_accesses),
        (0, PAGES)
    );
    ok(cuda.advise(data, MIB, UNSET_ACCESSED_BY, 1));
    cuda.run("read", data, MIB);
    assert_eq!(cuda.sim.counters().bytes_device_to_device, MIB as u64);
}

#[test]
fn a_coherent_machine_moves_nothing_on_access() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gh200));
    let data = filled(&cuda, MIB);
    cuda.run("add", data, MIB);
    assert_eq!(cuda.sim.counters().bytes_to_device, 0);
    ok(cuda.prefetch(data, MIB, 0, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(sum(data, MIB), 6 * MIB as u64);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_to_device, counters.bytes_to_host),
        (MIB as u64, 0),
        "only the prefetch moved it"
    );
    assert!(counters.remote_accesses >= PAGES);
}

/// The host's touch was tried again for ever, for the prefetch had ended the mapping that the advice promises.
#[test]
fn accessed_by_the_host_of_a_coherent_machine_hung_its_touch_after_a_prefetch() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gh200));
    let data = filled(&cuda, MIB);
    ok(cuda.advise(data, MIB, ACCESSED_BY, HOST));
    ok(cuda.prefetch(data, MIB, 0, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(sum(data, MIB), 5 * MIB as u64);
    let counters = cuda.sim.counters();
    assert_eq!((counters.bytes_to_host, counters.cpu_faults), (0, 0));
    // Touches of pages that share one of the system with an earlier touch are not seen.
    assert!(counters.remote_accesses >= (MIB / host_page()) as u64);
}
