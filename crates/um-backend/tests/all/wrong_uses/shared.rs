//! Guards and casts of shared storage.

use um_backend::{BufferKind, DType, Result, SharedBuffer};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, rows};

/// Ten f32 in device memory.
fn shared(world: &World) -> Result<SharedBuffer> {
    let buffer = world
        .backend
        .create_erased(BufferKind::Cuda, DType::F32, 10);
    buffer.map(SharedBuffer::new)
}

#[test]
fn shared_storage() {
    let rows = rows! {
        "`view(5..11)`" => |w| shared(w)?.view(5..11);
        "`cast` to blocks that the bytes do not fill" => |w| shared(w)?.cast(DType::Opaque(18));
        "`write()` while the thread has a read guard" => |w| {
            let storage = shared(w)?;
            let _guard = storage.read()?;
            storage.write().map(drop)
        };
        "`read()` of another part while the thread has a write guard" => |w| {
            let storage = shared(w)?;
            let _guard = storage.view(0..5)?.write()?;
            storage.view(5..10)?.read().map(drop)
        };
        "`write()` while a part of `read_async()` lives that the thread took" => |w| {
            let storage = shared(w)?;
            let _guard = pollster::block_on(storage.read_async())?;
            storage.write().map(drop)
        };
        "`lock` to read and to write parts of one storage" => |w| {
            let storage = shared(w)?;
            SharedBuffer::lock([&storage.view(0..5)?], [&storage]).map(drop)
        };
        "`try_write()` while guards live" => |w| {
            let storage = shared(w)?;
            let _guards = (storage.read()?, storage.read()?);
            storage.try_write().map(drop)
        };
        "`host::<f64>()` of storage of `f32`" => |w| shared(w)?.host::<f64>().map(drop);
    };
    check("Shared storage", &rows);
}
