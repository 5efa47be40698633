//! Explicit copies and memset.

use std::ptr::null_mut;

use cuda_um_sys::{cudaError, cudaMemcpyAttributes};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

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

#[test]
fn a_batch_copies_many_ranges() {
    let cuda = h200();
    let stream = cuda.stream();
    let (first, second) = (cuda.device(4096), cuda.device(4096));
    let sources = [vec![1u8; 4096], vec![2u8; 4096]];
    let mut to = [first, second];
    let mut from = [sources[0].as_ptr(), sources[1].as_ptr()];
    let mut sizes = [4096, 4096];
    // SAFETY: zero is a valid value of this plain struct.
    let mut attributes: cudaMemcpyAttributes = unsafe { std::mem::zeroed() };
    let mut index = 0;
    let function = cuda.table.cudaMemcpyBatchAsync_v13.unwrap();
    let (to, from) = (to.as_mut_ptr().cast(), from.as_mut_ptr().cast());
    // SAFETY: every array has the length that the call gets.
    ok(unsafe {
        function(
            to,
            from,
            sizes.as_mut_ptr(),
            2,
            &mut attributes,
            &mut index,
            1,
            stream,
        )
    });
    cuda.sync(stream);
    let mut back = vec![0u8; 4096];
    cuda.copy(back.as_mut_ptr(), second, 4096);
    assert_eq!(back, sources[1]);
    // SAFETY: as above.
    let refused = unsafe {
        function(
            to,
            from,
            sizes.as_mut_ptr(),
            2,
            &mut attributes,
            &mut index,
            1,
            null_mut(),
        )
    };
    assert_eq!(
        refused,
        cudaError::cudaErrorInvalidValue,
        "not on the default stream"
    );
}

#[test]
fn in_12_9_a_batch_says_which_copy_failed() {
    let cuda = Cuda::new(cuda_um_sim::Sim::builder().cuda(cuda_um_sim::CudaVersion::V12_9));
    let (stream, data, source) = (cuda.stream(), cuda.device(4096), cuda.pinned(8192));
    let (mut to, mut from, mut sizes) = ([data, data], [source, source], [4096, 8192]);
    // SAFETY: zero is a valid value of this plain struct.
    let mut attributes: cudaMemcpyAttributes = unsafe { std::mem::zeroed() };
    let (mut index, mut failed) = (0, 9);
    let function = cuda.table.cudaMemcpyBatchAsync_v12.unwrap();
    let (to, from, sizes) = (
        to.as_mut_ptr().cast(),
        from.as_mut_ptr().cast(),
        sizes.as_mut_ptr(),
    );
    // SAFETY: every array has the length that the call gets.
    let error = unsafe {
        function(
            to,
            from,
            sizes,
            2,
            &mut attributes,
            &mut index,
            1,
            &mut failed,
            stream,
        )
    };
    assert_eq!((error, failed), (cudaError::cudaErrorInvalidValue, 1));
    // SAFETY: as above.
    ok(unsafe {
        function(
            to,
            from,
            sizes,
            1,
            &mut attributes,
            &mut index,
            1,
            &mut failed,
            stream,
        )
    });
    cuda.sync(stream);
}
