//! Counting on a GPU. Without one, CUPTI is missing or refuses, and says so.

mod support;

use cuda_um::profile::{MigrationCounter, ProfileError};
use cuda_um::{Location, UnifiedBuffer};
use support::{Add, device};

/// One test, for CUPTI is the process's.
#[test]
fn migrations_are_counted_or_the_reason_is_told() {
    let (device, stream) = device();
    let counter = match MigrationCounter::start(device.runtime()) {
        Ok(counter) => counter,
        Err(why @ (ProfileError::Missing { .. } | ProfileError::Refused { .. })) => {
            assert_ne!(
                std::env::var("CUDA_UM_TEST_RUNTIME").as_deref(),
                Ok("cuda"),
                "{why}"
            );
            assert!(why.to_string().contains("CUPTI"), "{why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    assert!(matches!(
        MigrationCounter::start(device.runtime()),
        Err(ProfileError::AlreadyRunning)
    ));
    if std::env::var("CUDA_UM_TEST_RUNTIME").as_deref() != Ok("cuda") {
        return;
    }

    let add = Add::load(&device);
    let count = 1 << 20;
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, count).unwrap();
    let bytes = buffer.size_bytes() as u64;
    for prefetched in [false, true] {
        buffer.host_mut().unwrap().fill(1);
        let before = counter.read().unwrap();
        if prefetched {
            buffer.prefetch(Location::from(&device), &stream).unwrap();
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
