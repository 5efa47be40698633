//! Copies and prefetches.

use um_backend::sim::Gpu;
use um_backend::{CudaError, cuda_um::Error};

use crate::support::kernel::Double;
use crate::support::{on_each, on_preset};
use crate::{applied_if, contents, numbers};

#[test]
fn move_() {
    on_each(|machine| {
        let backend = machine.backend();
        let data = numbers(1 << 20);
        let mut buffer = backend.allocate_unified(data.len()).unwrap();
        buffer.copy_from_host(&data).unwrap();
        let mut out = vec![0.0; data.len()];
        buffer.copy_to_host(&mut out).unwrap();
        assert_eq!(out, data);

        // A shorter slice needs an explicit range.
        let mismatches = [
            buffer.copy_from_host(&data[..10]),
            buffer.copy_to_host(&mut out[..10]),
        ];
        for mismatch in mismatches {
            let error = mismatch.unwrap_err();
            assert!(
                matches!(error, Error::LengthMismatch { expected, found: 10, .. } if expected == data.len()),
                "{error:?}"
            );
            let text = error.to_string();
            assert!(text.contains("1048576") && text.contains("10"), "{text}");
        }
        buffer.copy_to_host_at(100, &mut out[..10]).unwrap();
        assert_eq!(out[..10], data[100..110]);

        let movable = machine.is_concurrent();
        let outcomes = [
            buffer.prefetch_to_host(),
            buffer.prefetch_to_device(Some(0)),
            buffer.prefetch_to_host(),
            buffer.prefetch_to_device(None),
            backend.prefetch_to_host(&buffer),
            backend.prefetch_to_device(&buffer, Some(0)),
            backend.prefetch_to_host(&buffer),
            backend.prefetch_to_device(&buffer, None),
        ];
        for outcome in outcomes {
            applied_if(movable, &outcome.unwrap());
        }
        backend.synchronize().unwrap();
        assert_eq!(contents(&buffer), data);

        let count = machine.backends().len();
        for beyond in [
            buffer.prefetch_to_device(Some(count)),
            backend.prefetch_to_device(&buffer, Some(count)),
        ] {
            let error = beyond.unwrap_err();
            assert!(
                matches!(error, CudaError::NoSuchDevice { ordinal, .. } if ordinal == count),
                "{error:?}"
            );
        }
    });
}

/// After a prefetch, neither the kernel nor the CPU has page faults.
#[test]
fn move_saves_faults() {
    on_preset(
        Gpu::H200,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let double = Double::load(backend.device());
            let mut buffer = backend.allocate_unified(1 << 20).unwrap();
            let bytes = 4 << 20;
            let sim = machine.sim.as_ref().unwrap();
            buffer.as_slice_mut().unwrap().fill(1.0);

            sim.reset_counters();
            buffer.prefetch_to_device(Some(0)).unwrap();
            double.launch(backend.device(), &mut buffer).unwrap();
            buffer.prefetch_to_host().unwrap();
            assert_eq!(buffer.as_slice().unwrap()[77], 2.0);
            let moved = sim.counters();
            assert_eq!((moved.gpu_faults, moved.cpu_faults), (0, 0));
            assert_eq!((moved.bytes_to_device, moved.bytes_to_host), (bytes, bytes));

            sim.reset_counters();
            double.launch(backend.device(), &mut buffer).unwrap();
            assert_eq!(buffer.as_slice().unwrap()[77], 4.0);
            let moved = sim.counters();
            assert!(
                moved.gpu_faults > 0,
                "without a prefetch the kernel faults: {moved:?}"
            );
        },
    );
}
