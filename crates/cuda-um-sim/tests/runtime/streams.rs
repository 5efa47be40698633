//! Streams, events, and the default streams' rules.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cuda_um_sys::{cudaError, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

/// Waits on the stream's thread until the flag is set.
unsafe extern "C" fn until_set(flag: *mut c_void) {
    // SAFETY: every test passes a flag that outlives the stream's work.
    let flag = unsafe { &*flag.cast::<AtomicBool>() };
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counts calls.
unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: every test passes a counter that outlives the stream's work.
    unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, Ordering::AcqRel);
}

fn block(cuda: &Cuda, stream: cudaStream_t, flag: &AtomicBool) {
    ok(call!(
        cuda.table,
        cudaLaunchHostFunc(
            stream,
            Some(until_set),
            std::ptr::from_ref(flag).cast_mut().cast()
        )
    ));
}

fn counted(cuda: &Cuda, stream: cudaStream_t, counter: &AtomicU32) {
    ok(call!(
        cuda.table,
        cudaLaunchHostFunc(
            stream,
            Some(count),
            std::ptr::from_ref(counter).cast_mut().cast()
        )
    ));
}

fn query(cuda: &Cuda, stream: cudaStream_t) -> cudaError {
    call!(cuda.table, cudaStreamQuery(stream))
}

fn blocking_stream(cuda: &Cuda) -> cudaStream_t {
    let mut stream = null_mut();
    ok(call!(cuda.table, cudaStreamCreateWithFlags(&mut stream, 0)));
    stream
}

/// Gives a stream that must not run something a chance to run it.
fn settle() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn work_on_a_stream_runs_later_and_in_order() {
    let cuda = h200();
    let stream = cuda.stream();
    let data = cuda.managed(MIB);
    let pause = cuda.sim.pause();
    cuda.launch("write", data, MIB, stream);
    cuda.launch("add", data, MIB, stream);
    assert_eq!(query(&cuda, stream), cudaError::cudaErrorNotReady);
    assert_eq!(cuda.sim.counters().kernels, 0);
    drop(pause);
    cuda.sync(stream);
    assert_eq!(query(&cuda, stream), cudaError::cudaSuccess);
    assert!(
        bytes(data, MIB).iter().all(|byte| *byte == 8),
        "7 was written, then 1 added"
    );
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
fn a_stream_waits_for_another_streams_event() {
    let cuda = h200();
    let (first, second, event) = (cuda.stream(), cuda.stream(), cuda.event());
    let (open, ran) = (AtomicBool::new(false), AtomicU32::new(0));
    block(&cuda, first, &open);
    ok(call!(cuda.table, cudaEventRecord(event, first)));
    ok(call!(cuda.table, cudaStreamWaitEvent(second, event, 0)));
    counted(&cuda, second, &ran);
    settle();
    assert_eq!(ran.load(Ordering::Acquire), 0);
    assert_eq!(
        call!(cuda.table, cudaEventQuery(event)),
        cudaError::cudaErrorNotReady
    );
    open.store(true, Ordering::Release);
    cuda.sync(second);
    assert_eq!(ran.load(Ordering::Acquire), 1);
    ok(call!(cuda.table, cudaEventQuery(event)));
}

#[test]
fn an_event_that_recorded_nothing_holds_nobody_up() {
    let cuda = h200();
    let (stream, event) = (cuda.stream(), cuda.event());
    ok(call!(cuda.table, cudaStreamWaitEvent(stream, event, 0)));
    ok(call!(cuda.table, cudaEventSynchronize(event)));
    ok(call!(cuda.table, cudaEventQuery(event)));
    cuda.sync(stream);
}

#[test]
fn an_event_destroyed_before_it_completes_still_orders() {
    let cuda = h200();
    let (first, second, event) = (cuda.stream(), cuda.stream(), cuda.event());
    let (open, ran) = (AtomicBool::new(false), AtomicU32::new(0));
    block(&cuda, first, &open);
    ok(call!(cuda.table, cudaEventRecord(event, first)));
    ok(call!(cuda.table, cudaStreamWaitEvent(second, event, 0)));
    ok(call!(cuda.table, cudaEventDestroy(event)));
    counted(&cuda, second, &ran);
    settle();
    assert_eq!(ran.load(Ordering::Acquire), 0);
    open.store(true, Ordering::Release);
    cuda.sync(second);
    assert_eq!(
        call!(cuda.table, cudaEventQuery(event)),
        cudaError::cudaErrorInvalidResourceHandle
    );
}

#[test]
fn the_legacy_default_stream_takes_turns_with_blocking_streams() {
    let cuda = h200();
    let (blocking, independent) = (blocking_stream(&cuda), cuda.stream());
    let (open, on_default, after, beside) = (
        AtomicBool::new(false),
        AtomicU32::new(0),
        AtomicU32::new(0),
        AtomicU32::new(0),
    );
    let default = null_mut();
    let other = blocking_stream(&cuda);
    block(&cuda, blocking, &open);
    counted(&cuda, default, &on_default);
    counted(&cuda, other, &after);
    counted(&cuda, independent, &beside);
    cuda.sync(independent);
    assert_eq!(
        beside.load(Ordering::Acquire),
        1,
        "a non-blocking stream does not care"
    );
    settle();
    assert_eq!(
        on_default.load(Ordering::Acquire),
        0,
        "the default stream waits for blocking streams"
    );
    assert_eq!(
        after.load(Ordering::Acquire),
        0,
        "and blocking streams wait for the default stream"
    );
    open.store(true, Ordering::Release);
    cuda.sync(other);
    assert_eq!(
        (
            on_default.load(Ordering::Acquire),
            after.load(Ordering::Acquire)
        ),
        (1, 1)
    );
}

#[test]
fn each_thread_has_its_own_default_stream() {
    let cuda = h200();
    let per_thread = 2 as cudaStream_t;
    let (open, ran) = (AtomicBool::new(false), AtomicU32::new(0));
    block(&cuda, per_thread, &open);
    let (table, counter) = (cuda.table.clone(), &ran);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let per_thread = 2 as cudaStream_t;
            ok(call!(
                table,
                cudaLaunchHostFunc(
                    per_thread,
                    Some(count),
                    std::ptr::from_ref(counter).cast_mut().cast()
                )
            ));
            ok(call!(table, cudaStreamSynchronize(per_thread)));
        });
    });
    assert_eq!(ran.load(Ordering::Acquire), 1);
    open.store(true, Ordering::Release);
    cuda.sync(per_thread);
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let cuda = h200();
    let stream = cuda.stream();
    let (open, ran) = (AtomicBool::new(false), AtomicU32::new(0));
    block(&cuda, stream, &open);
    counted(&cuda, stream, &ran);
    ok(call!(cuda.table, cudaStreamDestroy(stream)));
    assert_eq!(
        query(&cuda, stream),
        cudaError::cudaErrorInvalidResourceHandle
    );
    open.store(true, Ordering::Release);
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    assert_eq!(ran.load(Ordering::Acquire), 1);
}

