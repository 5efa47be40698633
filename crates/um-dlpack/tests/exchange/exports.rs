//! Exports.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, OnceLock};

use um_backend::BufferKind::{Cuda, Host, Pinned, Unified};
use um_backend::cuda_um::{Runtime, sys};
use um_backend::sim::{Gpu, Sim};
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, RuntimeChoice};
use um_dlpack::dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use um_dlpack::dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use um_dlpack::{ConsumerOrder, Error, Target};

use cuda_um_testkit::{calls, is_concurrent};

use super::{buffer, export, export_as, import_of, machine, machine_with};

fn described<M: ManagedTensorBase>(tensor: &Managed<M>) -> (u32, i32, Vec<i64>, Vec<i64>) {
    let found = tensor.validate_export().unwrap();
    let device = found.device();
    (
        device.device_type.0,
        device.device_id,
        found.shape().to_vec(),
        found.strides().unwrap().to_vec(),
    )
}

#[test]
fn a_tensor_says_device_shape_and_strides_and_has_the_address() {
    let (_sim, backend) = machine();
    for (kind, device_type) in [(Unified, 2), (Cuda, 2), (Pinned, 1), (Host, 1)] {
        let buffer = buffer(&backend, kind);
        let expected_type = match buffer.read().unwrap().bytes().memory() {
            // Unified buffers of a poor GPU have mapped memory.
            um_backend::memory::BufferMemory::Cuda(view)
                if view.kind() == um_backend::cuda_um::MemoryKind::Pinned =>
            {
                1
            }
            _ => device_type,
        };
        let tensor = export(&buffer);
        assert_eq!(
            described(&tensor),
            (expected_type, 0, vec![2, 3], vec![3, 1]),
            "{kind}"
        );
        let old: Managed<DLManagedTensor> = export_as(&buffer, |_| {}).unwrap();
        assert_eq!(described(&old), described(&tensor));
        let address = match buffer.read().unwrap().bytes().memory() {
            um_backend::memory::BufferMemory::Cuda(view) => view.as_ptr(),
            um_backend::memory::BufferMemory::Host(bytes) => bytes.as_ptr(),
            _ => unreachable!(),
        };
        // SAFETY: the tensor was validated.
        let data = unsafe { tensor.tensor() }.data.cast_const();
        assert_eq!(data.cast(), address, "{kind}");
    }
    um_dlpack::settle().unwrap();
}

#[test]
fn the_device_type_can_be_chosen_where_the_memory_allows_it() {
    let (_sim, backend) = machine();
    device_types(&backend, true);
    let (_sim, backend) = machine_with(|builder| builder.gpu(Gpu::NoConcurrentAccess));
    device_types(&backend, true);
    let runtime = Runtime::from_table(without_mapped_memory()).unwrap();
    let config = CudaBackendConfig::default().runtime(RuntimeChoice::Given(runtime));
    device_types(&CudaBackend::initialize_blocking(config).unwrap(), false);
    um_dlpack::settle().unwrap();
}

/// A simulator whose device does not map memory of the host.
fn without_mapped_memory() -> Arc<sys::Table> {
    type Get = unsafe extern "C" fn(*mut i32, sys::cudaDeviceAttr, i32) -> sys::cudaError;
    static GET: OnceLock<Get> = OnceLock::new();
    unsafe extern "C" fn get(
        value: *mut i32,
        attribute: sys::cudaDeviceAttr,
        device: i32,
    ) -> sys::cudaError {
        let is_mapping = attribute == sys::cudaDeviceAttr::cudaDevAttrCanMapHostMemory;
        // SAFETY: as the caller promises.
        unsafe {
            let code = GET.get().unwrap()(value, attribute, device);
            *value *= i32::from(!is_mapping);
            code
        }
    }
    let sim = Sim::builder().build().unwrap();
    let owner = Arc::new(sim.clone());
    GET.get_or_init(|| sim.table().cudaDeviceGetAttribute);
    let mut symbol = |name: &CStr| match name.to_bytes() {
        b"cudaDeviceGetAttribute" => get as Get as *const c_void,
        _ => sim.symbol(name.to_str().unwrap()),
    };
    // SAFETY: the functions are the simulator's, or call them.
    Arc::new(unsafe { sys::Table::from_symbols(owner, Some(13), &mut symbol) }.unwrap())
}

