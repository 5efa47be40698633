//! Buffers as arguments of kernels: each type, and `dyn Buffer`.

use cuda_um::kernel::{Arguments, ReadArg, WriteArg};
use um_backend::{Buffer, BufferKind, CudaBackend, HostBuffer};

use crate::support::kernel::Double;
use crate::support::on_each;

/// A buffer of each kind that kernels reach, holding ones.
fn buffers(backend: &CudaBackend) -> Vec<Box<dyn Buffer<f32>>> {
    let kinds = BufferKind::ALL.into_iter();
    let mut buffers: Vec<_> = kinds
        .map(|kind| backend.create::<f32>(kind, 8).unwrap())
        .filter(|buffer| buffer.memory().device_view().is_ok())
        .collect();
    assert!(buffers.len() >= 3, "{buffers:?}");
    buffers
        .iter_mut()
        .for_each(|buffer| buffer.fill(1.0).unwrap());
    buffers
}

#[test]
fn each_kind_is_an_argument_without_a_match() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        let double = Double::load(device);
        for mut buffer in buffers(&backend) {
            double.launch_on(device, 8, (&mut *buffer, 8u32)).unwrap();
            let mut list = Arguments::new();
            list.push(&mut *buffer);
            list.push(8u32);
            double.launch_on(device, 8, list).unwrap();
            assert_eq!((&*buffer).into_view().unwrap().len(), 8);
            assert_eq!(buffer.to_vec().unwrap(), [4.0; 8]);
        }
        let mut unified = backend.allocate_unified::<f32>(8).unwrap();
        unified.fill(2.0).unwrap();
        double.launch_on(device, 8, (&mut unified, 8u32)).unwrap();
        assert_eq!((&unified).into_view().unwrap().len(), 8);
        assert_eq!((&mut unified).into_view_mut().unwrap().len(), 8);
        assert_eq!(unified.to_vec().unwrap(), [4.0; 8]);
    });
}

#[test]
fn host_memory_is_refused_before_the_launch() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut host = HostBuffer::from_vec(vec![1.0f32; 8]);
        let error = double
            .launch(backend.device(), &mut host)
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is host memory"), "{error}");
        let error = double
            .launch_on(backend.device(), 8, (&mut host, 8u32))
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is host memory"), "{error}");
        assert_eq!(host.to_vec().unwrap(), [1.0; 8]);
    });
}
