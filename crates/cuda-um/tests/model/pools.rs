//! The sources of buffers: one device's pools, and CUDA.

use crate::model::numbers;
use crate::operation::{Kind, Start};
use crate::world::Side;
use cuda_um::buffer::kind::Owned;
use cuda_um::{
    Device, Memory, MemoryKind, Placement, Pool, PoolOptions, Result, UnifiedBuffer, UnifiedOptions,
};
use cuda_um_testkit::{AnyBuffer, any_buffer};
use std::mem::MaybeUninit;

pub const POOLED: [Kind; 3] = [Kind::UnifiedPool, Kind::DevicePool, Kind::PinnedPool];

/// The pools of one device, in the order of [`POOLED`], created when they are needed.
#[derive(Clone, Default)]
pub struct Pools([Option<Pool>; 3]);

/// A new buffer of one kind, with its first contents.
#[allow(unsafe_code, reason = "`assume_init`: a kernel writes every element")]
fn filled<K: Owned>(
    (side, len, start): (&Side, usize, Start),
    zeroed: impl FnOnce() -> Result<Memory<u32, K>>,
    from: impl FnOnce(&[u32]) -> Result<Memory<u32, K>>,
    uninit: impl FnOnce() -> Result<Memory<MaybeUninit<u32>, K>>,
) -> Result<Memory<u32, K>> {
    match start {
        Start::Zeroed => zeroed(),
        Start::From(seed) => from(&numbers(seed, 0..len)),
        Start::Stored(seed, stream) => {
            let mut buffer = uninit()?;
            let stream = &side.streams[usize::from(stream) % side.streams.len()];
            // SAFETY: the buffer has `len` elements, and the kernel writes all of them.
            unsafe {
                side.kernels.store(stream, &mut buffer, len, seed)?;
                Ok(buffer.assume_init())
            }
        }
    }
}

impl Pools {
    /// The pool of a kind that has one.
    pub fn of(&mut self, kind: Kind, device: &Device) -> Result<Option<&Pool>> {
        let Some(at) = POOLED.iter().position(|pooled| *pooled == kind) else {
            return Ok(None);
        };
        if self.0[at].is_none() {
            // Small slabs, so that some buffers have dedicated slabs.
            let options = PoolOptions::default().slab_bytes(2 << 20);
            self.0[at] = Some(Pool::new(device, kind.memory(), options)?);
        }
        Ok(self.0[at].as_ref())
    }

    pub fn allocate(
        &mut self,
        kind: Kind,
        side: &Side,
        len: usize,
        start: Start,
    ) -> Result<AnyBuffer> {
        let (device, memory) = (&side.device, kind.memory());
        let start = match start {
            Start::Stored(seed, _) if memory == MemoryKind::Pinned => Start::From(seed),
            start => start,
        };
        let of = (side, len, start);
        if let Some(pool) = self.of(kind, device)? {
            return Ok(any_buffer!(memory, Buffer => filled(
                of,
                || Buffer::zeroed_in(pool, len),
                |from| Buffer::from_slice_in(pool, from),
                || Buffer::uninit_in(pool, len),
            )?));
        }
        let options = UnifiedOptions::default();
        let options = match kind {
            Kind::For(pattern) => options.pattern(pattern),
            Kind::Mapped => options.placement(Placement::Mapped),
            _ => {
                return Ok(any_buffer!(memory, Buffer => filled(
                    of,
                    || Buffer::zeroed(device, len),
                    |from| Buffer::from_slice(device, from),
                    || Buffer::uninit(device, len),
                )?));
            }
        };
        Ok(AnyBuffer::Unified(filled(
            of,
            || UnifiedBuffer::zeroed_with(device, len, options),
            |from| UnifiedBuffer::from_slice_with(device, from, options),
            || UnifiedBuffer::uninit_with(device, len, options),
        )?))
    }

    pub fn trim(&self) {
        self.0.iter().flatten().for_each(|pool| _ = pool.trim());
    }

    /// Number of live buffers of each kind of [`POOLED`].
    pub fn live_buffers(&self) -> [usize; 3] {
        let live = |pool: &Option<Pool>| pool.as_ref().map_or(0, |pool| pool.stats().live_buffers);
        [0, 1, 2].map(|at| live(&self.0[at]))
    }
}
