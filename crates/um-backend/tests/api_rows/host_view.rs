//! The CPU's view, which waits for the GPU.

use std::thread;

use um_backend::sim::Gpu;
use um_backend::{Buffer, DType, cuda_um::Error};

use crate::support::kernel::Double;
use crate::support::{on_each, on_each_preset, on_preset};
use crate::{contents, numbers};

#[test]
fn host_view() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut buffer = backend.allocate_unified(5000).unwrap();
        {
            let mut view = buffer.as_slice_mut().unwrap();
            view.copy_from_slice(&numbers(5000));
            view[3] = 30.0;
        }
        // The view waits for the kernel, which may be only enqueued.
        double.launch(backend.device(), &mut buffer).unwrap();
        {
            let view = buffer.as_slice().unwrap();
            assert_eq!(
                (view.len(), view[1], view[3], view[4999]),
                (5000, 2.0, 60.0, 9998.0)
            );
            assert_eq!(view.as_ptr(), buffer.as_ptr());
        }
        let pointer = buffer.as_mut_ptr();
        assert_eq!(
            pointer.cast_const(),
            buffer.as_ptr(),
            "there is one pointer"
        );
        double.launch(backend.device(), &mut buffer).unwrap();
        assert_eq!(buffer.as_slice_mut().unwrap()[4999], 19996.0);
        assert_eq!(buffer.as_ptr(), pointer.cast_const(), "it stays the same");
    });
}

/// A host view waits for all work on its buffer.
#[test]
fn host_view_waits_for_work_in_flight() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let mut buffer = backend.allocate_unified(5000).unwrap();
            backend.synchronize().unwrap();
            let paused = machine.sim.as_ref().unwrap().pause();
            buffer.fill(3.0_f32).unwrap();
            thread::scope(|scope| {
                let reader = scope.spawn(|| buffer.as_slice().unwrap()[4999]);
                thread::yield_now();
                drop(paused);
                assert_eq!(reader.join().unwrap(), 3.0);
            });
        },
    );
}

/// On a device without concurrent managed access, kernels and copies between buffers fail with a typed error while a view of managed memory
/// lives; the host fills and copies.
#[test]
fn host_view_keeps_the_device_off() {
    on_preset(
        Gpu::NoConcurrentAccess,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let double = Double::load(backend.device());
            let viewed = backend.allocate_unified::<f32>(100).unwrap();
            let mut other = backend.create_buffer::<f32>(100, DType::F32).unwrap();
            other.fill(1.0).unwrap();
            let view = viewed.as_slice().unwrap();
            let refused = [
                double.launch(backend.device(), &mut other),
                other.copy_from_buffer(&viewed),
            ];
            for outcome in refused {
                match outcome.unwrap_err() {
                    Error::Busy { what, by } => {
                        assert!(
                            what.contains("device 0") && by.contains("guard"),
                            "{what}: {by}"
                        );
                    }
                    error => panic!("{error:?}"),
                }
            }
            other.fill(2.0).unwrap();
            assert_eq!(contents(&other), [2.0; 100]);
            other.copy_from_host(&[1.0; 100]).unwrap();
            assert_eq!(view[99], 0.0);
            drop(view);
            assert_eq!(
                contents(&other),
                [1.0; 100],
                "the refused work changed nothing"
            );
            double.launch(backend.device(), &mut other).unwrap();
            assert_eq!(contents(&other), [2.0; 100]);
        },
    );
}
