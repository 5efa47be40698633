//! Allocating, freeing, asking about pointers.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Leak, Misuse, Sim};
use cuda_um_sys::{PointerAttributes, cudaError};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

#[test]
fn nothing_is_an_allocation_too() {
    let cuda = h200();
    assert!(cuda.managed(0).is_null());
    assert!(cuda.device(0).is_null());
    cuda.free(null_mut());
    assert_eq!(cuda.sim.leaks(), []);
}

#[test]
fn uninitialised_memory_does_not_look_zeroed() {
    let cuda = h200();
    let device = cuda.device(4096);
    let mut back = [0u8; 4096];
    cuda.copy(back.as_mut_ptr(), device, 4096);
    assert_eq!(back, [0xff; 4096]);
    assert!(
        bytes(cuda.pinned(4096), 4096)
            .iter()
            .all(|byte| *byte == 0xff)
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
fn freeing_waits_for_the_work_that_uses_the_memory() {
    let cuda = h200();
    let (stream, data) = (cuda.stream(), cuda.managed(MIB));
    let pause = cuda.sim.pause();
    cuda.launch("write", data, MIB, stream);
    let (table, address) = (cuda.table.clone(), data as usize);
    let freeing = std::thread::spawn(move || call!(table, cudaFree(address as *mut _)));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!freeing.is_finished());
    drop(pause);
    ok(freeing.join().unwrap());
    assert_eq!(cuda.sim.counters().kernels, 1);
    assert_eq!(cuda.sim.poison(), None);
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

#[test]
fn pointers_know_their_memory() {
    let cuda = h200();
    let mut pageable = [0u8; 16];
    let cases = [
        (cuda.managed(16), 3),
        (cuda.device(16), 2),
        (cuda.pinned(16), 1),
        (pageable.as_mut_ptr(), 0),
    ];
    for (pointer, kind) in cases {
        // SAFETY: zero is a valid value of this plain struct.
        let mut attributes: PointerAttributes = unsafe { std::mem::zeroed() };
        ok(call!(
            cuda.table,
            cudaPointerGetAttributes((&raw mut attributes).cast(), pointer.cast())
        ));
        assert_eq!(attributes.fields.type_.0, kind);
        assert_eq!(attributes.fields.devicePointer.is_null(), kind == 0);
        assert_eq!(attributes.fields.hostPointer.is_null(), kind == 2);
    }
}

#[test]
fn registered_memory_is_known_until_it_is_unregistered() {
    let cuda = h200();
    let mut data = vec![0u8; 8192];
    let register =
        |pointer: *mut u8, len: usize| call!(cuda.table, cudaHostRegister(pointer.cast(), len, 2));
    ok(register(data.as_mut_ptr(), 8192));
    // SAFETY: inside the vector.
    let inside = unsafe { data.as_mut_ptr().add(4096) };
    assert_eq!(
        register(inside, 16),
        cudaError::cudaErrorHostMemoryAlreadyRegistered
    );
    let (mut device, mut flags) = (null_mut(), 0);
    ok(call!(
        cuda.table,
        cudaHostGetDevicePointer(&mut device, inside.cast(), 0)
    ));
    ok(call!(
        cuda.table,
        cudaHostGetFlags(&mut flags, inside.cast())
    ));
    assert_eq!((device.cast(), flags), (inside, 2));
    ok(call!(
        cuda.table,
        cudaHostUnregister(data.as_mut_ptr().cast())
    ));
    assert_eq!(
        call!(cuda.table, cudaHostUnregister(data.as_mut_ptr().cast())),
        cudaError::cudaErrorHostMemoryNotRegistered
    );
    assert_eq!(
        call!(
            cuda.table,
            cudaHostGetDevicePointer(&mut device, inside.cast(), 0)
        ),
        cudaError::cudaErrorInvalidValue
    );
    assert_eq!(register(null_mut(), 16), cudaError::cudaErrorInvalidValue);
}
