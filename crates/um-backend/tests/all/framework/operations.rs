//! Files, slices for the host, streams and launches of what a framework holds.

use crate::support::kernel::Double;
use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_each_preset};
use cuda_um::{kernel::Arguments, kernel::ReadArg};
use std::io::{Read, Seek, Write};
use um_backend::{
    Buffer, BufferKind, DType, HostMut, HostRef, Result, SharedBuffer, memory::BufferMemory,
    memory::BufferMemoryMut,
};

/// More than two pieces of a staged copy.
const LEN: usize = (9 << 20) / 4 + 5;
/// Kernels reach these in every machine.
const ON_DEVICE: [BufferKind; 3] = [BufferKind::Unified, BufferKind::Cuda, BufferKind::Pinned];

/// A writer without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// In pieces, behind a header; failures have their place.
#[test]
fn weights_come_from_a_file_and_go_back() {
    on_each(|machine| {
        let backend = machine.backend();
        let elements: Vec<f32> = (0..LEN).map(|i| i as f32).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"header").unwrap();
        file.write_all(bytemuck::cast_slice(&elements)).unwrap();
        for kind in BufferKind::ALL {
            file.rewind().unwrap();
            file.read_exact(&mut [0; 6]).unwrap();
            let mut buffer = backend.create::<f32>(kind, LEN + 10).unwrap();
            buffer.read_from(&mut file, 10..LEN + 10).unwrap();
            let mut bytes = Vec::new();
            buffer.write_to(&mut bytes, 10..LEN + 10).unwrap();
            assert!(bytes == bytemuck::cast_slice::<_, u8>(&elements), "{kind}");

            let short = vec![1u8; 5 << 20];
            let error = buffer.read_from(&mut &short[..], 0..LEN).unwrap_err();
            let text = format!("read_from: after {} of {} bytes: ", 4 << 20, LEN * 4);
            assert!(error.to_string().starts_with(&text), "{kind}: {error}");
            let error = buffer.write_to(&mut Full, 0..4).unwrap_err();
            let text = "write_to: after 0 of 16 bytes: no storage space";
            assert_eq!(error.to_string(), text, "{kind}");
            buffer.write_to(&mut Full, 4..4).unwrap();
            // Copies on a stream have several pieces, too.
            let stream = backend.device().stream();
            let mut back = vec![0.0; LEN + 10];
            buffer.copy_from_host_on(&back, stream).unwrap();
            buffer.fill_range(LEN..LEN + 10, 4.0).unwrap();
            buffer.copy_to_host_on(&mut back, stream).unwrap();
            assert!(back[..LEN].iter().all(|element| *element == 0.0), "{kind}");
            assert_eq!(back[LEN..], [4.0; 10], "{kind}");
        }
    });
}

/// Each kind, behind `dyn`, erased and typed, guards of shared storage, and parts: in a tuple and in a list.
#[test]
fn buffers_and_guards_are_arguments() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        let double = Double::load(device);
        for kind in ON_DEVICE {
            let mut erased = backend.create_erased(kind, DType::F32, 8).unwrap();
            erased.typed_mut().unwrap().fill(1.0f32).unwrap();
            double.launch_on(device, 8, (&mut erased, 8u32)).unwrap();
            let typed = erased.typed_mut::<f32>().unwrap();
            double.launch_on(device, 8, (&mut *typed, 8u32)).unwrap();
            let mut list = Arguments::new();
            list.push(&mut *typed);
            list.push(8u32);
            double.launch_on(device, 8, list).unwrap();
            assert_eq!((&*typed).into_view().unwrap().len(), 8);
            typed.set_name("weights");
            assert_eq!(typed.name(), Some("weights"), "{kind}");

            let part = SharedBuffer::new(erased).view(2..6).unwrap();
            let mut guard = part.write().unwrap();
            double.launch_on(device, 4, (&mut guard, 4u32)).unwrap();
            let (_, mut last) = guard.view_mut::<f32>().unwrap().split_at(3).unwrap();
            double.launch_on(device, 1, (&mut last, 1u32)).unwrap();
            drop(guard);
            let read = part.read().unwrap();
            let found = read.view::<f32>().unwrap().to_vec().unwrap();
            assert_eq!(found, [16.0, 16.0, 16.0, 32.0], "{kind}");
        }
    });
}

/// What a framework writes once, for every kind.
fn add_one(buffer: &mut dyn Buffer<f32>) -> Result<f32> {
    let mut elements = buffer.host_mut()?;
    elements.iter_mut().for_each(|element| *element += 1.0);
    elements.close()?;
    Ok(buffer.host()?.iter().sum())
}

/// What must compile: a borrow may become shorter. The documentation tests `Variance` in `lib.rs` have what must not.
type Borrows<'a> = (
    HostRef<'a, f32>,
    HostMut<'a, f32>,
    BufferMemory<'a, f32>,
    BufferMemoryMut<'a, f32>,
);
const _: for<'long, 'short> fn(&'short &'long (), Borrows<'long>) -> Borrows<'short> =
    |_, borrows| borrows;

#[test]
fn one_function_serves_every_kind() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut buffer = backend.create_from(kind, &[1.0f32, 2.0]).unwrap();
            assert_eq!(add_one(&mut *buffer).unwrap(), 5.0, "{kind}");
            assert_eq!(buffer.try_clone().unwrap().to_vec().unwrap(), [2.0, 3.0]);
            let is_copy = kind == BufferKind::Cuda;
            assert_eq!(buffer.host().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(buffer.host_mut().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(format!("{:?}", buffer.host().unwrap()), "[2.0, 3.0]");
        }
        let mut opaque = OpaqueBuffer::<f32>::new(2);
        assert_eq!(add_one(&mut opaque).unwrap(), 2.0);
    });
}

/// The error of the copy back is returned by `close`.
#[test]
fn close_returns_the_error_of_the_copy_back() {
    let machine = |builder| builder;
    on_each_preset(machine, |machine| {
        let (backend, sim) = (machine.backend(), machine.sim());
        let mut buffer = backend.create::<f32>(BufferKind::Cuda, 100_000).unwrap();
        let mut view = buffer.host_mut().unwrap();
        view[0] = 1.0;
        sim.fail(um_backend::sim::Fail::call("cudaMemcpyAsync").nth(1));
        let error = view.close().unwrap_err();
        assert!(error.to_string().contains("cudaMemcpyAsync"), "{error}");
        sim.clear_failures();
    });
}
