//! Prefetch, batches and discard.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Sim};
use cuda_um_sys::{cudaError, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, h200, location, ok};

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
        bytes(data, MIB).iter().all(|byte| *byte == 0x7b),
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
