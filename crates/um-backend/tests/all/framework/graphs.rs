//! Steps as graphs.

use std::cell::RefCell;
use std::time::Duration;

use um_backend::kernels::{Fill, Saxpy};
use um_backend::{
    BufferKind, CudaBackend, CudaError, DType, Result, SharedBuffer, cuda_um::constant,
};

use crate::support::on_each;

fn shared(backend: &CudaBackend, kind: BufferKind, value: f32) -> SharedBuffer {
    let mut buffer = backend.create_erased(kind, DType::F32, 100).unwrap();
    buffer.typed_mut::<f32>().unwrap().fill(value).unwrap();
    SharedBuffer::new(buffer)
}

/// Calls the test on each machine whose device runs the kernels of um-kernels.
fn on_each_with_kernels(test: impl Fn(&CudaBackend, &Saxpy)) {
    on_each(|machine| {
        let backend = machine.backend();
        if backend.device().capabilities().compute_capability >= (6, 0) {
            test(&backend, &Saxpy::load(backend.device()).unwrap());
        }
    });
}

#[test]
fn a_captured_step_takes_the_guards_of_its_storage() {
    on_each_with_kernels(|backend, saxpy| {
        let stream = backend.device().stream();
        let x = shared(backend, BufferKind::Cuda, 1.0);
        let mut y = shared(backend, BufferKind::Unified, 0.0);
        let mut boxed = backend.create::<f32>(BufferKind::Unified, 100).unwrap();
        let mut step = backend
            .capture(|_| {
                let (x, mut y) = (x.read()?, y.write()?);
                let (two, one) = (constant(2.0), constant(1.0));
                saxpy.launch(stream, two, x.view::<f32>()?, y.view_mut::<f32>()?)?;
                // A temporary: it has these zeros in each launch.
                let sum =
                    SharedBuffer::new(backend.create_erased(BufferKind::Cuda, DType::F32, 100)?);
                let mut sum = sum.write()?;
                saxpy.launch(stream, one, y.view::<f32>()?, sum.view_mut::<f32>()?)?;
                Ok(saxpy.launch(stream, one, sum.view::<f32>()?, &mut *boxed)?)
            })
            .unwrap();
        let missing = step.launch().unwrap_err();
        assert!(
            matches!(missing, CudaError::InvalidArgument { .. }),
            "{missing}"
        );
        for _ in 0..2 {
            step.launch_with((&mut *boxed,)).unwrap();
        }
        assert_eq!(
            (y.host::<f32>().unwrap()[99], boxed.read_one(99).unwrap()),
            (4.0, 6.0)
        );
        // Guards hold a launch off, and the step is no further owner of the storage.
        let guard = y.read().unwrap();
        let refused = step.launch_with((&mut *boxed,)).unwrap_err();
        assert!(
            matches!(refused, CudaError::WouldDeadlock { .. }),
            "{refused}"
        );
        drop(guard);
        assert!(y.is_unique());
        y.make_unique().unwrap();
        y.copy_from_host(&[10.0f32; 100]).unwrap();
        step.launch_with((&mut *boxed,)).unwrap();
        assert_eq!(y.host::<f32>().unwrap()[0], 12.0);
        // It keeps what the program has dropped.
        drop((x, y));
        step.launch_with((&mut *boxed,)).unwrap();
        assert_eq!(boxed.read_one(0).unwrap(), 6.0 + 12.0 + 14.0);
    });
}

