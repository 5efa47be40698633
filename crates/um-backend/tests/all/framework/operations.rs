//! Files, streams and launches of what a framework holds.

use std::io::{Read, Seek, Write};

use cuda_um::kernel::{Arguments, ReadArg};
use um_backend::{BufferKind, DType};

use crate::support::kernel::Double;
use crate::support::on_each;

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

/// Each kind, behind `dyn`, erased and typed: in a tuple and in a list.
#[test]
fn buffers_are_arguments() {
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
            assert_eq!(typed.to_vec().unwrap(), [8.0; 8], "{kind}");
        }
    });
}
