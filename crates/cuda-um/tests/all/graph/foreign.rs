//! Captures of other libraries.
#![allow(unsafe_code, reason = "calls of CUDA, as another library makes them")]

use cuda_um::{DeviceBuffer, Stream, UnifiedBuffer, buffer::FileRead, sys};
use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::call::Calls;
use cuda_um_testkit::{Add, calls, simulated, unpooled};
use std::future::Future;
use std::pin::pin;
use std::ptr::null_mut;
use std::task::{Context, Poll, Waker};

const GLOBAL: sys::cudaStreamCaptureMode = sys::cudaStreamCaptureMode::cudaStreamCaptureModeGlobal;

/// Runs `body` while another library captures a stream in CUDA's "global" mode, and checks that this did not end the capture.
fn while_another_captures(sim: &Sim, stream: &Stream, body: impl FnOnce()) {
    let table = sim.table();
    let (begin, end) = (table.cudaStreamBeginCapture, table.cudaStreamEndCapture);
    // SAFETY: the stream is live.
    let begun = unsafe { begin.unwrap()(stream.as_raw(), GLOBAL) };
    assert_eq!(begun, sys::cudaError::cudaSuccess);
    body();
    let mut graph = null_mut();
    // SAFETY: the stream is live, and captured; the graph is new.
    unsafe {
        let ended = end.unwrap()(stream.as_raw(), &mut graph);
        assert_eq!(ended, sys::cudaError::cudaSuccess, "the capture was ended");
        table.cudaGraphDestroy.unwrap()(graph);
    }
}

/// In this mode, a query of an event, or a free, ends the capture: on every thread whose own mode is not "relaxed". The memory was dropped in use,
/// and is queried and freed meanwhile; and a future waits, on a thread of the library.
#[test]
fn waits_and_drops_of_the_library_do_not_end_a_global_capture_of_another_library() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let [mut dropped, mut second] =
        [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap());
    let mut awaited = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let pause = sim.pause();
    add.run(&other, &mut dropped, 1000, 1);
    add.run(&other, &mut awaited, 1000, 1);
    second.fill_on(1, &other).unwrap();
    let mut future = pin!(awaited.host_async());
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = || future.as_mut().poll(&mut context);
    assert!(poll().is_pending());
    while_another_captures(&sim, &stream, || {
        drop(dropped);
        drop(pause);
        drop(second);
        device.runtime().reclaim().unwrap();
    });
    // The mode of this thread is as before.
    assert_eq!(sim.table().exchange_mode(GLOBAL.0), Ok(GLOBAL.0));
    let guard = loop {
        match poll() {
            Poll::Ready(guard) => break guard.unwrap(),
            Poll::Pending => std::thread::yield_now(),
        }
    };
    assert_eq!(guard[999], 1);
}

/// A thread of the library allocates the pinned memory for large reads and copies.
#[test]
fn pinned_memory_for_reads_does_not_end_a_global_capture_of_another_library() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let pinned = || calls(&sim, "cudaHostRegister") + calls(&sim, "cudaHostAlloc");
    let before = pinned();
    while_another_captures(&sim, &stream, || {
        FileRead::prepare(&device);
        while pinned() == before {
            std::thread::yield_now();
        }
    });
}
