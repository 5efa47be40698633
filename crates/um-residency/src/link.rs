//! Measures the link between pinned memory and the arena.

use std::time::Duration;

use cuda_um_plan::{Access, Link};
use um_backend::cuda_um::{self, Device, DeviceArena, Event, PinnedBuffer, Stream};

use crate::arena::Arena;
use crate::error::Result;
use crate::held::Held;
use crate::homed::Homed;
use crate::set::{InPlace, List, acquire};

/// The most bytes of a measured copy. A slot is the least.
const LARGE: usize = 16 << 20;
/// The copies of a measurement, of which the fastest counts.
const ROUNDS: usize = 3;

/// The two ends of the copies in one direction.
struct Ends {
    host: PinnedBuffer<u8>,
    device: Held,
}

impl Ends {
    fn copy_in(&mut self, bytes: usize, stream: &Stream) -> cuda_um::Result<()> {
        let source = self.host.view(..bytes)?;
        stream.copy(&source, &mut self.device.memory_mut().view_mut(..bytes)?)
    }

    fn copy_out(&mut self, bytes: usize, stream: &Stream) -> cuda_um::Result<()> {
        let source = self.device.view()?.slice(..bytes)?;
        stream.copy(&source, &mut self.host.view_mut(..bytes)?)
    }
}

impl Arena {
    /// Measures the link: copies from and to pinned memory, one at a time and in both directions. Takes a few milliseconds, and up to 16 slots:
    /// buffers in them leave the arena, as for a working set. An arena with one slot never transfers in both directions at once, so
    /// [`Link::both_ways`] is 1. [`Link::in_place`] is that of the device's cost model. For an arena of unified buffers, all values are those of
    /// the model, and nothing is measured.
    ///
    /// # Ordering
    /// Waits for its copies, and while guards of other threads are in the way.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) if this thread holds guards and would wait,
    /// [`CudaError::OutOfMemory`](um_backend::CudaError::OutOfMemory) for pinned memory, and errors of CUDA and of files.
    pub fn measure_link(&self) -> Result<Link> {
        let shared = &self.shared;
        shared.check_process("measure_link")?;
        if shared.memory.is_none() {
            return Ok(of_pages(shared.cuda.as_cuda_um()));
        }
        let slots = shared.slots;
        let large = LARGE.min((slots / 2).max(1) * DeviceArena::SLOT_BYTES);
        let small = DeviceArena::SLOT_BYTES / 2;
        // Two buffers, unless there is only one slot.
        let of_link = |_| Homed::<u8>::unnumbered(self, "measured link", large);
        let buffers: Vec<_> = (0..slots.min(2)).map(of_link).collect();
        let ids = buffers.iter().map(|buffer| buffer.id);
        let list: List = ids.map(|id| (id, Access::Write)).collect();
        let mut ends = Vec::new();
        // Dropped before the buffers.
        for device in acquire(shared, (&list, &InPlace::new()), "measure_link")? {
            let host = PinnedBuffer::zeroed(shared.cuda.as_cuda_um(), large)?;
            ends.push(Ends { host, device });
        }
        let (inbound, outbound) = (shared.inbound.stream(), shared.outbound.stream());
        let into = &mut ends[0];
        let in_small = fastest(inbound, || into.copy_in(small, inbound))?;
        let in_large = fastest(inbound, || into.copy_in(large, inbound))?;
        let out_large = fastest(outbound, || into.copy_out(large, outbound))?;
        let alone = in_large.max(out_large);
        let both = match &mut ends[..] {
            [into, out] => fastest(inbound, || {
                out.copy_out(large, outbound)?;
                into.copy_in(large, inbound)?;
                // The measured stream comes after both.
                inbound.wait(&outbound.record()?)
            })?,
            _ => alone,
        };
        let model = shared.cuda.as_cuda_um().cost_model();
        let bytes = (large - small) as f64;
        let rate = bytes / (in_large - in_small).max(1e-9);
        let latency = (in_large - large as f64 / rate).clamp(0.0, 1.0);
        Ok(Link {
            in_bytes_per_second: rate.clamp(1.0, 1e15),
            out_bytes_per_second: (large as f64 / (out_large - latency).max(1e-9)).clamp(1.0, 1e15),
            latency_seconds: latency,
            both_ways: (alone / both.max(1e-9)).clamp(0.01, 1.0),
            in_place: (model.remote_rate / model.pinned_rate).clamp(0.01, 1.0),
        })
    }
}

/// The link for prefetches.
fn of_pages(device: &Device) -> Link {
    let model = device.cost_model();
    Link {
        in_bytes_per_second: model.prefetch_to_device_rate.clamp(1.0, 1e15),
        out_bytes_per_second: model.prefetch_to_host_rate.clamp(1.0, 1e15),
        latency_seconds: model.prefetch.as_secs_f64().min(1.0),
        both_ways: 1.0,
        in_place: 1.0,
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
