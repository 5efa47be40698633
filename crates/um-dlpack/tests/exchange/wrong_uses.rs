//! Wrong uses: each gets an error with the found and the allowed value.

use std::sync::atomic::Ordering::SeqCst;

use um_backend::{Buffer, BufferKind, CudaBackend, CudaError, memory::BufferMemory};
use um_dlpack::dlpark::ffi::{DLDataType, DLManagedTensor};
use um_dlpack::dlpark::{DlpackFlags, Managed};
use um_dlpack::{Error, Result};

use super::{ON_DEVICE, Theirs, buffer, export_as, import_of, machine, machine_with};

fn refused(said: Theirs, backend: &CudaBackend) -> Error {
    let (tensor, drops) = said.tensor(());
    let error = import_of(tensor, backend).expect_err("it is refused");
    assert_eq!(drops.load(SeqCst), 1, "the deleter runs after {error}");
    assert!(!error.to_string().contains('\n'));
    error
}

#[test]
fn types_strides_and_devices() {
    let (_sim, backend) = machine_with(|builder| builder.devices(2));
    let memory = [0u32; 12];
    let memory = memory.as_ptr();
    let error = refused(
        Theirs {
            dtype: DLDataType::new(DLDataType::of::<f32>().code, 32, 4),
            ..Theirs::of(1, memory, 3)
        },
        &backend,
    );
    assert!(
        matches!(
            error,
            Error::DType {
                code: 2,
                bits: 32,
                lanes: 4
            }
        ),
        "{error}"
    );
    for (shape, strides) in [
        (vec![2, 3], vec![1, 2]),
        (vec![3], vec![2]),
        (vec![3], vec![-1]),
        (vec![2, 3], vec![0, 1]),
    ] {
        let said = Theirs {
            shape: shape.clone(),
            strides: Some(strides.clone()),
            ..Theirs::of(1, memory, 0)
        };
        let error = refused(said, &backend);
        assert!(
            matches!(&error, Error::Strides { shape: a, strides: b } if *a == shape && *b == strides),
            "{error}"
        );
    }
    for device_type in [0, 4, 8, 10, 14, 99] {
        let error = refused(Theirs::of(device_type, memory, 3), &backend);
        assert!(
            matches!(error, Error::DeviceType { device_type: found } if found == device_type),
            "{error}"
        );
    }
    for (device_type, device_id) in [(2, 1), (13, 1), (2, -1), (2, 7)] {
        let error = refused(
            Theirs {
                device: (device_type, device_id),
                ..Theirs::of(2, memory, 3)
            },
            &backend,
        );
        assert!(
            matches!(error, Error::DeviceOrdinal { found, expected: 0 } if found == device_id),
            "{error}"
        );
    }
    let error = refused(
        Theirs {
            shape: vec![-1],
            strides: Some(vec![1]),
            ..Theirs::of(1, memory, 1)
        },
        &backend,
    );
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    let error = refused(Theirs::of(1, std::ptr::null::<u32>(), 3), &backend);
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

#[test]
fn an_address_of_another_kind_or_extent() {
    let (_sim, backend) = machine_with(|builder| builder.devices(2));
    let on_host = [0u32; 4];
    let on_host = on_host.as_ptr();
    let on_device = backend.create::<u32>(BufferKind::Cuda, 100).unwrap();
    let pinned = backend.create::<u32>(BufferKind::Pinned, 100).unwrap();
    let elsewhere = backend
        .sibling(1)
        .unwrap()
        .create::<u32>(BufferKind::Cuda, 100)
        .unwrap();
    backend.synchronize().unwrap();
    let address = |buffer: &dyn Buffer<u32>| match buffer.memory() {
        BufferMemory::Cuda(view) => view.as_ptr(),
        _ => unreachable!(),
    };
    for said in [
        Theirs::of(2, on_host, 4),
        Theirs::of(3, on_host, 4),
        Theirs::of(13, on_host, 4),
        Theirs::of(3, address(&*on_device), 100),
        Theirs::of(13, address(&*on_device), 100),
        Theirs::of(13, address(&*pinned), 100),
        Theirs::of(2, address(&*on_device), 1 << 40),
    ] {
        let error = refused(said, &backend);
        let is_typed = matches!(
            &error,
            Error::Backend(um_backend::cuda_um::Error::Foreign { .. })
        );
        assert!(is_typed && error.to_string().contains("allows"), "{error}");
    }
    let error = refused(Theirs::of(2, address(&*elsewhere), 100), &backend);
    let is_typed = matches!(
        &error,
        Error::Backend(um_backend::cuda_um::Error::DeviceMismatch {
            expected: 0,
            found: 1,
            ..
        })
    );
    assert!(is_typed, "{error}");
}

#[test]
fn shapes_and_forms_of_exports() {
    let (_sim, backend) = machine();
    let buffer = buffer(&backend, BufferKind::Unified);
    // SAFETY: nothing consumes the tensor.
    let exported: Result<Managed<DLManagedTensor>> =
        unsafe { buffer.export(&[2, 2], &Default::default()) };
    let error = exported.err().unwrap();
    assert_eq!(
        error.to_string(),
        "shape [2, 2] has 4 elements, and the buffer has 6: they must be equal, and each extent less than 2^63"
    );
    let error = export_as::<DLManagedTensor>(&buffer, |options| options.read_only = true)
        .err()
        .unwrap();
    assert!(matches!(error, Error::ReadOnlyNeedsVersion), "{error}");
    assert!(!buffer.is_exported());
    let opaque = buffer.storage().cast(um_backend::DType::Opaque(8)).unwrap();
    let opaque = um_dlpack::DlpackBuffer::new(opaque);
    // SAFETY: as above.
    let exported: Result<Managed<DLManagedTensor>> =
        unsafe { opaque.export(&[3], &Default::default()) };
    assert!(matches!(exported, Err(Error::OpaqueDType { .. })));
    let held = buffer.write().unwrap();
    let error = export_as::<DLManagedTensor>(&buffer, |_| {}).err().unwrap();
    assert!(
        matches!(error, Error::Backend(CudaError::WouldDeadlock { .. })),
        "{error}"
    );
    drop((held, buffer, opaque));
    um_dlpack::settle().unwrap();
}

#[test]
fn writes_of_a_read_only_import() {
    let (sim, backend) = machine();
    let mut imports = Vec::new();
    for kind in ON_DEVICE {
        let buffer = buffer(&backend, kind);
        let tensor = export_as(&buffer, |options| options.read_only = true).unwrap();
        imports.push((import_of(tensor, &backend).unwrap(), buffer));
    }
    let theirs: Box<[u32]> = Box::new([1, 2, 3, 4, 5, 6]);
    let (tensor, _) = Theirs {
        flags: DlpackFlags::READ_ONLY,
        ..Theirs::of(1, theirs.as_ptr(), 6)
    }
    .tensor(theirs);
    imports.push((
        import_of(tensor, &backend).unwrap(),
        buffer(&backend, BufferKind::Host),
    ));
    for (mut imported, of) in imports {
        assert!(imported.read_only);
        // The thread of the crate waits for the device before it frees memory of the last round.
        um_dlpack::settle().unwrap();
        let calls = sim.trace().len();
        let target = imported.buffer.typed_mut::<u32>().unwrap();
        let source = of.storage().read().unwrap();
        for result in [
            target.fill(1),
            target.copy_from_host(&[0; 6]),
            target.write_one(0, 1),
            target.fill_range(0..1, 0),
            target.copy_within(0..1, 1),
            target.copy_from_buffer(source.typed().unwrap()),
        ] {
            let is_typed = matches!(&result, Err(um_backend::cuda_um::Error::ReadOnly { .. }));
            assert!(is_typed, "{:?}: {result:?}", target.device());
        }
        if target.device().is_some() {
            assert_eq!(sim.trace().len(), calls, "refused before any call of CUDA");
        }
        let written = target.host_mut().and_then(|elements| elements.close());
        assert!(written.is_err(), "{:?}", target.device());
        assert_eq!(
            imported.buffer.typed::<u32>().unwrap().to_vec().unwrap(),
            [1, 2, 3, 4, 5, 6]
        );
    }
    um_dlpack::settle().unwrap();
}
