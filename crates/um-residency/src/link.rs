//! Measures the link between pinned memory and the arena.

use std::time::Duration;

use cuda_um_plan::Link;
use um_backend::cuda_um::{self, DeviceArena, DeviceBuffer, Event, PinnedBuffer, Stream};

use crate::arena::Arena;
use crate::error::Result;
use crate::state::Shared;

/// The most bytes of a measured copy. A slot is the least.
const LARGE: usize = 16 << 20;
/// The copies of a measurement, of which the fastest counts.
const ROUNDS: usize = 3;

/// The two ends of the copies in one direction.
struct Ends {
    host: PinnedBuffer<u8>,
    device: DeviceBuffer<u8>,
}

impl Ends {
    fn new(shared: &Shared, bytes: usize) -> cuda_um::Result<Self> {
        let below = shared.cuda.as_cuda_um();
        Ok(Self {
            host: PinnedBuffer::zeroed(below, bytes)?,
            device: DeviceBuffer::zeroed_in(&shared.memory, bytes)?,
        })
    }

    fn copy_in(&mut self, bytes: usize, stream: &Stream) -> cuda_um::Result<()> {
        let source = self.host.view(..bytes)?;
        stream.copy(&source, &mut self.device.view_mut(..bytes)?)
    }

    fn copy_out(&mut self, bytes: usize, stream: &Stream) -> cuda_um::Result<()> {
        let source = self.device.view(..bytes)?;
        stream.copy(&source, &mut self.host.view_mut(..bytes)?)
    }
}

impl Arena {
    /// Measures the link: copies from and to pinned memory, one at a time and in both directions. Takes a few milliseconds, and two runs of up
    /// to eight free slots; the contents of the arena stay.
    ///
    /// # Ordering
    /// Waits for its copies. Working sets wait meanwhile.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](um_backend::CudaError::OutOfMemory) if two slots are not free, or there is no pinned memory; errors of CUDA.
    pub fn measure_link(&self) -> Result<Link> {
        let shared = &*self.shared;
        shared.check_process("measure_link")?;
        // Nothing is placed meanwhile.
        let _state = shared.state.lock();
        let large = LARGE.min(shared.memory.slots() / 2 * DeviceArena::SLOT_BYTES);
        let small = DeviceArena::SLOT_BYTES / 2;
        let (mut into, mut out) = (Ends::new(shared, large)?, Ends::new(shared, large)?);
        let (inbound, outbound) = (shared.inbound.stream(), shared.outbound.stream());
        let in_small = fastest(inbound, || into.copy_in(small, inbound))?;
        let in_large = fastest(inbound, || into.copy_in(large, inbound))?;
        let out_large = fastest(outbound, || out.copy_out(large, outbound))?;
        let both = fastest(inbound, || {
            out.copy_out(large, outbound)?;
            into.copy_in(large, inbound)?;
            // The measured stream comes after both.
            inbound.wait(&outbound.record()?)
        })?;
        let bytes = (large - small) as f64;
        let rate = bytes / (in_large - in_small).max(1e-9);
        let latency = (in_large - large as f64 / rate).clamp(0.0, 1.0);
        let alone = in_large.max(out_large);
        Ok(Link {
            in_bytes_per_second: rate.clamp(1.0, 1e15),
            out_bytes_per_second: (large as f64 / (out_large - latency).max(1e-9)).clamp(1.0, 1e15),
            latency_seconds: latency,
            both_ways: (alone / both.max(1e-9)).clamp(0.01, 1.0),
        })
    }
}

/// The time of work on a stream, in seconds.
fn fastest(stream: &Stream, mut work: impl FnMut() -> cuda_um::Result<()>) -> Result<f64> {
    let mut best = Duration::MAX;
    // The first round warms up.
    for round in 0..=ROUNDS {
        stream.device().synchronize()?;
        let begin = Event::timed(stream)?;
        work()?;
        let time = Event::timed(stream)?.elapsed_since(&begin)?;
        if round > 0 {
            best = best.min(time);
        }
    }
    Ok(best.as_secs_f64())
}