#[test]
fn a_launch_on_another_thread_is_no_handle() {
    on_each_with_kernels(|backend, saxpy| {
        let stream = backend.device().stream();
        let x = shared(backend, BufferKind::Cuda, 1.0);
        let y = shared(backend, BufferKind::Unified, 0.0);
        let step = backend.capture(|_| {
            let (x, mut y) = (x.read()?, y.write()?);
            Ok(saxpy.launch(
                stream,
                constant(1.0),
                x.view::<f32>()?,
                y.view_mut::<f32>()?,
            )?)
        });
        let mut step = step.unwrap();
        // The launch takes one of the guards first, and waits for the other.
        let (mut launches, mut has_waited) = (0.0, false);
        while !has_waited {
            for (held, other) in [(&x, &y), (&y, &x)] {
                let guard = held.write().unwrap();
                std::thread::scope(|threads| {
                    let launch = threads.spawn(|| step.launch().unwrap());
                    std::thread::sleep(Duration::from_millis(20));
                    if other.try_write().is_err() {
                        assert!(other.is_unique(), "make_unique would copy");
                        has_waited = true;
                    }
                    drop(guard);
                    launch.join().unwrap();
                });
                launches += 1.0;
            }
        }
        assert_eq!(y.host::<f32>().unwrap()[99], launches);
    });
}

#[test]
fn a_step_takes_another_learning_rate_in_each_launch() {
    on_each_with_kernels(|backend, saxpy| {
        let (stream, fill) = (backend.device().stream(), Fill::load(backend.device()));
        let fill = fill.unwrap();
        let gradient = shared(backend, BufferKind::Cuda, 1.0);
        let weights = shared(backend, BufferKind::Unified, 0.0);
        let filled = shared(backend, BufferKind::Unified, 0.0);
        let launch = |rate: um_backend::cuda_um::Scalar<f32>| {
            let (gradient, mut weights) = (gradient.read()?, weights.write()?);
            let (gradient, weights) = (gradient.view::<f32>()?, weights.view_mut::<f32>()?);
            Ok(saxpy.launch(stream, rate, gradient, weights)?)
        };
        let plain = backend.capture(|_| launch(0.5.into())).unwrap_err();
        assert!(
            plain.to_string().contains(
                "a launch of kernel `saxpy_f32` with a plain value for parameter 0 (4 bytes)"
            ),
            "{plain}"
        );
        let plain = backend.capture(|_| filled.write()?.typed_mut::<f32>()?.fill(1.0));
        assert!(matches!(plain, Err(CudaError::Capture { .. })), "{plain:?}");
        let mut step = backend
            .capture(|step| {
                let rate = step.scalar("rate", -0.5f32);
                launch(rate)?;
                launch(rate)?;
                filled.write()?.bytes_mut().set_zero()?;
                let mut filled = filled.write()?;
                Ok(fill.launch(
                    stream,
                    filled.view_mut::<f32>()?,
                    step.scalar("value", 7.0f32),
                )?)
            })
            .unwrap();
        let mut expected = 0.0;
        for round in 0..100u8 {
            let rate = if round < 50 { -0.5 } else { -0.25f32 };
            step.set("rate", rate).unwrap();
            step.set("value", f32::from(round)).unwrap();
            step.launch().unwrap();
            expected += 2.0 * rate;
        }
        assert_eq!(weights.host::<f32>().unwrap()[99], expected);
        assert_eq!(filled.host::<f32>().unwrap()[99], 99.0);
        let unknown = step.set("lr", 1.0f32).unwrap_err();
        assert!(
            unknown.to_string().ends_with("`rate` (f32), `value` (f32)"),
            "{unknown}"
        );
        let of_f64 = step.set("rate", 1.0).unwrap_err();
        assert!(of_f64.to_string().contains("type f64"), "{of_f64}");
    });
}

const KINDS: [BufferKind; 4] = [
    BufferKind::Host,
    BufferKind::Pinned,
    BufferKind::Unified,
    BufferKind::Cuda,
];

