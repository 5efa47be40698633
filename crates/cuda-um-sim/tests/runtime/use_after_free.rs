//! Work on memory that is freed before the work runs, or while it runs; and orders that CUDA allows.

use std::ptr::null_mut;

use cuda_um_sim::Misuse;
use cuda_um_sys::{cudaError, cudaMemcpyKind, cudaStream_t};

use crate::pools::managed_pool;
use crate::support::{Cuda, Gate, MIB, call, h200, ok};

fn pooled(cuda: &Cuda, bytes: usize, stream: cudaStream_t) -> *mut u8 {
    let mut pointer = null_mut();
    let code = call!(cuda.table, cudaMallocAsync(&mut pointer, bytes, stream));
    ok(code);
    pointer.cast()
}

fn free_async(cuda: &Cuda, pointer: *mut u8, stream: cudaStream_t) {
    ok(call!(cuda.table, cudaFreeAsync(pointer.cast(), stream)));
}

/// Work on 4096 bytes of a stream.
#[derive(Clone, Copy, Debug)]
enum Use {
    Memset,
    CopyFrom,
    CopyTo,
    Kernel,
}

const USES: [Use; 4] = [Use::Memset, Use::CopyFrom, Use::CopyTo, Use::Kernel];

impl Use {
    fn enqueue(self, cuda: &Cuda, memory: *mut u8, other: *mut u8, stream: cudaStream_t) {
        let (memory, other) = (memory.cast(), other.cast());
        let kind = cudaMemcpyKind::cudaMemcpyDefault;
        match self {
            Use::Memset => ok(call!(cuda.table, cudaMemsetAsync(memory, 1, 4096, stream))),
            Use::CopyFrom => ok(call!(
                cuda.table,
                cudaMemcpyAsync(other, memory, 4096, kind, stream)
            )),
            Use::CopyTo => ok(call!(
                cuda.table,
                cudaMemcpyAsync(memory, other, 4096, kind, stream)
            )),
            Use::Kernel => cuda.launch("write", memory.cast(), 4096, stream),
        }
    }
}

/// Uses memory on one stream and frees it on another; returns the simulator's report, and whether the use ran first. With `ordered`, the
/// free waits for the use.
fn beside_a_free(work: Use, order: u64, ordered: bool) -> (Vec<Misuse>, Option<cudaError>) {
    let cuda = h200();
    let (uses, frees) = (cuda.stream(), cuda.stream());
    let (memory, other) = (pooled(&cuda, 4096, frees), cuda.device(4096));
    cuda.sync(frees);
    let held = cuda.sim.hold(order);
    work.enqueue(&cuda, memory, other, uses);
    if ordered {
        let event = cuda.event();
        ok(call!(cuda.table, cudaEventRecord(event, uses)));
        ok(call!(cuda.table, cudaStreamWaitEvent(frees, event, 0)));
    }
    free_async(&cuda, memory, frees);
    let _ = call!(cuda.table, cudaDeviceSynchronize());
    drop(held);
    (cuda.sim.misuse(), cuda.sim.poison())
}

fn is_use_after_free(misuse: &Misuse) -> bool {
    matches!(misuse, Misuse::UseAfterFree { .. })
}

#[test]
fn work_that_runs_after_its_memory_was_freed_is_misuse() {
    for work in USES {
        let found = (0..100).map(|order| beside_a_free(work, order, false));
        let caught = found
            .into_iter()
            .find(|(misuse, _)| misuse.iter().any(is_use_after_free));
        let (_, poison) = caught.unwrap_or_else(|| panic!("{work:?}: the free comes never first"));
        assert_eq!(poison, Some(cudaError::cudaErrorIllegalAddress), "{work:?}");
    }
}

#[test]
fn a_free_that_waits_for_the_work_is_no_misuse() {
    for work in USES {
        for order in 0..10 {
            let found = beside_a_free(work, order, true);
            assert_eq!(found, (vec![], None), "{work:?} {order}");
        }
    }
}

