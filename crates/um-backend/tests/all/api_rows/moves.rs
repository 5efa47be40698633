//! Copies and prefetches.

use um_backend::{CudaError, cuda_um::Error};

use super::{applied_if, contents, numbers};
use crate::support::on_each;

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
