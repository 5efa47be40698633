//! Wrong uses: each is an error that names the value, the allowed ones and the remedy.

use crate::support::{LEN, any_world, world};
use cuda_um::{ErrorKind, Runtime, UnifiedBuffer};
use cuda_um_testkit::on_gpu;
use cudarc::driver::{CudaContext, CudaSlice};
use um_cudarc::{Error, SharedDevice};

/// An error's text contains all of these.
fn says(error: &impl std::fmt::Display, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_context_that_is_not_primary() {
    let world = any_world();
    let (device, raw) = (world.context().cu_device(), world.context().cu_ctx());
    // SAFETY: a live context. It is not destroyed: the value is leaked.
    let context = unsafe { CudaContext::from_raw_context(0, device, raw) }.unwrap();
    let error = SharedDevice::new(&context, world.runtime()).unwrap_err();
    assert!(matches!(error, Error::NotPrimary { ordinal: 0 }), "{error}");
    says(&error, &["not the primary context", "CudaContext::new(0)"]);
    std::mem::forget(context);
}

#[test]
fn a_runtime_over_another_driver() {
    let world = any_world();
    let sim = cuda_um_sim::Sim::builder()
        .total_memory_bytes(1 << 30)
        .build()
        .unwrap();
    let runtime = Runtime::from_table(sim.table()).unwrap();
    let error = SharedDevice::new(world.context(), &runtime).unwrap_err();
    says(
        &error,
        &["device 0 is `", "1073741824 bytes", "the same driver"],
    );
}

#[test]
fn objects_of_another_context() {
    let Some(world) = world() else { return };
    if on_gpu() {
        return;
    }
    let other = CudaContext::new(1).unwrap();
    let (stream, elsewhere) = (world.stream(), other.default_stream());
    let mut slice = elsewhere.alloc_zeros::<f32>(4).unwrap();
    let shared = world.shared();
    let errors = [
        shared.adopt(&elsewhere).map(drop).unwrap_err(),
        shared.host(&slice).map(drop).unwrap_err(),
        shared.host_mut(&mut slice).map(drop).unwrap_err(),
        shared.with_mut(&mut slice, |_| Ok(())).unwrap_err(),
        stream.memcpy_htod_staged(&[1.0], &mut slice).unwrap_err(),
        shared.take_unified(slice.clone()).map(drop).unwrap_err(),
        shared.take_device(slice).map(drop).unwrap_err(),
    ];
    for error in errors {
        says(
            &error,
            &[
                "of another context",
                "on device 1",
                "shared device is device 0",
            ],
        );
    }
    let error = shared.adopt(&world.context().per_thread_stream());
    says(&error.unwrap_err(), &["2 (cudaStreamPerThread)"]);
    // A buffer of another device or another runtime.
    let of_other = world.runtime().device(1).unwrap();
    let error = stream
        .share(UnifiedBuffer::<f32>::zeroed(&of_other, 4).unwrap())
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Um(cuda_um::Error::DeviceMismatch {
                expected: 0,
                found: 1,
                ..
            })
        ),
        "{error}"
    );
    let runtime = Runtime::open().unwrap();
    let buffer = UnifiedBuffer::<f32>::zeroed(&runtime.device(0).unwrap(), 4).unwrap();
    let error = stream.share(buffer).unwrap_err();
    assert!(
        matches!(error, Error::Um(cuda_um::Error::RuntimeMismatch { .. })),
        "{error}"
    );
}

#[test]
fn memory_of_another_kind() {
    let Some(world) = world() else { return };
    let (stream, shared) = (world.stream(), world.shared());
    let mut slice: CudaSlice<f32> = stream.theirs().alloc_zeros(4).unwrap();
    let errors = [
        shared.host(&slice).map(drop).unwrap_err(),
        shared.host_mut(&mut slice).map(drop).unwrap_err(),
        shared.with_mut(&mut slice, |_| Ok(())).unwrap_err(),
        shared.take_unified(slice).map(drop).unwrap_err(),
    ];
    for error in errors {
        says(
            &error,
            &["cannot be imported", "device memory", "managed memory"],
        );
    }
    let buffer = UnifiedBuffer::from_slice(shared.device(), &[5.0_f32; 4]).unwrap();
    let (buffer, error) = stream.give(buffer).unwrap_err();
    assert!(
        matches!(&error, Error::Um(error) if error.kind() == ErrorKind::NotSupported),
        "{error}"
    );
    says(&error, &["DriverPool"]);
    assert_eq!(buffer.host().unwrap()[0], 5.0);
}

#[test]
fn a_source_that_is_too_long() {
    let Some(world) = world() else { return };
    let stream = world.stream();
    let mut slice = world.slice(&stream, 1.0);
    let error = stream
        .memcpy_htod_staged(&[0.0; LEN + 1], &mut slice)
        .unwrap_err();
    says(&error, &["10001 elements", "10000"]);
    assert_eq!(slice.host().unwrap()[0], 1.0);
}

#[test]
fn a_device_without_concurrent_access() {
    let world = any_world();
    let device = world.shared().device();
    let buffer = UnifiedBuffer::<f32>::zeroed(device, 4).unwrap();
    // Without managed memory, a buffer is mapped.
    if device.capabilities().concurrent_managed_access || !buffer.is_managed() {
        return;
    }
    let error = world.stream().share(buffer).unwrap_err();
    says(&error, &["concurrent managed access", "device 0"]);
}
