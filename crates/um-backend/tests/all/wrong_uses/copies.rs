//! Lengths, ranges and files.

use um_backend::{Buffer, BufferKind, DType, HostBuffer};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::rows;

#[test]
fn copies_and_ranges() {
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong use")]
    let rows = rows! {
        "`copy_from_host` of 11 elements into 10" => |w| w.unified().copy_from_host(&[0.0; 11]);
        "`copy_to_host` of 10 elements into 9" => |w| w.unified().copy_to_host(&mut [0.0; 9]);
        "`copy_from_buffer` of another length" => |w| w.unified().copy_from_buffer(&HostBuffer::zeroed(5)?);
        "`copy_from_host_at(5, …)` with 6 elements" => |w| w.unified().copy_from_host_at(5, &[0.0; 6]);
        "`copy_from_buffer_at` with a source range past its end" => |w| w.unified().copy_from_buffer_at(0, &HostBuffer::zeroed(5)?, 4..6);
        "`copy_from_buffer_at` with the source range 5..2" => |w| w.unified().copy_from_buffer_at(0, &HostBuffer::zeroed(10)?, 5..2);
        "`read_one(10)`" => |w| w.unified().read_one(10);
        "`fill_range(5..11, …)`" => |w| w.any(BufferKind::Cuda).fill_range(5..11, 1.0);
        "`fill_range(5..2, 0.0)`" => |w| w.any(BufferKind::Cuda).fill_range(5..2, 0.0);
        "`copy_within(0..6, 5)`" => |w| w.on_device().copy_within(0..6, 5);
        "a view of 5..11" => |w| w.on_device().memory().device_view()?.slice(5..11);
        "a copy of 39 bytes into an erased buffer of 10 `f32`" => |w| w.backend.create_erased(BufferKind::Host, DType::F32, 10)?.bytes_mut().copy_from_host(&[0; 39]);
        "`read_from` a file that ends too early" => |w| w.unified().read_from(&mut &[0u8; 39][..], 0..10);
        "`write_to` a full target" => |w| w.unified().write_to(&mut &mut [0u8; 39][..], 0..10);
    };
    check("Copies and ranges", &rows);
}