/// A value of a step must not be what the host once read: each launch would take the old one.
#[test]
fn a_step_does_not_repeat_what_the_host_read_as_a_value() {
    type Get = fn(&SharedBuffer) -> Result<f32>;
    let ways: [(&str, Get); 6] = [
        ("copy_to_host", |input| {
            let mut value = [0f32; 100];
            input.copy_to_host(&mut value)?;
            Ok(value[0])
        }),
        ("copy_to_bytes", |input| {
            let mut bytes = [0; 400];
            input.read()?.copy_to_bytes(&mut bytes)?;
            Ok(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        }),
        ("read_one", |input| {
            input.read()?.typed::<f32>()?.read_one(0)
        }),
        ("to_vec", |input| {
            Ok(input.read()?.typed::<f32>()?.to_vec()?[0])
        }),
        ("host", |input| Ok(input.host::<f32>()?[0])),
        ("try_clone", |input| {
            let clone = input.read()?.try_clone()?;
            clone.typed::<f32>()?.read_one(0)
        }),
    ];
    on_each(|machine| {
        let backend = machine.backend();
        for (kind, (way, get)) in KINDS
            .into_iter()
            .flat_map(|kind| ways.map(|way| (kind, way)))
        {
            let (out, input) = (
                shared(&backend, BufferKind::Unified, 0.0),
                shared(&backend, kind, 1.0),
            );
            let step = backend.capture(|_| {
                let value = get(&input)?;
                out.write()?.typed_mut::<f32>()?.fill(value)
            });
            assert!(
                matches!(step, Err(CudaError::Capture { .. })),
                "{way} of {kind}: {step:?}"
            );
        }
    });
}

/// The host reads or writes a buffer in the step, and the step records work on it: no launch would repeat the host's part.
#[test]
fn a_step_does_not_mix_work_of_the_host_and_recorded_work_on_one_buffer() {
    type Count = fn(&SharedBuffer) -> Result<()>;
    let ways: [(&str, Count); 3] = [
        ("copies", |counter| {
            let mut value = [0f32; 100];
            counter.copy_to_host(&mut value)?;
            counter.copy_from_host(&[value[0] + 1.0; 100])
        }),
        ("guards", |counter| {
            let value = counter.host::<f32>()?[0];
            counter.host_mut::<f32>()?.fill(value + 1.0);
            Ok(())
        }),
        ("a read", |counter| counter.host::<f32>().map(drop)),
    ];
    on_each(|machine| {
        let backend = machine.backend();
        for (kind, (way, count)) in KINDS
            .into_iter()
            .flat_map(|kind| ways.map(|way| (kind, way)))
        {
            let counter = shared(&backend, kind, 0.0);
            let record = |is_first: bool| {
                backend.capture(|_| {
                    if is_first {
                        count(&counter)?;
                    }
                    counter.write()?.bytes_mut().set_zero()?;
                    count(&counter)
                })
            };
            for is_first in [true, false] {
                let step = record(is_first);
                assert!(
                    matches!(step, Err(CudaError::Capture { .. })),
                    "{way} of {kind}: {step:?}"
                );
            }
        }
    });
}

/// A launch must not write storage that a snapshot shares, if the step made it unique first.
#[test]
fn a_launch_does_not_overwrite_a_snapshot() {
    on_each_with_kernels(|backend, saxpy| {
        let stream = backend.device().stream();
        let gradient = shared(backend, BufferKind::Unified, 1.0);
        let weights = RefCell::new(shared(backend, BufferKind::Unified, 0.0));
        let record = || {
            backend.capture(|_| {
                let mut weights = weights.borrow_mut();
                weights.make_unique()?;
                let (gradient, mut weights) = (gradient.read()?, weights.write()?);
                let (gradient, weights) = (gradient.view::<f32>()?, weights.view_mut::<f32>()?);
                Ok(saxpy.launch(stream, constant(1.0), gradient, weights)?)
            })
        };
        let mut step = record().unwrap();
        step.launch().unwrap();
        step.launch().unwrap();
        let snapshot = weights.borrow().clone();
        let refused = step.launch().unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("one with 2 handles and guards"),
            "{refused}"
        );
        assert_eq!(snapshot.host::<f32>().unwrap()[99], 2.0);
        // A capture would copy the old weights in each launch.
        let refused = record().unwrap_err();
        assert!(matches!(refused, CudaError::Capture { .. }), "{refused}");
        weights.borrow_mut().make_unique().unwrap();
        let mut step = record().unwrap();
        step.launch().unwrap();
        let of_weights = weights.borrow().host::<f32>().unwrap()[99];
        assert_eq!(
            (snapshot.host::<f32>().unwrap()[99], of_weights),
            (2.0, 3.0)
        );
    });
}
