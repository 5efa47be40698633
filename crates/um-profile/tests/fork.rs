//! A child made by `fork` profiles nothing, and leaves its parent's profile alone.
#![cfg(unix)]

use cuda_um::{Error, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{child::in_child, simulated};
use um_profile::{MigrationCounter, ProfileError, Profiler};

fn is_refused<R>(result: Result<R, ProfileError>) -> bool {
    matches!(result, Err(ProfileError::NoDevice(error)) if matches!(*error, Error::Forked { .. }))
}

/// A process has one profiler at a time, so there is one test.
#[test]
fn a_profiler_and_a_counter() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime();
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();

    let profiler = Profiler::start(runtime).unwrap();
    let mut guard = Some(buffer.host().unwrap());
    let refused = in_child(|| {
        // The child's copy of a guard, of which the parent's profiler was told.
        drop(guard.take());
        let all = [
            buffer.host().is_err(),
            is_refused(Profiler::start(runtime)),
            is_refused(MigrationCounter::start(runtime)),
        ];
        i32::from(all != [true; 3])
    });
    assert_eq!(refused, 0);
    drop(guard);
    buffer.fill_on(1, &stream).unwrap();
    let mut profiler = Some(profiler);
    assert_eq!(
        in_child(|| i32::from(!is_refused(profiler.take().unwrap().stop()))),
        0
    );
    assert_eq!(
        in_child(|| i32::from(profiler.take().is_none())),
        0,
        "a drop"
    );
    let trace = profiler.take().unwrap().stop().unwrap();
    assert_eq!(trace.operations.len(), 2, "the guard and the fill");

    let mut counter = Some(MigrationCounter::start(runtime).unwrap());
    let read = || i32::from(!is_refused(counter.as_ref().unwrap().read()));
    assert_eq!(in_child(read), 0);
    assert_eq!(
        in_child(|| i32::from(counter.take().is_none())),
        0,
        "a drop"
    );
    counter.unwrap().read().unwrap();
}
