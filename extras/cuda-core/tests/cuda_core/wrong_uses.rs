//! Wrong uses: each is an error that names the value, the allowed ones and the remedy.

use crate::support::world;
use cuda_core::{Context, DeviceBuffer};
use cuda_um::{Runtime, UnifiedBuffer};
use um_cuda_core::{Error, SharedContext};

/// An error's text contains all of these.
fn says(error: &impl std::fmt::Display, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_context_that_is_not_primary() {
    let world = world();
    // SAFETY: the context is only compared.
    let other = unsafe { Context::borrow_raw(std::ptr::dangling_mut(), 0, 0) };
    let error = SharedContext::new(&other, &world.runtime).unwrap_err();
    assert!(matches!(error, Error::NotPrimary { ordinal: 0 }), "{error}");
    says(&error, &["not the primary context", "Context::new(0)"]);
}

#[test]
fn objects_of_another_context_or_runtime() {
    let world = world();
    if Context::device_count().unwrap() < 2 {
        return eprintln!("skipped: there is one device");
    }
    let (stream, context) = (&world.stream, Context::new(1).unwrap());
    let elsewhere = context.new_stream().unwrap();
    let mut buffer = DeviceBuffer::<f32>::zeroed(&elsewhere, 4).unwrap();
    let errors = [
        world.shared.adopt(&elsewhere).map(drop).unwrap_err(),
        stream.host(&buffer).map(drop).unwrap_err(),
        stream.host_mut(&mut buffer).map(drop).unwrap_err(),
        stream.with_mut(&mut buffer, |_| Ok(())).unwrap_err(),
        stream.take_device(buffer).map(drop).unwrap_err(),
    ];
    for error in errors {
        says(
            &error,
            &["another context", "on device 1", "is of device 0"],
        );
    }
    let zeroed = |runtime: &Runtime, ordinal| {
        UnifiedBuffer::<f32>::zeroed(&runtime.device(ordinal).unwrap(), 4).unwrap()
    };
    let error = stream.share(zeroed(&world.runtime, 1));
    says(
        &error.map(drop).unwrap_err(),
        &["the buffer", "device 1", "device 0"],
    );
    let runtime = Runtime::open().unwrap();
    let error = stream.share(zeroed(&runtime, 0));
    let error = error.map(drop).unwrap_err();
    assert!(
        matches!(error, Error::Um(cuda_um::Error::RuntimeMismatch { .. })),
        "{error}"
    );
}

#[test]
fn memory_of_another_kind() {
    let world = world();
    let stream = &world.stream;
    let mut plain = DeviceBuffer::<f32>::zeroed(stream.theirs(), 4).unwrap();
    let errors = [
        stream.host(&plain).map(drop).unwrap_err(),
        stream.with_mut(&mut plain, |_| Ok(())).unwrap_err(),
        stream.take_unified(plain).map(drop).unwrap_err(),
        stream.take_device(world.buffer(1.0)).map(drop).unwrap_err(),
    ];
    for error in errors {
        says(
            &error,
            &["cannot be imported", "device memory", "managed memory"],
        );
    }
}

#[test]
fn an_access_that_does_not_end() {
    let world = world();
    let (stream, a) = (&world.stream, world.buffer(1.0));
    // An operation that is never submitted.
    let pending = a.storage().acquire(stream.theirs(), true, false).unwrap();
    let error = stream.host(&a).map(drop).unwrap_err();
    assert!(matches!(error, Error::Busy { ordinal: 0, .. }), "{error}");
    says(&error, &["in use", "host guards", "pending operations"]);
    drop(pending);
    assert_eq!(stream.host(&a).unwrap()[0], 1.0);
}
