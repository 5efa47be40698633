//! Prefetch, batches and discard.

use std::ptr::null_mut;

use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_sys::{cudaError, cudaMemLocation, cudaMemLocationType, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, h200, location, ok};

#[test]
fn prefetch_moves_each_block_at_once_both_ways() {
    let cuda = h200();
    let data = cuda.managed(8 * MIB);
    bytes(data, 8 * MIB).fill(1);
    cuda.sim.reset_counters();
    ok(cuda.prefetch(data, 8 * MIB, 0, null_mut()));
    cuda.sync(null_mut());
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.bytes_to_device, counters.transfers_to_device),
        (8 * MIB as u64, 4)
    );
    ok(cuda.prefetch(data, 8 * MIB, 0, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(cuda.sim.counters(), counters, "resident pages stay");
    ok(cuda.prefetch(data, 8 * MIB, -1, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(bytes(data, 8 * MIB)[8 * MIB - 1], 1);
    let counters = cuda.sim.counters();
    assert_eq!(
        (
            counters.bytes_to_host,
            counters.cpu_faults,
            counters.gpu_faults
        ),
        (8 * MIB as u64, 0, 0)
    );
    assert_eq!(counters.prefetched_bytes, 16 * MIB as u64);
}

#[test]
fn fresh_memory_is_populated_where_it_is_prefetched_to() {
    let cuda = h200();
    let data = cuda.managed(4 * MIB);
    ok(cuda.prefetch(data, 4 * MIB, 0, null_mut()));
    cuda.run("write", data, 4 * MIB);
    let counters = cuda.sim.counters();
    assert_eq!(
        (
            counters.populated_bytes,
            counters.gpu_faults,
            counters.bytes_to_device
        ),
        (4 * MIB as u64, 0, 0)
    );
}

#[test]
fn a_sub_range_is_rounded_outwards_to_pages() {
    let cuda = h200();
    let data = cuda.managed(16 * 4096);
    bytes(data, 16 * 4096).fill(1);
    cuda.sim.reset_counters();
    // SAFETY: inside the allocation.
    let middle = unsafe { data.add(4096 + 100) };
    ok(cuda.prefetch(middle, 4096, 0, null_mut()));
    cuda.sync(null_mut());
    assert_eq!(
        cuda.sim.counters().bytes_to_device,
        2 * 4096,
        "4096 bytes from the middle of a page lie in two"
    );
    assert_eq!(cuda.attribute(data, 4096, 4), -2);
    // SAFETY: inside the allocation.
    assert_eq!(cuda.attribute(unsafe { data.add(4096) }, 8192, 4), 0);
}

#[test]
fn prefetch_is_ordered_on_its_stream() {
    let cuda = h200();
    let (stream, data) = (cuda.stream(), cuda.managed(MIB));
    bytes(data, MIB).fill(1);
    let pause = cuda.sim.pause();
    ok(cuda.prefetch(data, MIB, 0, stream));
    assert_eq!(cuda.sim.counters().bytes_to_device, 0);
    assert_eq!(
        cuda.attribute(data, MIB, 4),
        0,
        "the attribute is the target of the last prefetch"
    );
    drop(pause);
    cuda.sync(stream);
    assert_eq!(cuda.sim.counters().bytes_to_device, MIB as u64);
}

#[test]
fn prefetch_that_makes_no_sense_is_refused() {
    let cuda = h200();
    let (data, plain, pinned) = (cuda.managed(MIB), cuda.device(MIB), cuda.pinned(MIB));
    let mut pageable = vec![0u8; MIB];
    let invalid = cudaError::cudaErrorInvalidValue;
    assert_eq!(
        cuda.prefetch(data, MIB + 1, 0, null_mut()),
        invalid,
        "past the end"
    );
    assert_eq!(cuda.prefetch(data, 0, 0, null_mut()), invalid, "no bytes");
    assert_eq!(
        cuda.prefetch(plain, MIB, 0, null_mut()),
        invalid,
        "device memory"
    );
    assert_eq!(
        cuda.prefetch(pinned, MIB, 0, null_mut()),
        invalid,
        "pinned memory"
    );
    assert_eq!(
        cuda.prefetch(pageable.as_mut_ptr(), MIB, 0, null_mut()),
        invalid,
        "pageable memory"
    );
    assert_eq!(
        cuda.prefetch(data, MIB, 9, null_mut()),
        cudaError::cudaErrorInvalidDevice
    );
    let prefetch = cuda.table.cudaMemPrefetchAsync_v13.unwrap();
    let to = |kind, id| {
        let location = cudaMemLocation {
            type_: cudaMemLocationType(kind),
            id,
        };
        // SAFETY: the simulator checks the arguments.
        unsafe { prefetch(data.cast(), MIB, location, 0, null_mut()) }
    };
    assert_eq!(
        to(1, -1),
        cudaError::cudaErrorInvalidDevice,
        "device -1 is not the host"
    );
    assert_eq!(to(3, 7), invalid, "NUMA node 7");
    assert_eq!(to(0, 0), invalid, "no place at all");
    assert_eq!(to(3, 0), cudaError::cudaSuccess);
    assert_eq!(cuda.attribute(data, MIB, 7), 3);
    assert_eq!(to(4, 0), cudaError::cudaSuccess);
}

#[test]
fn the_same_prefetch_works_in_every_version() {
    for version in [
        CudaVersion::V11_8,
        CudaVersion::V12_2,
        CudaVersion::V12_9,
        CudaVersion::V13_0,
    ] {
        let cuda = Cuda::new(Sim::builder().cuda(version));
        let data = cuda.managed(MIB);
        bytes(data, MIB).fill(1);
        ok(cuda.prefetch(data, MIB, 0, null_mut()));
        cuda.run("add", data, MIB);
        ok(cuda.prefetch(data, MIB, -1, null_mut()));
        cuda.sync(null_mut());
        assert_eq!(bytes(data, MIB)[77], 2, "{version:?}");
        assert_eq!(cuda.sim.counters().gpu_faults, 0, "{version:?}");
    }
}

#[test]
fn system_memory_can_be_prefetched_where_the_device_reaches_it() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Gh200));
    let mut pageable = vec![1u8; MIB];
    ok(cuda.prefetch(pageable.as_mut_ptr(), MIB, 0, null_mut()));
    cuda.run("add", pageable.as_mut_ptr(), MIB);
    assert!(pageable.iter().all(|byte| *byte == 2));
}

