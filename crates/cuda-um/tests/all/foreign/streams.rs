//! Adopted streams.

use super::owner;
use cuda_um::{DeviceBuffer, Error, UnifiedBuffer, sys};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{device, fails, simulated};

const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

fn handle(number: usize) -> sys::cudaStream_t {
    std::ptr::without_provenance_mut(number)
}

#[test]
fn work_on_an_adopted_stream_is_ordered_and_tracked() {
    let (_sim, device, ours) = device();
    let (owner, drops) = owner();
    let theirs = device.create_stream().unwrap();
    let keep = theirs.clone();
    // SAFETY: `theirs` lives longer.
    let adopted = unsafe { device.adopt_stream(theirs.as_raw(), (owner, keep)) }.unwrap();
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 1 << 20).unwrap();
    for round in 0..20 {
        data.fill_on(round, &adopted).unwrap();
        data.copy_within_on(..1 << 19, 1 << 19, &ours).unwrap();
        assert_eq!(data.read_one((1 << 20) - 1).unwrap(), round);
    }
    data.fill_on(7, &adopted).unwrap();
    drop(adopted);
    // The buffer tracks the fill, so the stream stays.
    assert_eq!(data.to_vec().unwrap()[5], 7);
    drop(data);
    device.synchronize().unwrap();
    device.runtime().reclaim().unwrap();
    device.trim();
    assert_eq!(drops(), 1);
    assert!(theirs.is_idle().unwrap());
}

/// claim 7
#[test]
fn the_owner_of_a_stream_stays_while_tracked_work_uses_it() {
    let (sim, device, _) = simulated(Gpu::H200);
    let (owner, drops) = owner();
    let theirs = device.create_stream().unwrap();
    // SAFETY: `theirs` lives longer.
    let adopted = unsafe { device.adopt_stream(theirs.as_raw(), owner) }.unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    data.fill_on(1, &adopted).unwrap();
    drop(adopted);
    assert_eq!(drops(), 0);
    drop(paused);
    assert_eq!(data.host().unwrap()[0], 1);
    assert_eq!(drops(), 1, "the guard removed the use");
}

/// claim 8
#[test]
fn the_legacy_default_stream_is_adopted_and_that_of_a_thread_refused() {
    let (_sim, device, ours) = device();
    for number in [0, LEGACY] {
        // SAFETY: the default streams live as long as the context.
        let stream = unsafe { device.adopt_stream(handle(number), ()) }.unwrap();
        assert_eq!(stream.as_raw(), handle(number));
        let mut data = DeviceBuffer::<u32>::zeroed(&device, 1 << 18).unwrap();
        data.fill_on(3, &stream).unwrap();
        data.copy_within_on(..10, 20, &ours).unwrap();
        let data = std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                assert_eq!(data.read_one(25).unwrap(), 3);
                data.fill_on(4, &stream).unwrap();
                stream.synchronize().unwrap();
                data
            });
            elsewhere.join().unwrap()
        });
        assert_eq!(data.read_one(0).unwrap(), 4);
    }
    let (owner, drops) = owner();
    // SAFETY: it is refused.
    let refused = unsafe { device.adopt_stream(handle(PER_THREAD), owner) };
    fails!(
        refused,
        Error::InvalidArgument { .. },
        "cudaStreamPerThread"
    );
    assert_eq!(drops(), 1, "an error drops the owner");
}
