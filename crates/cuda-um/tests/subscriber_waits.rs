//! A subscriber of `tracing` that waits for a thread which uses the library: nothing waits for ever.

mod support;

use cuda_um::{DeviceBuffer, Runtime};
use cuda_um_sim::{Fail, Gpu, Leak};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use support::simulated;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// At each warning, waits until another thread has reclaimed.
struct Reclaims;

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
static TOLD: OnceLock<Mutex<Sender<()>>> = OnceLock::new();

impl Subscriber for Reclaims {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_um" && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let runtime = RUNTIME.lock().unwrap().clone().expect("it is open");
        // An error of another free may come here.
        let _ = std::thread::spawn(move || runtime.reclaim()).join();
        let told = TOLD.get().expect("the test listens").lock().unwrap();
        told.send(()).unwrap();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_thread_that_frees_does_not_wait_for_a_subscriber() {
    let (tell, told) = mpsc::channel();
    TOLD.set(Mutex::new(tell)).unwrap();
    tracing::subscriber::set_global_default(Reclaims).unwrap();
    let (sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime().clone();
    *RUNTIME.lock().unwrap() = Some(runtime.clone());
    let is_stream = |leak: &Leak| matches!(leak, Leak::Stream);
    sim.leaves(1, "its destruction fails", is_stream);
    let mut first = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut second = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    first.fill(1, &stream).unwrap();
    second.fill(1, &device.default_stream().unwrap()).unwrap();
    // The thread that frees has the last handle of the stream.
    drop((first, second, stream));
    sim.fail(Fail::call("cudaStreamDestroy"));
    drop(paused);
    told.recv_timeout(Duration::from_secs(60))
        .expect("the event is sent, and its subscriber returns");
    runtime.reclaim().unwrap();
    *RUNTIME.lock().unwrap() = None;
}
