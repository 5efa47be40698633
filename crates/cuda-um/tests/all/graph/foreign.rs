//! Captures of other libraries.
#![allow(unsafe_code, reason = "calls of CUDA, as another library makes them")]

use cuda_um::{DeviceBuffer, UnifiedBuffer, constant, sys};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, simulated};
use std::future::Future;
use std::pin::pin;
use std::ptr::null_mut;
use std::task::{Context, Poll, Waker};

/// In this mode, a query of an event, or a free, ends the capture: on every thread whose own mode is not "relaxed". The memory was dropped in use,
/// so the library's thread queries and frees meanwhile; and a future waits.
#[test]
fn threads_of_the_library_do_not_end_a_global_capture_of_another_library() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let mut dropped = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut awaited = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let pause = sim.pause();
    add.launch(
        &other,
        1000,
        (&mut dropped, constant(1000u32), constant(1u32)),
    )
    .unwrap();
    add.launch(
        &other,
        1000,
        (&mut awaited, constant(1000u32), constant(1u32)),
    )
    .unwrap();
    let mut future = pin!(awaited.host_async());
    let mut poll = || {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    };
    assert!(poll().is_pending());
    let table = sim.table();
    let global = sys::cudaStreamCaptureMode::cudaStreamCaptureModeGlobal;
    let begin = table.cudaStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let begun = unsafe { begin(stream.as_raw(), global) };
    assert_eq!(begun, sys::cudaError::cudaSuccess);
    drop(dropped);
    drop(pause);
    // Waits for the thread, and calls nothing of CUDA on this one.
    device.runtime().reclaim().unwrap();
    let (end, mut graph) = (table.cudaStreamEndCapture.unwrap(), null_mut());
    // SAFETY: the stream is live, and captured; the graph is new.
    unsafe {
        assert_eq!(
            end(stream.as_raw(), &mut graph),
            sys::cudaError::cudaSuccess
        );
        table.cudaGraphDestroy.unwrap()(graph);
    }
    let guard = loop {
        match poll() {
            Poll::Ready(guard) => break guard.unwrap(),
            Poll::Pending => std::thread::yield_now(),
        }
    };
    assert_eq!(guard[999], 1);
}
