//! Wrong uses: each is an error that names the value, the allowed ones and the remedy.

use crate::support::{numbers, simulated, world};
use candle_core::{DType, Device, Tensor};
use cuda_um::{Location, UnifiedBuffer};
use um_candle::{Error, UnifiedDevice};

/// An error's text contains all of these.
fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn the_cpu_is_no_unified_device() {
    let Some(world) = world() else { return };
    let error = UnifiedDevice::new(&Device::Cpu, world.runtime.as_ref().unwrap()).unwrap_err();
    says(&error, &["Cpu", "Device::new_cuda_with_stream"]);
    let per_thread = Device::new_cuda(0).unwrap();
    let error = UnifiedDevice::new(&per_thread, world.runtime.as_ref().unwrap()).unwrap_err();
    says(&error, &["cudaStreamPerThread"]);
    let tensor = Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap();
    let unified = world.unified();
    for error in [
        unified.host(&tensor, |_: &[f32]| ()).unwrap_err(),
        unified.host_mut(&tensor, |_: &mut [f32]| ()).unwrap_err(),
        unified.prefetch(&tensor, Location::Host).unwrap_err(),
        unified.name(&tensor, "name").map(drop).unwrap_err(),
    ] {
        says(
            &error,
            &["the tensor is on Cpu", "Cuda { gpu_id: 0 }", "to_device"],
        );
    }
}

#[test]
fn another_device() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let Ok(elsewhere) = Device::new_cuda_with_stream(1) else {
        assert!(!simulated());
        return;
    };
    let tensor = Tensor::from_slice(&[1.0_f32], 1, &elsewhere).unwrap();
    for error in [
        unified.host(&tensor, |_: &[f32]| ()).unwrap_err(),
        unified.host_mut(&tensor, |_: &mut [f32]| ()).unwrap_err(),
        unified.copy(&tensor).unwrap_err(),
        unified.residency(&tensor).unwrap_err(),
    ] {
        says(&error, &["gpu_id: 1", "gpu_id: 0"]);
    }
}

#[test]
fn elements_that_are_not_contiguous() {
    let Some(world) = world() else { return };
    let tensor = world.ordinary(&numbers(6), (2, 3)).t().unwrap();
    let unified = world.unified();
    for error in [
        unified.host(&tensor, |_: &[f32]| ()).unwrap_err(),
        unified.host_mut(&tensor, |_: &mut [f32]| ()).unwrap_err(),
        unified.copy(&tensor).unwrap_err(),
        unified.prefetch(&tensor, Location::Host).unwrap_err(),
    ] {
        says(&error, &["[3, 2]", "[1, 3]", "Tensor::contiguous"]);
    }
}

#[test]
fn another_type() {
    let Some(world) = world() else { return };
    let tensor = world.ordinary(&[1.0], (1, 1));
    let unified = world.unified();
    says(
        &unified.host(&tensor, |_: &[u32]| ()).unwrap_err(),
        &["F32", "U32"],
    );
    says(
        &unified.host_mut(&tensor, |_: &mut [f64]| ()).unwrap_err(),
        &["F32", "F64"],
    );
    let f8 = Tensor::zeros(4, DType::F8E4M3, world.candle()).unwrap();
    says(&unified.copy(&f8).unwrap_err(), &["F8E4M3"]);
    let f4 = Tensor::from_raw_buffer(&[0; 2], DType::F4, &[2], world.candle()).unwrap();
    says(&unified.prefetch(&f4, Location::Host).unwrap_err(), &["F4"]);
}

#[test]
fn memory_that_is_not_managed() {
    let Some(world) = world() else { return };
    let tensor = world.ordinary(&[1.0], (1, 1));
    let unified = world.unified();
    for error in [
        unified.host(&tensor, |_: &[f32]| ()).unwrap_err(),
        unified.host_mut(&tensor, |_: &mut [f32]| ()).unwrap_err(),
        unified.prefetch(&tensor, Location::Host).unwrap_err(),
        unified.attributes(&tensor).unwrap_err(),
    ] {
        assert!(matches!(error, Error::NotManaged { .. }), "{error}");
        says(&error, &["[1, 1]", "device memory", "UnifiedDevice::zeros"]);
    }
}

#[test]
fn another_shape() {
    let Some(world) = world() else { return };
    let unified = world.unified();
    let error = unified.from_slice(&[1.0_f32; 5], (2, 3)).unwrap_err();
    says(&error, &["5 elements", "[2, 3]", "6"]);
    let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 5).unwrap();
    // SAFETY: no work.
    let error = unsafe { unified.lend(buffer, (2, 3), |_| Ok(())) }.unwrap_err();
    says(&error, &["5 elements", "[2, 3]", "6"]);
}
