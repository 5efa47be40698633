//! Error state, sticky errors, injected failures, the trace.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cuda_um_sim::{Fail, Misuse, Sim};
use cuda_um_sys::cudaError;

use crate::support::{Cuda, Gate, MIB, call, h200, ok};

#[test]
fn an_injected_failure_strikes_the_call_that_was_named() {
    let cuda = h200();
    cuda.sim.fail(
        Fail::call("cudaMalloc")
            .nth(2)
            .with(cudaError::cudaErrorMemoryAllocation),
    );
    cuda.device(16);
    let mut pointer = null_mut();
    assert_eq!(
        call!(cuda.table, cudaMalloc(&mut pointer, 16)),
        cudaError::cudaErrorMemoryAllocation
    );
    assert_eq!(
        call!(cuda.table, cudaGetLastError()),
        cudaError::cudaErrorMemoryAllocation
    );
    cuda.device(16);

    cuda.sim
        .fail(Fail::call("cudaMallocManaged").from_then_on());
    for _ in 0..3 {
        assert_eq!(
            call!(cuda.table, cudaMallocManaged(&mut pointer, 16, 1)),
            cudaError::cudaErrorUnknown
        );
    }
    cuda.sim.clear_failures();
    cuda.managed(16);

    cuda.sim.fail(
        Fail::call("cudaFree")
            .after_the_call()
            .with(cudaError::cudaErrorLaunchFailure),
    );
    assert_eq!(
        call!(cuda.table, cudaFree(null_mut())),
        cudaError::cudaErrorLaunchFailure
    );
    assert_eq!(cuda.sim.poison(), Some(cudaError::cudaErrorLaunchFailure));
}

#[test]
fn a_driver_function_can_be_made_to_fail() {
    let cuda = h200();
    let function = cuda.kernel("write");
    cuda.sim
        .fail(Fail::call("cuLaunchKernel").with(cudaError(701)));
    assert_eq!(
        cuda.try_launch(function, cuda.device(16), 16, null_mut()),
        701
    );
    assert_eq!(
        call!(cuda.table, cudaPeekAtLastError()),
        cudaError::cudaSuccess,
        "the driver has no last error"
    );
}

/// ThreadSanitizer found it: a copy went on into memory that its owner had freed on the word of a sticky error.
#[test]
fn when_a_sticky_error_is_told_no_work_runs() {
    const LONG: Duration = Duration::from_millis(100);
    let cuda = h200();
    let (gate, data) = (Gate::new(&cuda), cuda.managed(16));
    gate.launch(&cuda, data, cuda.stream());
    gate.await_kernel();
    let began = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(LONG);
        gate.open();
    });
    cuda.sim.fail(Fail::call("cudaStreamQuery").sticky());
    let sticky = cudaError::cudaErrorUnknown;
    assert_eq!(call!(cuda.table, cudaStreamQuery(null_mut())), sticky);
    assert!(began.elapsed() >= LONG, "the kernel has ended");
}

/// A sticky error does not wait for host functions: here one ends only after the call.
#[test]
fn a_sticky_error_does_not_wait_for_a_host_function() {
    static BEGAN: Barrier = Barrier::new(2);
    static TOLD: Barrier = Barrier::new(2);
    unsafe extern "C" fn long(_: *mut c_void) {
        BEGAN.wait();
        TOLD.wait();
    }
    let cuda = h200();
    let stream = cuda.stream();
    ok(call!(
        cuda.table,
        cudaLaunchHostFunc(stream, Some(long), null_mut())
    ));
    BEGAN.wait();
    cuda.sim.fail(Fail::call("cudaStreamQuery").sticky());
    let sticky = cudaError::cudaErrorUnknown;
    assert_eq!(call!(cuda.table, cudaStreamQuery(null_mut())), sticky);
    TOLD.wait();
}

#[test]
fn one_simulators_poison_does_not_reach_another() {
    let (sick, well) = (h200(), h200());
    sick.sim.fail(Fail::call("cudaDeviceSynchronize").sticky());
    assert_eq!(
        call!(sick.table, cudaDeviceSynchronize()),
        cudaError::cudaErrorUnknown
    );
    assert_eq!(
        call!(sick.table, cudaDeviceSynchronize()),
        cudaError::cudaErrorUnknown
    );
    ok(call!(well.table, cudaDeviceSynchronize()));
    let data = well.managed(MIB);
    well.run("write", data, MIB);
}

#[test]
fn the_trace_names_calls_as_the_library_exports_them() {
    let cuda = Cuda::new(Sim::builder());
    let data = cuda.managed(MIB);
    cuda.sim.clear_trace();
    ok(cuda.prefetch(data, MIB, 0, null_mut()));
    assert_eq!(
        call!(cuda.table, cudaSetDevice(5)),
        cudaError::cudaErrorInvalidDevice
    );
    let trace = cuda.sim.trace();
    let calls: Vec<_> = trace.iter().map(|call| (call.name, call.result)).collect();
    assert_eq!(
        calls,
        [
            ("cudaMemPrefetchAsync", cudaError::cudaSuccess),
            ("cudaSetDevice", cudaError::cudaErrorInvalidDevice)
        ]
    );
    assert!(trace[0].at <= trace[1].at);
}

#[test]
fn what_is_freed_twice_in_a_broken_context_shows() {
    let cuda = Cuda::new(Sim::builder());
    let (once, twice) = (cuda.managed(MIB), cuda.managed(MIB));
    cuda.sim
        .fail(Fail::call("cudaDeviceSynchronize").with(cudaError::cudaErrorIllegalAddress));
    let broken = cudaError::cudaErrorIllegalAddress;
    assert_eq!(call!(cuda.table, cudaDeviceSynchronize()), broken);
    for data in [once, twice, twice] {
        assert_eq!(call!(cuda.table, cudaFree(data.cast())), broken);
    }
    let address = twice.addr();
    assert_eq!(cuda.sim.misuse(), [Misuse::DoubleFree { address }]);
    assert_eq!(cuda.sim.leaks().len(), 2, "nothing is freed any more");
}