#[test]
fn events_time_what_lies_between_them() {
    let cuda = h200();
    let (stream, start, end, mut untimed) = (cuda.stream(), cuda.event(), cuda.event(), null_mut());
    let data = cuda.managed(64 * MIB);
    bytes(data, 64 * MIB).fill(1);
    ok(call!(cuda.table, cudaEventRecord(start, stream)));
    ok(cuda.prefetch(data, 64 * MIB, 0, stream));
    ok(call!(cuda.table, cudaEventRecord(end, stream)));
    ok(call!(cuda.table, cudaEventSynchronize(end)));
    let mut milliseconds = 0.0;
    ok(call!(
        cuda.table,
        cudaEventElapsedTime(&mut milliseconds, start, end)
    ));
    assert!(
        (1.0..2.0).contains(&milliseconds),
        "64 MiB at 51 GB/s take 1.3 ms, not {milliseconds}"
    );
    ok(call!(cuda.table, cudaEventCreateWithFlags(&mut untimed, 2)));
    ok(call!(cuda.table, cudaEventRecord(untimed, stream)));
    let error = call!(
        cuda.table,
        cudaEventElapsedTime(&mut milliseconds, start, untimed)
    );
    assert_eq!(error, cudaError::cudaErrorInvalidResourceHandle);
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

#[test]
fn streams_and_events_of_nobody_are_refused() {
    let cuda = h200();
    let bad = 0xdead0 as cudaStream_t;
    assert_eq!(query(&cuda, bad), cudaError::cudaErrorInvalidResourceHandle);
    assert_eq!(
        call!(cuda.table, cudaStreamDestroy(null_mut())),
        cudaError::cudaErrorInvalidResourceHandle
    );
    let mut stream = null_mut();
    assert_eq!(
        call!(cuda.table, cudaStreamCreateWithFlags(&mut stream, 9)),
        cudaError::cudaErrorInvalidValue
    );
    let (mut least, mut greatest) = (9, 9);
    ok(call!(
        cuda.table,
        cudaDeviceGetStreamPriorityRange(&mut least, &mut greatest)
    ));
    assert!(greatest < least);
    ok(call!(
        cuda.table,
        cudaStreamCreateWithPriority(&mut stream, 1, greatest)
    ));
}