/// `maps`: kernels reach pinned memory.
fn device_types(backend: &CudaBackend, maps: bool) {
    let is_managed = backend.device().managed_memory_obstacle().is_none();
    let uses_host_memory = backend.device().capabilities().pageable_memory_access;
    let is_shared = is_managed && backend.device().capabilities().concurrent_managed_access;
    for (kind, target, expected) in [
        (Unified, Target::Cuda, Some(2)),
        (Unified, Target::Managed, is_managed.then_some(13)),
        (
            Unified,
            Target::Host,
            (is_shared || !is_managed).then_some(1),
        ),
        (Cuda, Target::Cuda, Some(2)),
        (Cuda, Target::Managed, None),
        (Cuda, Target::Host, None),
        (Pinned, Target::Cuda, maps.then_some(2)),
        (Pinned, Target::Managed, None),
        (Pinned, Target::Host, Some(1)),
        (Host, Target::Cuda, uses_host_memory.then_some(2)),
        (Host, Target::Managed, None),
        (Host, Target::Host, Some(1)),
    ] {
        let buffer = buffer(backend, kind);
        let exported =
            export_as::<DLManagedTensorVersioned>(&buffer, |options| options.target = Some(target));
        match (exported, expected) {
            (Ok(tensor), Some(device_type)) => {
                assert_eq!(described(&tensor).0, device_type, "{kind} {target:?}")
            }
            (Err(Error::Target { target: name, .. }), None) => {
                assert!(!buffer.is_exported());
                assert!(
                    name.contains(&format!(" {} ", [2, 13, 1][target as usize])),
                    "{name}"
                );
            }
            (other, expected) => panic!(
                "{kind} {target:?}: {:?}, not {expected:?}",
                other.map(|tensor| described(&tensor))
            ),
        }
    }
}

#[test]
fn flags_are_those_of_the_options() {
    let (_sim, backend) = machine();
    let buffer = buffer(&backend, Unified);
    assert!(export(&buffer).flags().is_empty());
    let read_only: Managed<DLManagedTensorVersioned> =
        export_as(&buffer, |options| options.read_only = true).unwrap();
    assert_eq!(read_only.flags(), DlpackFlags::READ_ONLY);
    let copied: Managed<DLManagedTensorVersioned> =
        export_as(&buffer, |options| options.is_copied = true).unwrap();
    assert_eq!(copied.flags(), DlpackFlags::IS_COPIED);
    drop((read_only, copied, buffer));
    um_dlpack::settle().unwrap();
}

#[test]
fn the_consumers_stream_waits_for_earlier_work() {
    let (sim, backend) = machine();
    if !is_concurrent(backend.device()) {
        return;
    }
    let [theirs, second] = [(); 2].map(|()| backend.device().create_stream().unwrap());
    for (kind, order) in [BufferKind::Cuda, BufferKind::Unified]
        .into_iter()
        .flat_map(|kind| (0..64).map(move |order| (kind, order)))
    {
        let (buffer, target) = (buffer(&backend, kind), super::buffer(&backend, Cuda));
        // Otherwise their stream would wait for the copy to the target, and so for the fill behind it.
        backend.synchronize().unwrap();
        assert!(backend.device().stream().is_idle().unwrap());
        // Each stream runs as far as it can before the next one.
        let held = sim.hold(order % 32);
        let mut guard = buffer.write().unwrap();
        let ours = [backend.device().stream(), &second][order as usize / 32];
        guard.typed_mut::<u32>().unwrap().fill_on(7, ours).unwrap();
        drop(guard);
        let ordering = ConsumerOrder::Stream(&theirs);
        let tensor = export_as(&buffer, |options| {
            options.target = Some(Target::Cuda);
            options.ordering = ordering;
        });
        let imported = import_of(tensor.unwrap(), &backend).unwrap();
        let mut copy = target.storage().write().unwrap();
        let copy = copy.typed_mut::<u32>().unwrap();
        let source = imported.buffer.typed().unwrap();
        copy.copy_from_buffer_on(source, &theirs).unwrap();
        drop(held);
        assert_eq!(copy.to_vec().unwrap(), [7; 6], "{kind} {order}");
    }
    um_dlpack::settle().unwrap();
}

