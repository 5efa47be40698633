//! Steps as graphs.

use std::cell::RefCell;
use std::time::Duration;

use um_backend::kernels::Saxpy;
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
                saxpy.launch(stream, one, sum.view::<f32>()?, &mut *boxed)
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
            saxpy.launch(
                stream,
                constant(1.0),
                x.view::<f32>()?,
                y.view_mut::<f32>()?,
            )
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

/// A value of a step must not be what the host once read, nor may the host work on what the step records work on: no launch would repeat the
/// host's part. Memory of the host is refused in any step.
#[test]
fn a_step_does_not_contain_work_of_the_host() {
    type Way = fn(&SharedBuffer) -> Result<()>;
    let ways: [(&str, Way); 7] = [
        ("copy_to_host", |b| b.copy_to_host(&mut [0f32; 100])),
        ("copy_from_host", |b| b.copy_from_host(&[1f32; 100])),
        ("to_vec", |b| b.read()?.typed::<f32>()?.to_vec().map(drop)),
        ("read_one", |b| b.read()?.bytes().read_one(0).map(drop)),
        ("host", |b| b.host::<f32>().map(drop)),
        ("host_mut", |b| b.host_mut::<f32>().map(drop)),
        ("a read of a clone", |b| {
            b.read()?.try_clone()?.bytes().read_one(0).map(drop)
        }),
    ];
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            for (way, host) in ways {
                let buffer = shared(&backend, kind, 1.0);
                for is_first in [true, false] {
                    let step = backend.capture(|_| {
                        if is_first {
                            host(&buffer)?;
                        }
                        buffer.write()?.bytes_mut().set_zero()?;
                        host(&buffer)
                    });
                    let is_refused = matches!(step, Err(CudaError::Capture { .. }));
                    assert!(is_refused, "{way} of {kind}: {step:?}");
                }
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
                saxpy.launch(stream, constant(1.0), gradient, weights)
            })
        };
        let mut step = record().unwrap();
        step.launch().unwrap();
        step.launch().unwrap();
        let snapshot = weights.borrow().clone();
        let refused = step.launch().unwrap_err();
        assert!(
            refused.to_string().contains("one with 2 handles"),
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