/// Calls a batch function with every range going to one place.
fn batch(
    cuda: &Cuda,
    discard: bool,
    ranges: &[(*mut u8, usize)],
    to: i32,
    stream: cudaStream_t,
) -> cudaError {
    let mut pointers: Vec<_> = ranges.iter().map(|(pointer, _)| pointer.cast()).collect();
    let mut sizes: Vec<_> = ranges.iter().map(|(_, bytes)| *bytes).collect();
    let (mut places, mut indices) = ([location(to)], [0]);
    let (pointers, sizes) = (pointers.as_mut_ptr(), sizes.as_mut_ptr());
    let function = if discard {
        cuda.table.cudaMemDiscardAndPrefetchBatchAsync.unwrap()
    } else {
        cuda.table.cudaMemPrefetchBatchAsync.unwrap()
    };
    // SAFETY: every array has the length that the call gets.
    unsafe {
        function(
            pointers,
            sizes,
            ranges.len(),
            places.as_mut_ptr(),
            indices.as_mut_ptr(),
            1,
            0,
            stream,
        )
    }
}

#[test]
fn a_batch_prefetches_many_ranges_at_once() {
    let cuda = h200();
    let stream = cuda.stream();
    let ranges: Vec<_> = (0..8).map(|_| (cuda.managed(64 << 10), 64 << 10)).collect();
    for (pointer, len) in &ranges {
        bytes(*pointer, *len).fill(1);
    }
    ok(batch(&cuda, false, &ranges, 0, stream));
    cuda.sync(stream);
    assert_eq!(cuda.sim.counters().bytes_to_device, 8 * (64 << 10));
    assert_eq!(
        batch(&cuda, false, &ranges, 0, null_mut()),
        cudaError::cudaErrorInvalidValue,
        "not on the default stream"
    );
    assert_eq!(
        batch(&cuda, false, &[], 0, stream),
        cudaError::cudaErrorInvalidValue
    );
}

#[test]
fn discarded_memory_moves_nowhere_and_holds_anything() {
    let cuda = h200();
    let (stream, data) = (cuda.stream(), cuda.managed(MIB));
    cuda.run("write", data, MIB);
    cuda.sim.reset_counters();
    let (mut pointers, mut sizes) = ([data.cast()], [MIB]);
    let discard = cuda.table.cudaMemDiscardBatchAsync.unwrap();
    // SAFETY: both arrays have one element.
    ok(unsafe { discard(pointers.as_mut_ptr(), sizes.as_mut_ptr(), 1, 0, stream) });
    cuda.sync(stream);
    assert!(
        bytes(data, MIB).iter().all(|byte| *byte == 0xff),
        "a pattern, so that no program relies on the old contents"
    );
    bytes(data, MIB).fill(1);
    assert_eq!(cuda.sim.counters().bytes_to_host, 0);
    ok(batch(&cuda, true, &[(data, MIB)], 0, stream));
    cuda.sync(stream);
    assert_eq!(cuda.sim.counters().bytes_to_device, 0);
}

#[test]
fn one_device_without_faults_rules_batches_out() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::NoConcurrentAccess));
    let (stream, data) = (cuda.stream(), cuda.managed(MIB));
    assert_eq!(
        batch(&cuda, false, &[(data, MIB)], 0, stream),
        cudaError::cudaErrorNotSupported
    );
    assert_eq!(
        cuda.prefetch(data, MIB, 0, stream),
        cudaError::cudaErrorInvalidDevice
    );
    assert_eq!(
        cuda.advise(data, MIB, 3, 0),
        cudaError::cudaErrorInvalidDevice
    );
    assert_eq!(
        call!(cuda.table, cudaPeekAtLastError()),
        cudaError::cudaErrorInvalidDevice
    );
}
