//! The promised calls, a test for each row of the table: open, ask, allocate, move, advise, host view, swap, fail, fall back, zero-copy.

use std::sync::Arc;

use um_backend::cuda_um::{Error, ErrorKind, Placement, RegisteredBuffer};
use um_backend::sim::Gpu;
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaDevice, CudaError, CudaFeature, DType,
    HintOutcome, Location, MemoryAdvice, PinnedBuffer, RuntimeChoice, SharedBuffer, UnifiedBuffer,
};

use crate::support::kernel::Double;
use crate::support::on_each;

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|number| number as f32).collect()
}

/// Applied if managed memory can migrate; otherwise an outcome with a reason, and no error.
fn applied_if(expected: bool, outcome: um_backend::Result<HintOutcome>) {
    let outcome = outcome.unwrap();
    assert_eq!(outcome.is_applied(), expected, "{outcome}");
    if let HintOutcome::NotApplied { needs, have, .. } = &outcome {
        let text = outcome.to_string();
        assert!(text.contains(needs) && text.contains(have), "{text}");
        let error = outcome.clone().require().unwrap_err();
        assert!(matches!(error, Error::NotSupported { .. }), "{error:?}");
    }
}

/// On any executor, or without one.
#[test]
fn open() {
    on_each(|machine| {
        for backend in [
            pollster::block_on(CudaBackend::initialize(machine.config())),
            CudaBackend::initialize_blocking(machine.config()),
        ] {
            let backend = backend.unwrap();
            let is_simulated = machine.sim.is_some();
            let found = (backend.is_simulated(), backend.simulator().is_some());
            assert_eq!(found, (is_simulated, is_simulated));
            let line = backend.runtime_description();
            assert!(line.contains(backend.device().name()), "{line}");
            assert_eq!(line.contains("simulator"), is_simulated, "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    });
}

/// By default, `CudaBackend` and `CudaDevice::new` open the same runtime. The error without a GPU is one line.
#[test]
fn open_by_default_and_by_name() {
    let open =
        |choice| CudaBackend::initialize_blocking(CudaBackendConfig::default().runtime(choice));
    let backend = open(RuntimeChoice::default()).unwrap();
    let device = Arc::new(CudaDevice::new(0).unwrap());
    let mut one = UnifiedBuffer::<f32>::new(device, 5, DType::F32).unwrap();
    let mut other = backend.create_buffer::<f32>(5, DType::F32).unwrap();
    Buffer::fill(&mut other, 2.5).unwrap();
    one.copy_from_buffer(&other).unwrap();
    assert_eq!(one.to_vec().unwrap(), [2.5; 5]);
    assert!(open(RuntimeChoice::Sim).unwrap().is_simulated());
    match open(RuntimeChoice::Cuda) {
        Ok(_) => assert!(!open(RuntimeChoice::Auto).unwrap().is_simulated()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NoGpu, "{error:?}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            let line = open(RuntimeChoice::Auto).unwrap().runtime_description();
            assert!(
                line.contains("simulator") && line.contains('('),
                "no reason: {line}"
            );
        }
    }
}

#[test]
fn ask() {
    use CudaFeature::*;
    on_each(|machine| {
        let backend = machine.backend();
        let device: Arc<CudaDevice> = Arc::new(backend.device().clone());
        let good = backend.supports_unified_memory().unwrap();
        assert_eq!(good, device.managed_memory_obstacle().is_none());
        let has = |feature| device.supports_feature(feature).unwrap();
        assert!(has(UnifiedAddressing) && CudaFeature::ALL.contains(&HostPointerForRegistered));
        let Some(gpu) = machine.gpu else { return };
        let is_of = |gpus: &[Gpu]| gpus.contains(&gpu);
        let old = is_of(&[Gpu::Maxwell]);
        for (found, expected) in [
            (good, !old),
            (has(MemoryPools), !old),
            (has(Integrated), is_of(&[Gpu::NoConcurrentAccess])),
            (has(PageableMemoryAccess), is_of(&[Gpu::Gh200])),
            (
                has(ConcurrentManagedAccess),
                !old && !is_of(&[Gpu::NoConcurrentAccess]),
            ),
            (
                has(ManagedMemory) && has(MapHostMemory) && has(HostRegister),
                true,
            ),
        ] {
            assert_eq!(found, expected, "{gpu:?}");
        }
    });
}

#[test]
fn allocate_and_swap() {
    fn process(buffer: &mut dyn Buffer<f32>) -> Result<f32, CudaError> {
        assert!(!buffer.is_empty() && buffer.capacity() >= buffer.len());
        assert_eq!(buffer.dtype(), DType::F32);
        buffer.fill(0.5)?;
        let mut values = vec![0.0; buffer.len()];
        buffer.copy_to_host(&mut values)?;
        Ok(values.iter().sum())
    }
    on_each(|machine| {
        let backend = machine.backend();
        let device: Arc<CudaDevice> = Arc::new(backend.device().clone());
        let mut inferred = backend.allocate_unified(1000).unwrap();
        inferred.copy_from_host(&[7_u16; 1000]).unwrap();
        assert_eq!(inferred.as_slice().unwrap()[..], [7; 1000]);

        let mut in_device_memory = backend.create_buffer::<f32>(8, DType::F32).unwrap();
        let mut unified = UnifiedBuffer::<f32>::new(Arc::clone(&device), 8, DType::F32).unwrap();
        let mut pinned = PinnedBuffer::<f32>::zeroed(&device, 8).unwrap();
        let mut host = backend.create::<f32>(BufferKind::Host, 8).unwrap();
        let all: [&mut dyn Buffer<f32>; 4] =
            [&mut in_device_memory, &mut unified, &mut pinned, &mut *host];
        for (number, buffer) in all.into_iter().enumerate() {
            assert_eq!(buffer.to_vec().unwrap(), [0.0; 8]);
            assert_eq!(process(buffer).unwrap(), 4.0);
            let place = buffer.device().map(um_backend::Device::to_string);
            assert_eq!(place.as_deref(), (number < 3).then_some("cuda:0"));
        }
        let any: &dyn Buffer<f32> = &unified;
        assert!(any.as_any().is::<UnifiedBuffer<f32>>());
        for mismatch in [
            backend.create_buffer::<f32>(4, DType::F64).err(),
            UnifiedBuffer::<f32>::new(Arc::clone(&device), 4, DType::F64).err(),
        ] {
            let Some(CudaError::DTypeMismatch {
                requested, element, ..
            }) = mismatch
            else {
                panic!("{mismatch:?}")
            };
            assert_eq!((&*requested, &*element), ("f64", "f32"));
        }
    });
}

#[test]
fn move_and_advise() {
    use MemoryAdvice::*;
    on_each(|machine| {
        let backend = machine.backend();
        let (data, count) = (numbers(5000), machine.backends().len());
        let mut buffer = backend.allocate_unified(data.len()).unwrap();
        buffer.copy_from_host(&data).unwrap();
        let mut out = vec![0.0; data.len()];
        buffer.copy_to_host(&mut out).unwrap();
        assert_eq!(out, data);
        let (concurrent, managed) = (machine.is_concurrent(), machine.has_good_managed_memory());
        for hint in [
            buffer.prefetch_to_host(),
            buffer.prefetch_to_device(Some(0)),
            buffer.prefetch_to_device(None),
            backend.prefetch_to_host(&buffer),
            backend.prefetch_to_device(&buffer, Some(0)),
            buffer.set_memory_advice(SetPreferredLocation, Some(0)),
            buffer.set_preferred_location(0),
            buffer.set_memory_advice(SetAccessedBy, Some(0)),
            buffer.unset_accessed_by(0),
            buffer.set_accessed_by(0),
        ] {
            applied_if(concurrent, hint);
        }
        // Without concurrent access, a preferred location on the host is accepted.
        buffer
            .set_memory_advice(SetPreferredLocation, None)
            .unwrap();
        if concurrent {
            let held = buffer.range_attributes().unwrap();
            let found = (held.preferred_location, &*held.accessed_by);
            assert_eq!(found, (Some(Location::Host), &[Location::Device(0)][..]));
        }
        buffer.unset_preferred_location().unwrap();
        for advice in [
            buffer.set_memory_advice(SetReadMostly, None),
            buffer.unset_read_mostly(),
            backend.set_memory_advice(&buffer, SetReadMostly, Some(0)),
        ] {
            applied_if(managed, advice);
        }
        assert!(!managed || buffer.range_attributes().unwrap().read_mostly);
        for beyond in [
            buffer.prefetch_to_device(Some(count)),
            backend.prefetch_to_device(&buffer, Some(count)),
            buffer.set_preferred_location(count),
        ] {
            let error = beyond.unwrap_err();
            assert!(matches!(error, CudaError::NoSuchDevice { .. }), "{error:?}");
        }
        assert_eq!(buffer.to_vec().unwrap(), data, "hints change no value");
    });
}

/// Each line that a report prints can be typed on the storage that a framework has.
#[test]
fn hints_on_every_storage() {
    on_each(|machine| {
        let backend = machine.backend();
        macro_rules! hints {
            ($storage:expr, $applies:expr) => {
                applied_if($applies, $storage.prefetch_to_device(None));
                applied_if($applies, $storage.set_accessed_by(0));
                applied_if($applies, $storage.unset_accessed_by(0));
                applied_if($applies, $storage.prefetch_to_host());
            };
        }
        let concurrent = machine.is_concurrent();
        let mut boxed = backend.create::<f32>(BufferKind::Unified, 4096).unwrap();
        boxed.as_slice_mut().unwrap()[7] = 1.0;
        hints!(boxed, concurrent);
        assert_eq!(boxed.as_slice().unwrap()[7], 1.0);
        let of_host: Box<dyn Buffer<f32>> = Box::new(um_backend::HostBuffer::zeroed(9).unwrap());
        hints!(of_host, false);
        let mut erased = backend
            .create_erased(BufferKind::Unified, DType::F32, 4096)
            .unwrap();
        hints!(erased.bytes(), concurrent);
        hints!(erased.typed_mut::<f32>().unwrap(), concurrent);
        let shared = SharedBuffer::new(erased);
        hints!(shared, concurrent);
        hints!(shared.view(2048..4096).unwrap(), concurrent);
        hints!(shared.read().unwrap().bytes(), concurrent);
        let here = backend.device(); // converts to a location
        applied_if(concurrent, boxed.prefetch(here));
        applied_if(concurrent, shared.prefetch(here));
    });
}

/// The CPU's view waits for the GPU; there is one pointer. On a device whose managed memory is poor the memory is mapped, and says so.
#[test]
fn host_view_and_fall_back() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut buffer = backend.allocate_unified::<f32>(5000).unwrap();
        let placed = buffer.placement();
        match backend.device().managed_memory_obstacle() {
            None => assert_eq!(placed.placement, Placement::Managed),
            Some(obstacle) => {
                assert_eq!(placed.placement, Placement::Mapped);
                assert!(obstacle.contains(backend.device().name()), "{obstacle}");
                assert_eq!(placed.reason, format!("since {obstacle}"));
                let HintOutcome::NotApplied { have, .. } = buffer.prefetch_to_host().unwrap()
                else {
                    panic!("a prefetch of mapped memory")
                };
                assert!(have.contains(&placed.reason), "{have}");
            }
        }
        buffer
            .as_slice_mut()
            .unwrap()
            .copy_from_slice(&numbers(5000));
        double.launch(backend.device(), &mut buffer).unwrap();
        let view = buffer.as_slice().unwrap();
        assert_eq!((view.len(), view[1], view[4999]), (5000, 2.0, 9998.0));
        assert_eq!(view.as_ptr(), buffer.as_ptr());
        drop(view);
        let pointer = buffer.as_mut_ptr();
        double.launch(backend.device(), &mut buffer).unwrap();
        assert_eq!(buffer.as_slice_mut().unwrap()[4999], 19996.0);
        assert_eq!(buffer.as_ptr(), pointer.cast_const());
        let clone = Buffer::clone_empty(&buffer, 3).unwrap();
        let clone = clone.as_any().downcast_ref::<UnifiedBuffer<f32>>().unwrap();
        assert_eq!(clone.placement(), placed);
    });
}

/// A request beyond the free memory is an error of its own, with the numbers of the device.
#[test]
fn fail() {
    on_each(|machine| {
        let backend = machine.backend();
        let memory = backend.device().memory_info().unwrap();
        let len = memory.total_bytes / 4 + (1 << 20);
        let small = backend.create_buffer::<f32>(10, DType::F32).unwrap();
        let like = Buffer::clone_empty(&small, len).unwrap_err();
        let error = backend.create_buffer::<f32>(len, DType::F32).unwrap_err();
        assert!(error.is_out_of_memory() && !error.is_sticky() && like.is_out_of_memory());
        assert_eq!(format!("{error:?}"), error.to_string(), "`main` prints it");
        match error {
            CudaError::OutOfMemory {
                requested_bytes,
                total_bytes,
                ..
            } => assert_eq!(
                (requested_bytes, total_bytes),
                (len * 4, memory.total_bytes)
            ),
            other => panic!("{other:?}"),
        }
        assert_eq!(small.to_vec().unwrap(), [0.0; 10], "the device still works");
    });
}

/// Kernels use host memory in place: that of CUDA, and a slice that the caller lends.
#[test]
fn zero_copy() {
    on_each(|machine| {
        let backend = machine.backend();
        let (device, double) = (backend.device(), Double::load(backend.device()));
        let mut pinned = PinnedBuffer::<f32>::zeroed(device, 5000).unwrap();
        pinned.host_mut().unwrap().fill(3.0);
        assert!(pinned.device_ptr().is_some());
        double.launch(device, &mut pinned).unwrap();
        assert_eq!(pinned.host().unwrap()[..], [6.0; 5000]);
        let mut lent = [3.0f32; 5000];
        let launched = RegisteredBuffer::scope(device, &mut lent, |registered| {
            double.launch_on(device, 5000, (registered, 5000_u32))
        });
        launched.unwrap().unwrap();
        assert_eq!(
            lent, [6.0; 5000],
            "the kernel is done when the call returns"
        );
    });
}
