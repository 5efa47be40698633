//! Slices for the host, from any buffer, and owned by the caller.

use std::ops::Deref;
use std::sync::Arc;

use um_backend::{
    Buffer, BufferKind, CudaError, DType, Element, ErasedBuffer, HostBuffer, HostMut, HostRef,
    Result, SharedBuffer,
    cuda_um::{HostOwned, HostOwnedMut},
    memory::{BufferMemory, BufferMemoryMut},
};

use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_each_preset};

/// What a framework writes once, for every kind.
fn add_one(buffer: &mut dyn Buffer<f32>) -> Result<f32> {
    let mut elements = buffer.host_mut()?;
    elements.iter_mut().for_each(|element| *element += 1.0);
    elements.close()?;
    Ok(buffer.host()?.iter().sum())
}

/// What must compile: a borrow may become shorter. The documentation tests `Variance` in `lib.rs` have what must not.
#[test]
fn borrows_may_become_shorter() {
    fn view<'short, 'long: 'short>(view: HostRef<'long, f32>) -> HostRef<'short, f32> {
        view
    }
    fn view_mut<'short, 'long: 'short>(view: HostMut<'long, f32>) -> HostMut<'short, f32> {
        view
    }
    fn memory<'short, 'long: 'short>(of: BufferMemory<'long, f32>) -> BufferMemory<'short, f32> {
        of
    }
    fn memory_mut<'short, 'long: 'short>(
        of: BufferMemoryMut<'long, f32>,
    ) -> BufferMemoryMut<'short, f32> {
        of
    }
    on_each(|machine| {
        for kind in BufferKind::ALL {
            let mut buffer = machine.backend().create::<f32>(kind, 3).unwrap();
            assert_eq!(view(buffer.host().unwrap())[..], [0.0; 3]);
            assert_eq!(view_mut(buffer.host_mut().unwrap())[..], [0.0; 3]);
            assert!(!matches!(memory(buffer.memory()), BufferMemory::Opaque));
            let memory = memory_mut(buffer.memory_mut());
            assert!(!matches!(memory, BufferMemoryMut::Opaque));
        }
    });
}

#[test]
fn one_function_serves_every_kind() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut buffer = backend.create_from(kind, &[1.0f32, 2.0]).unwrap();
            assert_eq!(add_one(&mut *buffer).unwrap(), 5.0, "{kind}");
            let is_copy = kind == BufferKind::Cuda;
            assert_eq!(buffer.host().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(buffer.host_mut().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(format!("{:?}", buffer.host().unwrap()), "[2.0, 3.0]");
        }
        let mut opaque = OpaqueBuffer::<f32>::new(2);
        assert_eq!(add_one(&mut opaque).unwrap(), 2.0);
    });
}

/// The error of the copy back is returned by `close`, and lost by a drop.
#[test]
fn close_returns_the_error_of_the_copy_back() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let (backend, sim) = (machine.backend(), machine.sim.as_ref().unwrap());
            let mut buffer = backend.create::<f32>(BufferKind::Cuda, 100_000).unwrap();
            let mut view = buffer.host_mut().unwrap();
            view[0] = 1.0;
            sim.fail(um_backend::sim::Fail::call("cudaMemcpyAsync").nth(1));
            let error = view.close().unwrap_err();
            assert!(error.to_string().contains("cudaMemcpyAsync"), "{error}");
            sim.clear_failures();
            let mut view = buffer.host_mut().unwrap();
            view[0] = 2.0;
            drop(view);
            assert_eq!(buffer.read_one(0).unwrap(), 2.0);
        },
    );
}

/// A tensor whose `data` returns a guard without a lifetime.
struct Tensor(Arc<dyn Buffer<f32>>);

impl Tensor {
    fn data(&self) -> Result<impl Deref<Target = [f32]> + use<>> {
        HostOwned::new(Arc::clone(&self.0), |buffer| buffer.host())
    }
}

