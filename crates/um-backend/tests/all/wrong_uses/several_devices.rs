//! Shards, and collective operations.

use um_backend::cuda_um::collective::{Communicator, Reduce, group};
use um_backend::{BufferKind, CudaBuffer, Result, Sharded, Split};

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, rows};

/// The ranks of both devices.
fn ranks(world: &World) -> Result<Vec<Communicator>> {
    Communicator::all(&world.backend.device().runtime().devices()?)
}

fn there(world: &World) -> CudaBuffer<f32> {
    world.backend.sibling(1).unwrap().create_cuda(10).unwrap()
}

/// Shards of rows of 5 elements, one on each device.
fn sharded(world: &World, split: Split<'_>) -> Result<Sharded<f32>> {
    let backends = [world.backend.clone(), world.backend.sibling(1)?];
    Sharded::zeroed(&backends, BufferKind::Cuda, 10, 5, split)
}

#[test]
fn shards_and_collectives() {
    let rows = rows! {
        "`Sharded` with a device twice" => |w| {
            Sharded::<f32>::zeroed(&[w.backend.clone(), w.backend.clone()], BufferKind::Cuda, 10, 5, Split::Even)
        };
        "three weights for two devices" => |w| sharded(w, Split::Weights(&[1.0; 3]));
        "a weight that is NaN" => |w| sharded(w, Split::Weights(&[1.0, f64::NAN]));
        "`clone_empty(7)` of rows of 5 elements" => |w| um_backend::Buffer::clone_empty(&sharded(w, Split::Even)?, 7);
        "more rows than the memory of device 1" => |w| {
            sharded(w, Split::Even)?;
            let backends = [w.backend.clone(), w.backend.sibling(1)?];
            Sharded::<f32>::zeroed(&backends, BufferKind::Cuda, 40 << 20, 1, Split::Weights(&[0.0, 1.0]))
        };
        "`Communicator::all` with a device twice" => |w| {
            Communicator::all(&[(**w.backend.device()).clone(), (**w.backend.device()).clone()])
        };
        "`all_gather` of 10 elements into 10, on two ranks" => |w| ranks(w)?[0].all_gather(&w.on_device(), &mut w.on_device()).run();
        "`broadcast` from rank 2 of two" => |w| ranks(w)?[0].broadcast(&mut w.on_device(), 2).run();
        "an operation with memory of another device" => |w| ranks(w)?[0].broadcast(&mut there(w), 0).run();
        "a group whose ranks make other calls" => |w| {
            let (ranks, mut here, mut there) = (ranks(w)?, w.on_device(), there(w));
            group([ranks[0].broadcast(&mut here, 0), ranks[1].all_reduce_in_place(&mut there, Reduce::Sum)])
        };
        "a group with ranks of two drivers" => |w| {
            let (other, mut here) = (World::new(), w.on_device());
            let mut there = other.on_device();
            group([ranks(w)?[0].broadcast(&mut here, 0), ranks(&other)?[0].broadcast(&mut there, 0)])
        };
        "an operation of a rank that was aborted" => |w| {
            let ranks = ranks(w)?;
            ranks[0].abort()?;
            ranks[0].broadcast(&mut w.on_device(), 0).run()
        };
    };
    check("Shards and collectives", &rows);
}
