//! Allocating, freeing, asking about pointers.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Leak, Misuse, Sim};
use cuda_um_sys::cudaError;

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

#[test]
fn uninitialised_memory_does_not_look_zeroed() {
    let cuda = h200();
    let device = cuda.device(4096);
    let mut back = [0u8; 4096];
    cuda.copy(back.as_mut_ptr(), device, 4096);
    assert_eq!(back, [0x7b; 4096]);
    assert!(
        bytes(cuda.pinned(4096), 4096)
            .iter()
            .all(|byte| *byte == 0x7b)
    );
    assert!(
        bytes(cuda.managed(4096), 4096)
            .iter()
            .all(|byte| *byte == 0)
    );
}

#[test]
fn device_memory_runs_out_and_managed_memory_does_not() {
    let cuda = Cuda::new(Sim::builder().total_memory_bytes(64 * MIB as u64));
    let mut pointer = null_mut();
    assert_eq!(
        call!(cuda.table, cudaMalloc(&mut pointer, 65 * MIB)),
        cudaError::cudaErrorMemoryAllocation
    );
    assert!(pointer.is_null());
    let managed = cuda.managed(100 * MIB);
    cuda.run("write", managed, 40 * MIB);
    let device = cuda.device(30 * MIB);
    assert!(
        cuda.sim.counters().evicted_bytes > 0,
        "device memory pushes managed pages out"
    );
    cuda.free(device);
    assert_eq!(
        call!(cuda.table, cudaMalloc(&mut pointer, usize::MAX)),
        cudaError::cudaErrorMemoryAllocation
    );
}

#[test]
fn devices_that_do_not_fault_cannot_be_oversubscribed() {
    let cuda = Cuda::new(
        Sim::builder()
            .gpu(Gpu::Maxwell)
            .total_memory_bytes(64 * MIB as u64),
    );
    let mut pointer = null_mut();
    assert_eq!(
        call!(cuda.table, cudaMallocManaged(&mut pointer, 65 * MIB, 1)),
        cudaError::cudaErrorMemoryAllocation
    );
}

#[test]
fn wrong_frees_are_refused_and_reported() {
    let cuda = h200();
    let (data, pinned) = (cuda.device(4096), cuda.pinned(4096));
    let free = |pointer: *mut u8| call!(cuda.table, cudaFree(pointer.cast()));
    cuda.free(data);
    assert_eq!(free(data), cudaError::cudaErrorInvalidValue);
    assert_eq!(
        free(pinned),
        cudaError::cudaErrorInvalidValue,
        "that is cudaFreeHost's"
    );
    // SAFETY: inside the allocation.
    let inside = unsafe { pinned.add(8) };
    assert_eq!(
        call!(cuda.table, cudaFreeHost(inside.cast())),
        cudaError::cudaErrorInvalidValue
    );
    ok(call!(cuda.table, cudaFreeHost(pinned.cast())));
    let (first, second) = (
        Misuse::DoubleFree {
            address: data as usize,
        },
        Misuse::InvalidFree {
            address: inside as usize,
        },
    );
    assert_eq!(cuda.sim.misuse(), [first, second]);
}

#[test]
fn a_use_after_free_is_reported() {
    let cuda = h200();
    let data = cuda.device(4096);
    cuda.free(data);
    let mut back = [0u8; 16];
    let error = call!(
        cuda.table,
        cudaMemcpy(
            back.as_mut_ptr().cast(),
            data.cast(),
            16,
            cuda_um_sys::cudaMemcpyKind(4)
        )
    );
    assert_eq!(error, cudaError::cudaErrorInvalidValue);
    assert_eq!(
        cuda.sim.misuse(),
        [Misuse::UseAfterFree {
            address: data as usize
        }]
    );
}

#[test]
fn leaks_are_listed() {
    let cuda = h200();
    let data = cuda.managed(123);
    let (stream, event) = (cuda.stream(), cuda.event());
    let leaks = cuda.sim.leaks();
    assert_eq!(leaks.len(), 3);
    assert!(leaks.contains(&Leak::Memory {
        address: data as usize,
        bytes: 123,
        kind: "cudaMallocManaged"
    }));
    cuda.free(data);
    ok(call!(cuda.table, cudaStreamDestroy(stream)));
    ok(call!(cuda.table, cudaEventDestroy(event)));
    assert_eq!(cuda.sim.leaks(), []);
}
