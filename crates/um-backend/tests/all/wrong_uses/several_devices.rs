//! Shards.

use um_backend::{BufferKind, Result, Sharded, Split};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, rows};

/// Shards of rows of 5 elements, one on each device.
fn sharded(world: &World, split: Split<'_>) -> Result<Sharded<f32>> {
    let backends = [world.backend.clone(), world.backend.sibling(1)?];
    Sharded::zeroed(&backends, BufferKind::Cuda, 10, 5, split)
}

#[test]
fn shards() {
    let rows = rows! {
        "`Sharded` with a device twice" => |w| {
            Sharded::<f32>::zeroed(&[w.backend.clone(), w.backend.clone()], BufferKind::Cuda, 10, 5, Split::Even)
        };
        "three weights for two devices" => |w| sharded(w, Split::Weights(&[1.0; 3]));
        "a weight that is NaN" => |w| sharded(w, Split::Weights(&[1.0, f64::NAN]));
        "`from_slice` of 7 elements in rows of 5" => |w| {
            Sharded::from_slice(std::slice::from_ref(&w.backend), BufferKind::Cuda, &[1.0; 7], 5, Split::Even)
        };
        "more rows than the memory of device 1" => |w| {
            sharded(w, Split::Even)?;
            let backends = [w.backend.clone(), w.backend.sibling(1)?];
            Sharded::<f32>::zeroed(&backends, BufferKind::Cuda, 40 << 20, 1, Split::Weights(&[0.0, 1.0]))
        };
    };
    check("Shards", &rows);
}
