//! Every reason why there is no profile; the program continues.

use crate::alone::alone;
use cuda_um::{Device, Stream, UnifiedBuffer};
use cuda_um_sim::{Cupti, Fail};
use cuda_um_testkit::{Add, Checked, simulated_with, without_pools};
use um_profile::{ProfileError, Profiler};

fn machine(cupti: Cupti) -> (Checked, Device, Stream) {
    simulated_with(|builder| builder.cupti(cupti))
}

/// Starts a profiler, which fails, and checks that everything else works.
fn refused(device: &Device, stream: &Stream) -> ProfileError {
    let error = Profiler::start(device.runtime()).expect_err("there is a reason not to");
    runs(device, stream);
    error
}

fn runs(device: &Device, stream: &Stream) {
    let add = Add::load(device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(device, 1000).unwrap();
    add.launch(stream, 1000, (&mut buffer, 1000u32, 1u32))
        .unwrap();
    assert!(buffer.host().unwrap().iter().all(|value| *value == 1));
}

#[test]
fn no_cupti() {
    let _alone = alone();
    let (_sim, device, stream) = machine(Cupti::Absent);
    let error = refused(&device, &stream);
    assert!(matches!(error, ProfileError::Missing(_)), "{error}");
    // The process is not blocked: the profiler of another runtime starts.
    let (_sim, device, _stream) = machine(Cupti::Present);
    Profiler::start(device.runtime()).unwrap().stop().unwrap();
}

#[test]
fn a_cupti_that_is_too_old() {
    let _alone = alone();
    let (_sim, device, stream) = machine(Cupti::TooOld);
    let error = refused(&device, &stream);
    assert!(matches!(error, ProfileError::TooOld(_)), "{error}");
    assert!(error.to_string().contains("17"), "{error}");
}

#[test]
fn a_cupti_that_lacks_a_function() {
    let _alone = alone();
    for name in [
        "cuptiGetVersion",
        "cuptiGetTimestamp",
        "cuptiActivityFlushAll",
        "cuptiActivityGetNumDroppedRecords",
    ] {
        let (_sim, device, stream) = machine(Cupti::Lacks(name));
        let error = refused(&device, &stream);
        assert!(matches!(error, ProfileError::TooOld(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_cupti_that_refuses() {
    let _alone = alone();
    let (sim, device, stream) = machine(Cupti::Present);
    for (name, number, word, help) in [
        (
            "cuptiActivityEnable",
            35,
            "INSUFFICIENT_PRIVILEGES",
            "NVreg_RestrictProfilingToAdminUsers",
        ),
        (
            "cuptiActivityRegisterCallbacks",
            39,
            "MULTIPLE_SUBSCRIBERS",
            "another profiler",
        ),
        (
            "cuptiActivityConfigureUnifiedMemoryCounter",
            28,
            "UM_PROFILING_NOT_SUPPORTED",
            "",
        ),
    ] {
        sim.fail(Fail::call(name).with_code(number));
        let error = refused(&device, &stream);
        assert!(
            matches!(error, ProfileError::Refused { call, code, .. } if call == name && code == number),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(word) && text.contains(help), "{text}");
        // Nothing is left of the attempt.
        Profiler::start(device.runtime()).unwrap().stop().unwrap();
    }
}

#[test]
fn a_cupti_that_does_not_deliver() {
    let _alone = alone();
    let (sim, device, stream) = machine(Cupti::Present);
    let profiler = Profiler::start(device.runtime()).unwrap();
    runs(&device, &stream);
    sim.fail(Fail::call("cuptiActivityFlushAll").with_code(999));
    let error = profiler.stop().expect_err("the flush fails");
    assert!(
        matches!(error, ProfileError::Refused { code: 999, .. }),
        "{error}"
    );
    runs(&device, &stream);
    Profiler::start(device.runtime()).unwrap().stop().unwrap();
}

#[test]
fn a_second_profiler() {
    let _alone = alone();
    let (_sim, device, _stream) = machine(Cupti::Present);
    let (_other_sim, other, _other_stream) = machine(Cupti::Present);
    let first = Profiler::start(device.runtime()).unwrap();
    for runtime in [device.runtime(), other.runtime()] {
        let error = um_profile::profile(runtime, || ()).expect_err("there is one");
        assert!(matches!(error, ProfileError::AlreadyRunning), "{error}");
    }
    drop(first);
    um_profile::profile(other.runtime(), || ()).unwrap();
}

/// Records and operations beyond the limits are counted, but not stored.
#[test]
fn what_is_over_the_limits_is_counted() {
    let _alone = alone();
    let (_sim, device, stream) = machine(Cupti::Present);
    without_pools(&device);
    let all = {
        let profiler = Profiler::start(device.runtime()).unwrap();
        runs(&device, &stream);
        profiler.stop().unwrap()
    };
    let profiler = Profiler::start_with(device.runtime(), 1).unwrap();
    runs(&device, &stream);
    let some = profiler.stop().unwrap();
    assert_eq!(some.records.len(), 1);
    assert_eq!(
        some.dropped_records as usize + 1,
        all.records.len(),
        "{all:?}"
    );
    assert_eq!((some.operations.len(), all.dropped_operations), (1, 0));
    assert_eq!(
        some.dropped_operations as usize + 1,
        all.operations.len(),
        "{all:?}"
    );
}
