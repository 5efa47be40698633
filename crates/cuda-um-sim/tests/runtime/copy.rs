//! Explicit copies and memset.

use std::ptr::null_mut;

use crate::support::{MIB, bytes, call, h200, ok};

#[test]
fn bytes_survive_the_way_through_every_kind_of_memory() {
    let cuda = h200();
    let len = 3 * MIB + 123;
    let source: Vec<u8> = (0..len).map(|index| (index * 7 % 251) as u8).collect();
    let (device, managed, pinned, other) = (
        cuda.device(len),
        cuda.managed(len),
        cuda.pinned(len),
        cuda.device(len),
    );
    let mut back = vec![0u8; len];
    cuda.copy(device, source.as_ptr(), len);
    cuda.copy(managed, device, len);
    cuda.copy(pinned, managed, len);
    cuda.copy(other, pinned, len);
    cuda.copy(back.as_mut_ptr(), other, len);
    assert!(back == source);
    assert!(bytes(managed, len) == source);
    let counters = cuda.sim.counters();
    let len = len as u64;
    assert_eq!(
        (
            counters.copied_to_device,
            counters.copied_to_host,
            counters.copied_device_to_device
        ),
        (2 * len, 2 * len, len)
    );
}

#[test]
fn copies_into_managed_memory_stay_where_its_pages_are() {
    let cuda = h200();
    let (on_device, on_host) = (cuda.managed(MIB), cuda.managed(MIB));
    let source = vec![4u8; MIB];
    ok(cuda.prefetch(on_device, MIB, 0, null_mut()));
    bytes(on_host, MIB).fill(1);
    cuda.sync(null_mut());
    cuda.sim.reset_counters();
    cuda.copy(on_device, source.as_ptr(), MIB);
    cuda.copy(on_host, source.as_ptr(), MIB);
    let counters = cuda.sim.counters();
    assert_eq!((counters.bytes_to_device, counters.bytes_to_host), (0, 0));
    assert_eq!(
        (counters.copied_to_device, counters.copied_host_to_host),
        (MIB as u64, MIB as u64)
    );
    assert!(bytes(on_host, MIB).iter().all(|byte| *byte == 4));
    assert_eq!(cuda.sim.counters().cpu_faults, 0);
    cuda.run("add", on_device, MIB);
    assert_eq!(cuda.sim.counters().gpu_faults, 0);
    assert!(bytes(on_device, MIB).iter().all(|byte| *byte == 5));
}

#[test]
fn memset_of_managed_memory_faults_like_a_kernel() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    bytes(data, MIB).fill(1);
    cuda.sim.reset_counters();
    ok(call!(
        cuda.table,
        cudaMemsetAsync(data.cast(), 0, MIB, null_mut())
    ));
    cuda.sync(null_mut());
    let counters = cuda.sim.counters();
    assert!(counters.gpu_faults > 0);
    assert_eq!(
        (counters.bytes_to_device, counters.set_bytes),
        (MIB as u64, MIB as u64)
    );
}
