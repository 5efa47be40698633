//! Weights from a file and back, for every kind and element type.

use std::fs::File;
use std::io::{Read, Seek, Write};

use um_backend::{BufferKind, CudaError, DType};

use crate::support::on_each;

/// More than two pieces of a staged copy.
const LEN: usize = (9 << 20) / 4 + 5;

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
            assert_eq!(
                buffer.read_one(LEN + 9).unwrap(),
                elements[LEN - 1],
                "{kind}"
            );
            let mut saved = tempfile::tempfile().unwrap();
            buffer.write_to(&mut saved, 10..LEN + 10).unwrap();
            saved.rewind().unwrap();
            let mut bytes = Vec::new();
            saved.read_to_end(&mut bytes).unwrap();
            assert!(bytes == bytemuck::cast_slice::<_, u8>(&elements), "{kind}");
        }
    });
}

#[test]
fn an_erased_buffer_reads_and_writes_elements() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut buffer = backend.create_erased(kind, DType::Opaque(3), 4).unwrap();
            buffer
                .read_from(&mut &[1u8, 2, 3, 4, 5, 6][..], 1..3)
                .unwrap();
            let mut file = Vec::new();
            buffer.write_to(&mut file, 0..2).unwrap();
            assert_eq!(file, [0, 0, 0, 1, 2, 3], "{kind}");
            let outside = buffer.write_to(&mut file, 0..5).unwrap_err();
            assert_eq!(
                outside.to_string(),
                "range 0..5 is not within the buffer's 4 elements"
            );
        }
    });
}

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

#[test]
fn failures_of_readers_and_writers_have_their_place() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut buffer = backend.create::<f32>(kind, LEN).unwrap();
            let short = vec![1u8; 5 << 20];
            let error = buffer.read_from(&mut &short[..], 0..LEN).unwrap_err();
            let text = format!("read_from: after {} of {} bytes: ", 4 << 20, LEN * 4);
            assert!(error.to_string().starts_with(&text), "{kind}: {error}");
            let CudaError::Io { source, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(source.kind(), std::io::ErrorKind::UnexpectedEof);
            let error = buffer.write_to(&mut Full, 0..4).unwrap_err();
            let text = "write_to: after 0 of 16 bytes: no storage space";
            assert_eq!(error.to_string(), text, "{kind}");
            buffer.write_to(&mut Full, 4..4).unwrap();
        }
        let missing = File::open("/nonexistent").map_err(|source| CudaError::Io {
            call: "open",
            done_bytes: 0,
            total_bytes: 0,
            source,
        });
        assert!(missing.is_err());
    });
}
