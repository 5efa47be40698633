//! Streams, events, and the default streams' rules.

use std::ffi::c_void;

use cuda_um_sys::{cudaError, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

fn query(cuda: &Cuda, stream: cudaStream_t) -> cudaError {
    call!(cuda.table, cudaStreamQuery(stream))
}

/// The result of a write on one stream and an addition on another: with an event between them, and without.
fn held_write_and_add(order: u64, ordered: bool) -> u8 {
    let cuda = h200();
    let (first, second, event) = (cuda.stream(), cuda.stream(), cuda.event());
    let data = cuda.managed(MIB);
    let held = cuda.sim.hold(order);
    cuda.launch("write", data, MIB, first);
    if ordered {
        ok(call!(cuda.table, cudaEventRecord(event, first)));
        ok(call!(cuda.table, cudaStreamWaitEvent(second, event, 0)));
    }
    cuda.launch("add", data, MIB, second);
    assert_eq!(query(&cuda, second), cudaError::cudaErrorNotReady);
    assert!(!held.is_over() && cuda.sim.counters().kernels == 0);
    cuda.sync(second);
    assert!(held.is_over());
    assert_eq!(held.ended_by(), Some(std::thread::current().id()));
    cuda.sync(first);
    bytes(data, MIB)[0]
}

#[test]
fn held_streams_go_on_one_by_one_when_somebody_waits() {
    let without: Vec<_> = (0..16)
        .map(|order| held_write_and_add(order, false))
        .collect();
    assert!(without.contains(&7) && without.contains(&8), "{without:?}");
    for (order, left) in (0..).zip(without) {
        assert_eq!(
            held_write_and_add(order, false),
            left,
            "order {order} again"
        );
        assert_eq!(held_write_and_add(order, true), 8);
    }
}

#[test]
fn a_host_function_may_touch_managed_memory_but_not_call_cuda() {
    struct Case {
        cuda: Cuda,
        data: *mut u8,
        result: cudaError,
    }
    unsafe extern "C" fn inside(case: *mut c_void) {
        // SAFETY: the test passes its case, and waits for the stream before it reads it.
        let case = unsafe { &mut *case.cast::<Case>() };
        bytes(case.data, 1)[0] = 9;
        case.result = call!(case.cuda.table, cudaDeviceSynchronize());
    }
    let cuda = h200();
    let (stream, data) = (cuda.stream(), cuda.managed(4096));
    cuda.run("write", data, 4096);
    let mut case = Case {
        cuda: h200(),
        data,
        result: cudaError::cudaSuccess,
    };
    ok(call!(
        cuda.table,
        cudaLaunchHostFunc(stream, Some(inside), (&raw mut case).cast())
    ));
    cuda.sync(stream);
    assert_eq!(bytes(data, 1)[0], 9);
    assert_eq!(case.result, cudaError::cudaErrorNotPermitted);
    assert!(matches!(
        case.cuda.sim.misuse()[..],
        [cuda_um_sim::Misuse::CallInHostFunction { .. }]
    ));
}
