//! Launches with what a framework holds.

use um_backend::{BufferKind, CudaError, DType, kernels};

use crate::support::kernel::Double;
use crate::support::on_each;

#[test]
fn erased_and_typed_buffers_are_arguments() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        let double = Double::load(device);
        for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned] {
            let mut erased = backend.create_erased(kind, DType::F32, 8).unwrap();
            erased.typed_mut().unwrap().fill(1.0f32).unwrap();
            double.launch_on(device, 8, (&mut erased, 8u32)).unwrap();
            let typed = erased.typed_mut::<f32>().unwrap();
            double.launch_on(device, 8, (&mut *typed, 8u32)).unwrap();
            double.launch(device, typed).unwrap();
            assert_eq!(typed.to_vec().unwrap(), [8.0; 8], "{kind}");
        }
    });
}

/// Launchers of um-kernels take every kind of buffer, and `?` converts their errors.
#[test]
fn launchers_take_the_buffers_and_their_errors_convert() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        if device.capabilities().compute_capability < (6, 0) {
            return; // The kernels need compute capability 6.0.
        }
        let run = |kind| -> Result<Vec<f32>, CudaError> {
            let scale = kernels::Scale::load(device)?;
            let mut input = backend.create_erased(kind, DType::F32, 4)?;
            input.typed_mut()?.fill(2.0f32)?;
            let mut output = backend.create::<f32>(kind, 4)?;
            scale.launch(device.stream(), &input, &mut *output, 3.0)?;
            let short = backend.create::<f32>(kind, 3)?;
            let error: CudaError = scale
                .launch(device.stream(), &*short, &mut *output, 3.0)
                .unwrap_err()
                .into();
            assert!(
                matches!(error, CudaError::InvalidArgument { .. }),
                "{error}"
            );
            let wrong = backend.create_erased(kind, DType::I32, 4)?;
            let error: CudaError = scale
                .launch(device.stream(), &wrong, &mut *output, 3.0)
                .unwrap_err()
                .into();
            assert!(
                error.to_string().contains(
                    "dtype f32 was requested, but the element type of `input` of scale is i32"
                ),
                "{error}"
            );
            output.to_vec()
        };
        for kind in [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned] {
            assert_eq!(run(kind).unwrap(), [6.0; 4], "{kind}");
        }
    });
}
