//! Steps as graphs.

use um_backend::kernels::Saxpy;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaError, DType, Result, SharedBuffer, StepGraph,
};

use crate::support::kernel::Double;
use crate::support::on_each;

fn shared(backend: &CudaBackend, kind: BufferKind, value: f32) -> SharedBuffer {
    let mut buffer = backend.create_erased(kind, DType::F32, 100).unwrap();
    buffer.typed_mut::<f32>().unwrap().fill(value).unwrap();
    SharedBuffer::new(buffer)
}

#[test]
fn a_captured_step_takes_the_guards_of_its_storage() {
    on_each(|machine| {
        let backend = machine.backend();
        if backend.device().capabilities().compute_capability < (6, 0) {
            return; // The kernel needs compute capability 6.0.
        }
        let (stream, saxpy) = (
            backend.device().stream(),
            Saxpy::load(backend.device()).unwrap(),
        );
        let x = shared(&backend, BufferKind::Cuda, 1.0);
        let mut y = shared(&backend, BufferKind::Unified, 0.0);
        let mut boxed = backend.create::<f32>(BufferKind::Unified, 100).unwrap();
        let mut step = backend
            .capture(|| {
                let (x, mut y) = (x.read()?, y.write()?);
                saxpy.launch(stream, 2.0, x.view::<f32>()?, y.view_mut::<f32>()?)?;
                // A temporary: it has these zeros in each launch.
                let sum =
                    SharedBuffer::new(backend.create_erased(BufferKind::Cuda, DType::F32, 100)?);
                let mut sum = sum.write()?;
                saxpy.launch(stream, 1.0, y.view::<f32>()?, sum.view_mut::<f32>()?)?;
                Ok(saxpy.launch(stream, 1.0, sum.view::<f32>()?, &mut *boxed)?)
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
fn steps_within_steps_and_steps_with_other_buffers_run_as_they_are() {
    on_each(|machine| {
        let backend = machine.backend();
        let data = shared(&backend, BufferKind::Cuda, 1.0);
        let mut boxed = backend.create::<f32>(BufferKind::Cuda, 100).unwrap();
        let (mut outer, mut inner) = (StepGraph::new(&backend), StepGraph::new(&backend));
        // In the capture of the outer one, the inner one is a part of it.
        let zero = || data.write()?.set_zero();
        outer.run(&[&data], || inner.run(&[&data], zero)).unwrap();
        inner.run(&[&data], zero).unwrap();
        outer.run(&[&data], || inner.run(&[&data], zero)).unwrap();
        assert_eq!((outer.replayed(), inner.replayed()), (2, 1));
        assert!(outer.refusal().is_none() && inner.refusal().is_none());
        let mut others = StepGraph::new(&backend);
        for _ in 0..2 {
            others.run(&[&data], || boxed.fill(2.0)).unwrap();
        }
        assert_eq!((others.replayed(), others.direct()), (0, 2));
        let refusal = others.refusal().unwrap().to_string();
        assert!(refusal.contains("not shared"), "{refusal}");
    });
}

#[test]
fn a_step_that_cannot_be_recorded_runs_as_it_is() {
    on_each(|machine| {
        let backend = machine.backend();
        let (device, kernel) = (backend.device(), Double::load(backend.device()));
        let [first, second] = [(); 2].map(|()| shared(&backend, BufferKind::Unified, 1.0));
        let double = |data: &SharedBuffer| -> Result<()> {
            kernel.launch(device, data.write()?.typed_mut::<f32>()?)
        };
        let mut graph = StepGraph::new(&backend);
        for data in [&first, &first, &second, &first] {
            graph.run(&[data], || double(data)).unwrap();
        }
        assert_eq!((graph.replayed(), graph.direct()), (3, 1));
        assert!(graph.refusal().is_none());
        let mut read = StepGraph::new(&backend);
        let mut sums = Vec::new();
        for _ in 0..3 {
            let step = || {
                double(&second)?;
                sums.push(second.host::<f32>()?.iter().sum::<f32>());
                Ok(())
            };
            read.run(&[&second], step).unwrap();
        }
        assert_eq!((read.replayed(), read.direct()), (0, 3));
        let refusal = read.refusal().unwrap().to_string();
        assert!(
            refusal.starts_with("access of the host to buffer"),
            "{refusal}"
        );
        assert_eq!(sums, [400.0, 800.0, 1600.0]);
        assert_eq!(first.host::<f32>().unwrap()[5], 8.0);
    });
}
