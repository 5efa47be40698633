//! A pool, with two sizes of blocks.

mod class;
mod free_blocks;
mod whole;

#[path = "../../../src/resource/pool/advised.rs"]
mod advised;
#[path = "../../../src/resource/pool/free_block.rs"]
mod free_block;
#[path = "../../../src/resource/pool/heap.rs"]
mod heap;
#[path = "../../../src/resource/pool/shard.rs"]
mod shard;
#[path = "../../../src/resource/pool/shared.rs"]
mod shared;

use crate::context::device::Device;
use crate::error::Error;

struct PoolOptions {
    slab_bytes: usize,
    limit_bytes: Option<usize>,
}

#[derive(Debug)]
struct PoolStats {
    live_bytes: usize,
    peak_bytes: usize,
    reserved_bytes: usize,
    free_bytes: usize,
    live_buffers: usize,
    slabs: usize,
    largest_free_bytes: usize,
}

fn beyond_limit(
    call: &'static str,
    what: &str,
    _: &Device,
    _: &PoolOptions,
    (requested_bytes, room): (usize, usize),
) -> Error {
    Error::OutOfMemory {
        call,
        subject: what.to_owned(),
        requested_bytes,
        free_bytes: room,
        total_bytes: 0,
    }
}