#[test]
fn work_that_is_enqueued_after_a_free_is_misuse() {
    for work in USES {
        for same in [true, false] {
            let cuda = h200();
            let (stream, other) = (cuda.stream(), cuda.stream());
            let (memory, target) = (pooled(&cuda, 4096, stream), cuda.device(4096));
            cuda.sync(stream);
            let pause = cuda.sim.pause();
            free_async(&cuda, memory, stream);
            work.enqueue(&cuda, memory, target, if same { stream } else { other });
            drop(pause);
            let _ = call!(cuda.table, cudaDeviceSynchronize());
            let misuse = cuda.sim.misuse();
            assert!(misuse.iter().any(is_use_after_free), "{work:?} {misuse:?}");
        }
    }
}

#[test]
fn a_prefetch_or_an_attachment_of_freed_memory_is_misuse() {
    let cuda = h200();
    let pool = managed_pool(&cuda);
    let (stream, mut memory) = (cuda.stream(), null_mut());
    ok(call!(
        cuda.table,
        cudaMallocFromPoolAsync(&mut memory, MIB, pool, stream)
    ));
    cuda.sync(stream);
    let pause = cuda.sim.pause();
    free_async(&cuda, memory.cast(), stream);
    ok(cuda.prefetch(memory.cast(), MIB, 0, stream));
    drop(pause);
    cuda.sync(stream);
    let address = memory as usize;
    let named_and_run = [
        Misuse::UseAfterFree { address },
        Misuse::UseAfterFree { address },
    ];
    assert_eq!(cuda.sim.misuse(), named_and_run);
}

#[test]
fn a_free_under_a_running_kernel_is_misuse() {
    let cuda = h200();
    let gate = Gate::new(&cuda);
    let (uses, frees) = (cuda.stream(), cuda.stream());
    let [used, unused] = [(); 2].map(|()| pooled(&cuda, 4096, frees));
    cuda.sync(frees);
    gate.launch(&cuda, used, uses);
    gate.await_kernel();
    free_async(&cuda, unused, frees);
    cuda.sync(frees);
    assert_eq!(cuda.sim.misuse(), []);
    free_async(&cuda, used, frees);
    cuda.sync(frees);
    gate.open();
    cuda.sync(uses);
    let address = used as usize;
    assert_eq!(cuda.sim.misuse(), [Misuse::UseAfterFree { address }]);
}

/// `cudaFree`, `cudaFreeHost` and `cudaHostUnregister` wait; streams and events that are destroyed let their work go on.
#[test]
fn what_cuda_allows_under_work_is_no_misuse() {
    let cuda = h200();
    let (stream, other, event) = (cuda.stream(), cuda.stream(), cuda.event());
    let (device, pinned, mut own) = (cuda.device(MIB), cuda.pinned(MIB), vec![0u8; MIB]);
    let registered = own.as_mut_ptr();
    ok(call!(
        cuda.table,
        cudaHostRegister(registered.cast(), MIB, 0)
    ));
    let pause = cuda.sim.pause();
    for memory in [device, pinned, registered] {
        cuda.launch("write", memory, MIB, stream);
    }
    ok(call!(cuda.table, cudaEventRecord(event, stream)));
    ok(call!(cuda.table, cudaStreamWaitEvent(other, event, 0)));
    cuda.launch("read", device, MIB, other);
    ok(call!(cuda.table, cudaEventDestroy(event)));
    ok(call!(cuda.table, cudaStreamDestroy(stream)));
    ok(call!(cuda.table, cudaStreamDestroy(other)));
    drop(pause);
    cuda.free(device);
    ok(call!(cuda.table, cudaFreeHost(pinned.cast())));
    ok(call!(cuda.table, cudaHostUnregister(registered.cast())));
    assert_eq!(own, [7; MIB], "the kernel has run");
    assert_eq!((cuda.sim.misuse(), cuda.sim.poison()), (vec![], None));
}
