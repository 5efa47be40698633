//! Launches: arguments, views, limits, modules.

use cuda_um::{
    DeviceBuffer, Error, LaunchConfig, PinnedBuffer, RegisteredBuffer, UnifiedBuffer,
    kernel::Arguments,
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, device, on, simulated, simulated_with};

#[test]
fn views_are_parts_of_buffers() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut unified = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    add.launch(
        &stream,
        300,
        (unified.view_mut(100..400).unwrap(), 300u32, 2u32),
    )
    .unwrap();
    let part = unified.view_mut(500..).unwrap().slice(10..=19).unwrap();
    assert_eq!(part.len(), 10);
    add.launch(&stream, 10, (part, 10u32, 5u32)).unwrap();
    add.launch(&stream, 1, (pinned.view_mut(999..).unwrap(), 1u32, 8u32))
        .unwrap();
    let host = unified.host().unwrap();
    for (i, value) in host.iter().enumerate() {
        let expected = if (100..400).contains(&i) {
            2
        } else if (510..520).contains(&i) {
            5
        } else {
            0
        };
        assert_eq!(*value, expected, "element {i}");
    }
    assert_eq!(pinned.host().unwrap()[998..], [0, 8]);
    assert!(matches!(
        unified.view(999..1002),
        Err(Error::RangeOutOfBounds {
            start: 999,
            end: 1002,
            len: 1000
        })
    ));
    assert!(unified.view(3..7).unwrap().slice(4..5).is_err());
}

#[test]
fn impossible_shapes_are_refused() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut launch = |grid, block, shared_bytes| {
        let config = LaunchConfig {
            grid,
            block,
            shared_bytes,
        };
        // SAFETY: the kernel writes 10 elements for any shape.
        #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
        unsafe { add.0.launch(&stream, config, (&mut buffer, 10u32, 1u32)) }.unwrap_err()
    };
    let error = launch([1, 1, 1], [1025, 1, 1], 0);
    assert_eq!(error.to_string(), "block x is 1025, and the limit is 1024");
    let error = launch([1, 1, 1], [64, 64, 1], 0);
    assert_eq!(
        error.to_string(),
        "threads of a block is 4096, and the limit is 1024"
    );
    let error = launch([1, 0, 1], [64, 1, 1], 0);
    assert!(
        matches!(error, Error::InvalidArgument { what: "grid y", .. }),
        "{error}"
    );
    let error = launch([1, 70_000, 1], [64, 1, 1], 0);
    assert!(
        matches!(
            error,
            Error::LimitExceeded {
                what: "grid y",
                value: 70_000,
                ..
            }
        ),
        "{error}"
    );
    let error = launch([1, 1, 1], [64, 1, 1], 1 << 30);
    assert!(
        matches!(
            error,
            Error::LimitExceeded {
                what: "shared memory of a block in bytes",
                ..
            }
        ),
        "{error}"
    );
    let mut found = [1; 10];
    buffer.copy_to_host(&mut found).unwrap();
    assert_eq!(found, [0; 10], "nothing ran");
}

#[test]
fn kernels_tell_what_they_need() {
    let (_sim, device, _) = device();
    let add = Add::load(&device);
    assert_eq!((add.0.name(), add.0.device().ordinal()), ("add", 0));
    assert!(!add.0.as_raw().is_null());
    let most = device.capabilities().shared_bytes_per_block_optin;
    add.0.allow_shared_bytes(most).unwrap();
    let error = add.0.allow_shared_bytes(most + 1).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { .. }), "{error}");
}