fn owned<T: Element>(bytes: &Arc<ErasedBuffer>) -> Result<HostOwned<T, ErasedBuffer>> {
    HostOwned::new(Arc::clone(bytes), |bytes| bytes.typed()?.host())
}

#[test]
fn a_tensor_lends_its_elements_without_a_lifetime() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let tensor = Tensor(backend.create_from(kind, &[1.0f32, 2.0]).unwrap().into());
            let data = tensor.data().unwrap();
            drop(tensor);
            assert_eq!(*data, [1.0, 2.0], "{kind}: the guard keeps the buffer");
            drop(data);

            let erased = backend
                .create_erased_from(kind, DType::U8, &[3, 4])
                .unwrap();
            let erased = Arc::new(erased);
            let data = owned::<u8>(&erased).unwrap();
            assert_eq!(data.is_copy(), kind == BufferKind::Cuda, "{kind}");
            assert_eq!((&*data, Arc::strong_count(&erased)), (&[3, 4][..], 2));
            owned::<i8>(&erased).unwrap_err();
        }
    });
}

#[test]
fn vectors_go_in_and_out() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let buffer = backend.create_from_vec(kind, vec![1u16, 2, 3]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3], "{kind}");
            let clone = buffer.try_clone().unwrap();
            assert_eq!(clone.to_vec().unwrap(), [1, 2, 3], "{kind}");
        }
        let device = backend.device();
        let slice = [4u8, 5];
        let host = HostBuffer::from_slice(&slice).unwrap();
        let unified = um_backend::UnifiedBuffer::from_slice(device, &slice).unwrap();
        let cuda = um_backend::CudaBuffer::from_slice(device, &slice).unwrap();
        let pinned = um_backend::PinnedBuffer::from_slice(device, &slice).unwrap();
        let all: [&dyn Buffer<u8>; 4] = [&host, &unified, &cuda, &pinned];
        for buffer in all {
            assert_eq!(buffer.to_vec().unwrap(), slice);
        }
    });
}

/// The async twins of each type, on an executor that moves the future to another thread.
#[test]
fn async_twins_await_the_work() {
    on_each(|machine| {
        let backend = machine.backend();
        crate::support::executor::run_on_a_thread({
            let backend = backend.clone();
            async move {
                let mut back = [0.0; 1000];
                let mut cuda = backend.create_cuda::<f32>(1000)?;
                cuda.copy_from_host_async(&[1.0; 1000]).await?;
                cuda.copy_to_host_async(&mut back).await?;
                assert_eq!(back, [1.0; 1000]);
                let mut unified = backend.allocate_unified::<f32>(1000)?;
                unified.copy_from_buffer(&cuda)?;
                unified.host_mut_async().await?[0] = 7.0;
                assert_eq!(unified.host_async().await?[..2], [7.0, 1.0]);
                let mut pinned = backend.create_pinned::<f32>(1000)?;
                pinned.copy_from_buffer(&unified)?;
                assert_eq!(pinned.host_async().await?[..2], [7.0, 1.0]);
                pinned.host_mut_async().await?[1] = 8.0;
                pinned.copy_to_host_async(&mut back).await?;
                assert_eq!(back[..3], [7.0, 8.0, 1.0]);
                unified
                    .host_overwrite(.., |first, slots| slots.fill_with(|i| (first + i) as f32))?;
                assert_eq!(unified.read_one(999)?, 999.0);
                Ok::<(), CudaError>(())
            }
        })
        .unwrap();
    });
}

#[test]
fn the_host_gets_no_slice_to_write_of_a_part_that_is_read() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in [BufferKind::Host, BufferKind::Pinned] {
            let storage = SharedBuffer::new(backend.create_erased(kind, DType::F32, 4).unwrap());
            let part = storage.read().unwrap().into_erased().into_typed::<f32>();
            let refused =
                HostOwnedMut::new(Box::new(part.unwrap()), |part| part.host_mut()).map(drop);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("a write guard"), "{kind}: {error}");
        }
    });
}
