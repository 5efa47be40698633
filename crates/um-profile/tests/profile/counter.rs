//! Only the sums, without records.

use crate::alone::alone;
use cuda_um::{Location, UnifiedBuffer};
use cuda_um_testkit::{Add, device};
use um_profile::{MigrationCounter, ProfileError, Profiler};

#[test]
fn migrations_are_counted() {
    let _alone = alone();
    let (_sim, device, stream) = device();
    let counter = MigrationCounter::start(device.runtime()).unwrap();
    assert!(matches!(
        MigrationCounter::start(device.runtime()),
        Err(ProfileError::AlreadyRunning)
    ));

    let add = Add::load(&device);
    let count = 1 << 20;
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, count).unwrap();
    let bytes = buffer.size_bytes() as u64;
    for prefetched in [false, true] {
        buffer.host_mut().unwrap().fill(1);
        let before = counter.read().unwrap();
        if prefetched {
            buffer
                .prefetch_on(Location::from(&device), &stream)
                .unwrap();
        }
        add.launch(&stream, count, (&mut buffer, count as u32, 1u32))
            .unwrap();
        stream.synchronize().unwrap();
        let after = counter.read().unwrap();
        assert_eq!(
            after.bytes_to_device - before.bytes_to_device,
            bytes,
            "{before:?} {after:?}"
        );
        assert_eq!(
            after.gpu_faults == before.gpu_faults,
            prefetched,
            "{before:?} {after:?}"
        );
        assert!(buffer.host().unwrap().iter().all(|value| *value == 2));
        let back = counter.read().unwrap();
        assert_eq!(
            back.bytes_to_host - after.bytes_to_host,
            bytes,
            "{after:?} {back:?}"
        );
        assert!(back.cpu_faults > after.cpu_faults, "{after:?} {back:?}");
        assert_eq!(back.dropped_records, 0);
    }
    drop(counter);
    drop(MigrationCounter::start(device.runtime()).expect("it can be started again"));
}

#[test]
fn a_counter_and_a_profiler_exclude_each_other() {
    let _alone = alone();
    let (_sim, device, _stream) = device();
    let profiler = Profiler::start(device.runtime()).unwrap();
    let refused = MigrationCounter::start(device.runtime());
    assert!(matches!(refused, Err(ProfileError::AlreadyRunning)));
    let refused = Profiler::start(device.runtime());
    assert!(matches!(refused, Err(ProfileError::AlreadyRunning)));
    profiler.stop().unwrap();
    drop(MigrationCounter::start(device.runtime()).unwrap());
}