#[test]
fn without_a_stream_the_call_waits_and_minus_one_orders_nothing() {
    let (sim, backend) = machine();
    let buffer = buffer(&backend, Cuda);
    buffer
        .write()
        .unwrap()
        .typed_mut::<u32>()
        .unwrap()
        .fill(7)
        .unwrap();
    drop(export(&buffer));
    assert!(backend.device().stream().is_idle().unwrap());
    if is_concurrent(backend.device()) {
        buffer
            .write()
            .unwrap()
            .typed_mut::<u32>()
            .unwrap()
            .fill(8)
            .unwrap();
        let paused = sim.pause();
        buffer
            .storage()
            .write()
            .unwrap()
            .typed_mut::<u32>()
            .unwrap()
            .fill(9)
            .unwrap();
        let tensor: Managed<DLManagedTensorVersioned> = export_as(&buffer, |options| {
            options.ordering = ConsumerOrder::Consumer
        })
        .unwrap();
        assert!(!backend.device().stream().is_idle().unwrap());
        drop(paused);
        drop(tensor);
    }
    drop(buffer);
    um_dlpack::settle().unwrap();
}

#[test]
fn while_an_export_lives_and_once_after_it_each_use_waits_for_the_device() {
    let (sim, backend) = machine();
    let waits = || calls(&sim, "cudaDeviceSynchronize");
    let buffer = buffer(&backend, Cuda);
    let waited = |uses: &dyn Fn()| {
        let before = waits();
        uses();
        waits() - before
    };
    let uses: [&dyn Fn(); 4] = [
        &|| drop(buffer.read().unwrap()),
        &|| drop(buffer.write().unwrap()),
        &|| drop(buffer.host::<u32>().unwrap()),
        &|| drop(buffer.host_mut::<u32>().unwrap()),
    ];
    for a_use in uses {
        assert_eq!(waited(a_use), 0, "nothing was exported");
        let (first, second) = (export(&buffer), export(&buffer));
        assert!(waited(a_use) > 0 && waited(a_use) > 0 && buffer.is_exported());
        drop(first);
        assert!(waited(a_use) > 0 && buffer.is_exported());
        drop(second);
        assert!(!buffer.is_exported());
        assert!(
            waited(a_use) > 0,
            "the consumer's work may go on after its deleter ran"
        );
        assert_eq!(waited(a_use), 0);
    }
}

#[test]
fn an_empty_buffer_is_exported_as_each_device_type() {
    let (_sim, backend) = machine();
    let targets = [Target::Cuda, Target::Managed, Target::Host];
    for kind in [Unified, Cuda, Pinned] {
        let empty = backend.create_erased(kind, um_backend::DType::F32, 0);
        let empty = um_dlpack::DlpackBuffer::new(um_backend::SharedBuffer::new(empty.unwrap()));
        for (target, expected) in [None]
            .into_iter()
            .chain(targets.map(Some))
            .zip([2, 2, 13, 1])
        {
            let mut options = um_dlpack::ExportOptions::default();
            options.target = target;
            // SAFETY: there are no elements.
            let tensor = unsafe { empty.export::<DLManagedTensorVersioned>(&[0, 4], &options) };
            let tensor = tensor.unwrap();
            assert_eq!(described(&tensor).0, expected, "{kind} {target:?}");
            // SAFETY: the tensor was validated.
            assert!(unsafe { tensor.tensor() }.data.is_null());
            let imported = import_of(tensor, &backend).unwrap();
            assert!(imported.buffer.is_empty() && imported.shape == [0, 4]);
        }
        // SAFETY: as above.
        let address = unsafe { empty.export_address(ConsumerOrder::Wait) }.unwrap();
        assert!(address.is_null());
    }
    um_dlpack::settle().unwrap();
}

#[test]
fn an_address_is_lent_for_good() {
    let (sim, backend) = machine();
    let buffer = buffer(&backend, Cuda);
    // SAFETY: nothing uses the address.
    let address = unsafe { buffer.export_address(ConsumerOrder::Wait) }.unwrap();
    assert!(!address.is_null());
    for _ in 0..3 {
        let before = calls(&sim, "cudaDeviceSynchronize");
        drop(buffer.host::<u32>().unwrap());
        assert!(calls(&sim, "cudaDeviceSynchronize") > before && buffer.is_exported());
    }
    // SAFETY: as above.
    let refused = unsafe { super::buffer(&backend, Host).export_address(ConsumerOrder::Wait) };
    let uses_host_memory = backend.device().capabilities().pageable_memory_access;
    assert!(uses_host_memory || matches!(refused, Err(Error::Target { .. })));
    drop(buffer);
    um_dlpack::settle().unwrap();
}
