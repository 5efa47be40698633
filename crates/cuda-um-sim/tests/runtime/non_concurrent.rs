//! Devices without concurrent managed access: no page faults, and the host keeps off while kernels run.

use std::ptr::null_mut;

use cuda_um_sim::{Gpu, Misuse, Sim};
use cuda_um_sys::{cudaError, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, ok};

const HOST: u32 = 2;
const SINGLE: u32 = 4;

fn device() -> Cuda {
    Cuda::new(Sim::builder().gpu(Gpu::NoConcurrentAccess))
}

fn attach(cuda: &Cuda, stream: cudaStream_t, pointer: *mut u8, flags: u32) -> cudaError {
    call!(
        cuda.table,
        cudaStreamAttachMemAsync(stream, pointer.cast(), 0, flags)
    )
}

#[test]
fn a_launch_takes_every_managed_allocation_along() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Maxwell));
    let (used, unused) = (cuda.managed(MIB), cuda.managed(MIB));
    bytes(used, MIB).fill(1);
    bytes(unused, MIB).fill(1);
    cuda.run("add", used, 16);
    let counters = cuda.sim.counters();
    assert_eq!(
        (counters.gpu_faults, counters.bytes_to_device),
        (0, 2 * MIB as u64)
    );
    assert_eq!(
        bytes(used, MIB)[..17]
            .iter()
            .map(|byte| u32::from(*byte))
            .sum::<u32>(),
        33
    );
    assert_eq!(
        cuda.sim.misuse(),
        [],
        "after synchronizing the host may touch it"
    );
}

#[test]
fn the_host_must_not_touch_managed_memory_under_a_kernel() {
    let cuda = device();
    let (stream, used, other) = (cuda.stream(), cuda.managed(MIB), cuda.managed(4096));
    cuda.launch("write", used, MIB, stream);
    bytes(other, 1)[0] = 1;
    assert_eq!(
        cuda.sim.misuse(),
        [Misuse::HostTouchDuringKernel {
            address: other as usize
        }],
        "any managed memory"
    );
    cuda.sync(stream);
    assert!(bytes(used, MIB).iter().all(|byte| *byte == 7));
    assert_eq!(cuda.sim.misuse().len(), 1);
}

#[test]
fn a_kernel_that_ended_unseen_still_counts_as_running() {
    let cuda = device();
    let (stream, data) = (cuda.stream(), cuda.managed(4096));
    cuda.launch("write", data, 4096, stream);
    while cuda.sim.counters().kernels == 0 {
        std::thread::yield_now();
    }
    bytes(data, 1)[0] = 1;
    assert_eq!(cuda.sim.misuse().len(), 1);
}

#[test]
fn an_event_shows_the_host_that_a_kernel_ended() {
    let cuda = device();
    let (first, second, data, event, last) = (
        cuda.stream(),
        cuda.stream(),
        cuda.managed(4096),
        cuda.event(),
        cuda.event(),
    );
    cuda.launch("write", data, 4096, first);
    ok(call!(cuda.table, cudaEventRecord(event, first)));
    ok(call!(cuda.table, cudaStreamWaitEvent(second, event, 0)));
    ok(call!(cuda.table, cudaEventRecord(last, second)));
    ok(call!(cuda.table, cudaEventSynchronize(last)));
    assert_eq!(bytes(data, 1)[0], 7);
    assert_eq!(
        cuda.sim.misuse(),
        [],
        "the host has also seen the work complete that the second stream waited for"
    );
}

/// CUDA: for the purposes of unified memory, success of `cudaStreamQuery` and `cudaEventQuery` is equivalent to having waited.
#[test]
fn a_query_that_succeeds_shows_the_host_that_a_kernel_ended() {
    let cuda = device();
    let (stream, data, event) = (cuda.stream(), cuda.managed(4096), cuda.event());
    cuda.launch("write", data, 4096, stream);
    while call!(cuda.table, cudaStreamQuery(stream)) == cudaError::cudaErrorNotReady {
        std::thread::yield_now();
    }
    assert_eq!(bytes(data, 1)[0], 7);
    cuda.launch("write", data, 4096, stream);
    ok(call!(cuda.table, cudaEventRecord(event, stream)));
    ok(call!(cuda.table, cudaStreamDestroy(stream)));
    while call!(cuda.table, cudaEventQuery(event)) == cudaError::cudaErrorNotReady {
        std::thread::yield_now();
    }
    bytes(data, 1)[0] = 1;
    assert_eq!(cuda.sim.misuse(), [], "also of a stream that is gone");
}

#[test]
fn memory_attached_to_the_host_is_free_and_the_kernels_may_not_use_it() {
    let cuda = device();
    let (stream, used, mine) = (cuda.stream(), cuda.managed(4096), cuda.managed(4096));
    ok(attach(&cuda, stream, mine, HOST));
    cuda.sync(stream);
    cuda.launch("write", used, 4096, stream);
    bytes(mine, 4096).fill(1);
    assert_eq!(cuda.sim.misuse(), []);
    cuda.launch("write", mine, 4096, stream);
    assert_eq!(
        call!(cuda.table, cudaStreamSynchronize(stream)),
        cudaError::cudaErrorIllegalAddress
    );
}

#[test]
fn memory_attached_to_one_stream_is_free_under_others() {
    let cuda = device();
    let (first, second, a, b) = (
        cuda.stream(),
        cuda.stream(),
        cuda.managed(4096),
        cuda.managed(4096),
    );
    ok(attach(&cuda, first, a, SINGLE));
    ok(attach(&cuda, second, b, SINGLE));
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    cuda.launch("write", a, 4096, first);
    bytes(b, 4096).fill(1);
    assert_eq!(cuda.sim.misuse(), []);
    bytes(a, 1)[0] = 1;
    assert_eq!(cuda.sim.misuse().len(), 1);
    assert_eq!(
        attach(&cuda, null_mut(), a, SINGLE),
        cudaError::cudaErrorInvalidValue,
        "the default stream is no owner"
    );
    assert_eq!(attach(&cuda, first, a, 9), cudaError::cudaErrorInvalidValue);
    assert_eq!(
        attach(&cuda, first, cuda.device(16), SINGLE),
        cudaError::cudaErrorInvalidValue
    );
}

#[test]
fn copies_work_without_faults() {
    let cuda = device();
    let (data, source) = (cuda.managed(MIB), vec![3u8; MIB]);
    cuda.copy(data, source.as_ptr(), MIB);
    cuda.run("add", data, MIB);
    assert!(bytes(data, MIB).iter().all(|byte| *byte == 4));
    assert_eq!(cuda.sim.misuse(), []);
}