#[test]
fn other_devices_and_runtimes_are_refused() {
    let (_sim, first, stream) = simulated_with(|builder| builder.devices(2));
    let (second, other) = on(first.runtime(), 1);
    let add = Add::load(&first);
    let mut managed = UnifiedBuffer::<u32>::zeroed(&second, 100).unwrap();
    let mut memory = DeviceBuffer::<u32>::zeroed(&second, 100).unwrap();
    let error = add
        .launch(&other, 100, (&mut managed, 100u32, 1u32))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the stream belongs to device 1, not to device 0: use one of device 0"
    );
    let error = add
        .launch(&stream, 100, (&mut memory, 100u32, 1u32))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a buffer of the launch belongs to device 1, not to device 0: use one of device 0"
    );
    add.launch(&stream, 100, (&mut managed, 100u32, 6u32))
        .unwrap();
    other.copy(&managed, &mut memory).unwrap();
    let mut found = [0; 100];
    memory.copy_to_host(&mut found).unwrap();
    assert_eq!(found, [6; 100], "managed memory is for all devices");

    let (_foreign, _, foreign) = simulated(Gpu::H200);
    let error = add
        .launch(&foreign, 100, (&mut managed, 100u32, 1u32))
        .unwrap_err();
    assert!(matches!(error, Error::RuntimeMismatch { .. }), "{error}");
    let error = foreign
        .copy(
            &managed,
            &mut DeviceBuffer::<u32>::zeroed(&first, 100).unwrap(),
        )
        .unwrap_err();
    assert!(matches!(error, Error::RuntimeMismatch { .. }), "{error}");
}

#[test]
fn a_stream_of_another_runtime_is_refused_whatever_its_ordinal() {
    let (_sim, device, stream) = simulated_with(|builder| builder.devices(2));
    let (_other_sim, elsewhere, _) = simulated_with(|builder| builder.devices(2));
    let add = Add::load(&device);
    let mut unified = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut memory = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut empty = DeviceBuffer::<u32>::zeroed(&device, 0).unwrap();
    let mut registered = RegisteredBuffer::from_vec(&device, vec![0u32; 10]).unwrap();
    for ordinal in [0, 1] {
        let (there, foreign) = on(elsewhere.runtime(), ordinal);
        let mut theirs = DeviceBuffer::<u32>::zeroed(&there, 10).unwrap();
        for (what, outcome) in [
            ("fill of managed memory", unified.fill_on(1, &foreign)),
            ("fill of device memory", memory.fill_on(1, &foreign)),
            ("fill of pinned memory", pinned.fill_on(1, &foreign)),
            ("fill of registered memory", registered.fill_on(1, &foreign)),
            ("fill of no elements", empty.fill_on(1, &foreign)),
            ("copy", foreign.copy(&unified, &mut memory)),
            ("copy from elsewhere", stream.copy(&theirs, &mut memory)),
            ("copy to elsewhere", stream.copy(&memory, &mut theirs)),
            (
                "copy of no elements",
                foreign.copy_range(&unified, 3..3, &mut memory, 0),
            ),
            ("prefetch", unified.prefetch_on(&device, &foreign).map(drop)),
            (
                "prefetch of no elements",
                unified
                    .view(3..3)
                    .unwrap()
                    .prefetch_on(&device, &foreign)
                    .map(drop),
            ),
            (
                "launch",
                add.launch(&foreign, 10, (&mut memory, 10u32, 1u32)),
            ),
            (
                "launch with a buffer",
                add.launch(&stream, 10, (&mut theirs, 10u32, 1u32)),
            ),
        ] {
            let error = outcome.expect_err(what);
            assert!(
                matches!(error, Error::RuntimeMismatch { .. }),
                "{what}: {error}"
            );
        }
    }
    assert_eq!(*pinned.host().unwrap(), [0; 10]);
}

#[test]
fn arguments_may_be_a_list() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    for rounds in [3u32, 4] {
        let mut arguments = Arguments::new();
        arguments.push(buffer.view_mut(10..).unwrap());
        arguments.push(90u32);
        arguments.push(rounds);
        assert_eq!(arguments.len(), 3);
        add.launch(&stream, 90, arguments).unwrap();
    }
    // The guard waits for both: the list tracks its buffers in the same way as a tuple.
    let host = buffer.host().unwrap();
    assert_eq!((host[9], host[10], host[99]), (0, 7, 7));
}
