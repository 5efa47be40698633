//! Profilers and their observers, in a child. A process has one profiler at a time, so there is one test.

use crate::context::observer;
use crate::fork::tests::{gone_without_a_trace, simulated, without_cuda};
use crate::profile::{MigrationCounter, ProfileError, Profiler};
use crate::{Error, UnifiedBuffer};
use cuda_um_sim::Gpu;

fn is_refused<R>(result: Result<R, ProfileError>) -> bool {
    let Err(ProfileError::NoDevice(error)) = result else {
        return false;
    };
    matches!(*error, Error::Forked { .. })
}

#[test]
fn a_profiler_and_a_counter() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let runtime = device.runtime();
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();

    let profiler = Profiler::start(runtime).unwrap();
    assert!(observer::observer().is_some());
    gone_without_a_trace(&sim, buffer.host().unwrap());
    without_cuda(&sim, || {
        assert!(observer::observer().is_none(), "it is the parent's");
        assert!(buffer.host().is_err());
        assert!(buffer.fill_on(1, &stream).is_err());
        buffer.set_name("a child's");
        assert!(is_refused(Profiler::start(runtime)));
        assert!(is_refused(MigrationCounter::start(runtime)));
    });
    buffer.fill_on(1, &stream).unwrap();
    // The profiler is dropped in place of the child's copy: the session continues.
    gone_without_a_trace(&sim, profiler);
    assert!(observer::observer().is_some());

    let profiler = Profiler::start(runtime).unwrap();
    assert!(without_cuda(&sim, || is_refused(profiler.stop())));
    Profiler::start(runtime).unwrap().stop().unwrap();

    let counter = MigrationCounter::start(runtime).unwrap();
    assert!(without_cuda(&sim, || is_refused(counter.read())));
    counter.read().unwrap();
    gone_without_a_trace(&sim, counter);
    // The parent's session continues, too.
    buffer.host().unwrap();
    assert!(MigrationCounter::start(runtime).is_ok());
}
