//! The sources of buffers: one device's pools, and CUDA.

use crate::buffer::Buffer;
use crate::model::numbers;
use crate::operation::{Kind, Start};
use crate::world::Side;
use cuda_um::{
    DeviceBuffer, MemoryKind, PinnedBuffer, Placement, Pool, PoolOptions, Result, UnifiedBuffer,
    UnifiedOptions,
};

/// The pools of one device, created when they are needed.
#[derive(Default)]
pub struct Pools {
    unified: Option<Pool>,
    device: Option<Pool>,
    pinned: Option<Pool>,
}

/// Small slabs, so that some buffers have dedicated slabs.
fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(2 << 20)
}

/// Creates the pool if it does not exist.
fn ready<P>(pool: &mut Option<P>, make: impl FnOnce() -> Result<P>) -> Result<&mut P> {
    Ok(match pool {
        Some(pool) => pool,
        None => pool.insert(make()?),
    })
}

/// `uninit`, then a kernel writes the whole buffer, then `assume_init`.
macro_rules! stored {
    ($uninit:expr, $side:expr, $len:expr, $seed:expr, $stream:expr) => {{
        let mut buffer = $uninit?;
        // SAFETY: the buffer has `len` elements, and the kernel writes all of them.
        unsafe {
            let kernels = &$side.kernels;
            kernels.store($stream, &mut buffer, $len, $seed)?;
            buffer.assume_init()
        }
    }};
}

#[allow(unsafe_code, reason = "`assume_init`: a kernel writes every element")]
impl Pools {
    pub fn allocate(
        &mut self,
        kind: Kind,
        side: &Side,
        len: usize,
        start: Start,
    ) -> Result<Buffer> {
        let device = &side.device;
        let streams = &side.streams;
        // Written by the host, or, if there is a choice, by a kernel.
        let from = start.seed().map(|seed| numbers(seed, 0..len));
        let stored = match start {
            Start::Stored(seed, stream) => {
                Some((seed, &streams[usize::from(stream) % streams.len()]))
            }
            _ => None,
        };
        Ok(match kind {
            Kind::UnifiedPool => {
                let pool = ready(&mut self.unified, || {
                    Pool::new(device, MemoryKind::Managed, options())
                })?;
                Buffer::Unified(match (stored, from) {
                    (Some((seed, stream)), _) => {
                        stored!(
                            UnifiedBuffer::<u32>::uninit_in(pool, len),
                            side,
                            len,
                            seed,
                            stream
                        )
                    }
                    (None, Some(from)) => UnifiedBuffer::from_slice_in(pool, &from)?,
                    (None, None) => UnifiedBuffer::zeroed_in(pool, len)?,
                })
            }
            Kind::Device => Buffer::Device(match (stored, from) {
                (Some((seed, stream)), _) => stored!(
                    DeviceBuffer::<u32>::uninit(device, len),
                    side,
                    len,
                    seed,
                    stream
                ),
                (None, Some(from)) => DeviceBuffer::from_slice(device, &from)?,
                (None, None) => DeviceBuffer::zeroed(device, len)?,
            }),
            Kind::DevicePool => {
                let pool = ready(&mut self.device, || {
                    Pool::new(device, MemoryKind::Device, options())
                })?;
                Buffer::Device(match (stored, from) {
                    (Some((seed, stream)), _) => {
                        stored!(
                            DeviceBuffer::<u32>::uninit_in(pool, len),
                            side,
                            len,
                            seed,
                            stream
                        )
                    }
                    (None, Some(from)) => DeviceBuffer::from_slice_in(pool, &from)?,
                    (None, None) => DeviceBuffer::zeroed_in(pool, len)?,
                })
            }
            Kind::Pinned => Buffer::Pinned(match from {
                Some(from) => PinnedBuffer::from_slice(device, &from)?,
                None => PinnedBuffer::zeroed(device, len)?,
            }),
            Kind::PinnedPool => {
                let pool = ready(&mut self.pinned, || {
                    Pool::new(device, MemoryKind::Pinned, options())
                })?;
                Buffer::Pinned(match from {
                    Some(from) => PinnedBuffer::from_slice_in(pool, &from)?,
                    None => PinnedBuffer::zeroed_in(pool, len)?,
                })
            }
            unified => {
                let options = UnifiedOptions::default();
                let options = match unified.pattern() {
                    Some(pattern) => options.pattern(pattern),
                    None if unified == Kind::Mapped => options.placement(Placement::Mapped),
                    None => options,
                };
                Buffer::Unified(match (stored, from) {
                    (Some((seed, stream)), _) => stored!(
                        UnifiedBuffer::<u32>::uninit_with(device, len, options),
                        side,
                        len,
                        seed,
                        stream
                    ),
                    (None, Some(from)) => UnifiedBuffer::from_slice_with(device, &from, options)?,
                    (None, None) => UnifiedBuffer::zeroed_with(device, len, options)?,
                })
            }
        })
    }

    pub fn trim(&self) {
        self.unified.iter().for_each(|pool| _ = pool.trim());
        self.device.iter().for_each(|pool| _ = pool.trim());
        self.pinned.iter().for_each(|pool| _ = pool.trim());
    }

    /// Number of live buffers of this kind.
    pub fn live_buffers(&self, kind: Kind) -> usize {
        let stats = match kind {
            Kind::UnifiedPool => self.unified.as_ref().map(Pool::stats),
            Kind::DevicePool => self.device.as_ref().map(Pool::stats),
            Kind::PinnedPool => self.pinned.as_ref().map(Pool::stats),
            _ => None,
        };
        stats.map_or(0, |stats| stats.live_buffers)
    }
}
