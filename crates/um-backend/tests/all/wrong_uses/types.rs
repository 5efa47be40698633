//! Element types.

use um_backend::{Buffer, BufferKind, CudaError, DType, UnifiedBuffer, kernels};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::rows;

#[test]
fn types() {
    let rows = rows! {
        "`UnifiedBuffer::<i32>::new(…, DType::F32)`" => |w| UnifiedBuffer::<i32>::new(w.backend.device().clone(), 10, DType::F32);
        "`typed::<f32>()` of an erased buffer of `i32`" => |w| w.backend.create_erased(BufferKind::Unified, DType::I32, 10)?.typed::<f32>().map(drop);
        "`create_erased_from` of 7 bytes for `f32`" => |w| w.backend.create_erased_from(BufferKind::Host, DType::F32, &[0; 7]);
        "`copy_from` an erased buffer of another type" => |w| {
            let source = w.backend.create_erased(BufferKind::Host, DType::BF16, 10)?;
            w.backend.create_erased(BufferKind::Host, DType::F32, 10)?.copy_from(&source)
        };
        "`\"float33\".parse::<DType>()`" => |_w| "float33".parse::<DType>();
        "`DType::Opaque(0)`" => |w| w.backend.create_erased(BufferKind::Host, DType::Opaque(0), 1);
        "a launcher for `f32` with an erased buffer of `i32`" => |w| {
            let scale = kernels::Scale::load(w.backend.device())?;
            let input = w.backend.create_erased(BufferKind::Cuda, DType::I32, 10)?;
            scale.launch(w.backend.device().stream(), &input, &mut w.on_device(), 2.0).map_err(CudaError::from)
        };
        "`cast::<f64>()` of a view of 3 `f32`" => |w| w.on_device().memory().device_view()?.slice(0..3)?.cast::<f64>().map(drop);
        "`cast::<f32>()` of a view of bytes that begins at byte 1" => |w| {
            let bytes = w.backend.create_buffer::<u8>(40, DType::U8)?;
            bytes.memory().device_view()?.slice(1..5)?.cast::<f32>().map(drop)
        };
    };
    check("Types", &rows);
}
