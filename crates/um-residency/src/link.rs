//! Measures the link between homes and the arena.

use std::time::Duration;

use cuda_um_plan::{Access, FileLink, Link, Role};
use um_backend::cuda_um::{self, Event, PinnedBuffer, Stream, resource::DeviceArena};

use crate::arena::Arena;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::home::{Home, SharedHome};
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
        stream.copy(&source, &mut self.device.view_mut()?.slice_mut(..bytes)?)
    }

    fn copy_out(&mut self, bytes: usize, stream: &Stream) -> cuda_um::Result<()> {
        let source = self.device.view()?.slice(..bytes)?;
        stream.copy(&source, &mut self.host.view_mut(..bytes)?)
    }
}

impl Arena {
    /// Measures the link: copies from and to pinned memory, one at a time and in both directions. Takes a few milliseconds, and up to 16 slots:
    /// buffers in them leave the arena, as for a working set. An arena with one slot never transfers in both directions at once, so
    /// [`Link::both_ways`] is 1. [`Link::in_place`] is that of the device's cost model.
    ///
    /// [`Link::file`] is measured with the first bytes, up to 16 MiB, of the largest buffer whose home is a file: they are read several times.
    /// Those of the largest one that is not read-only are also written several times, unchanged: no other program may write them meanwhile.
    /// The file system usually has them in the page cache then; plans do not know that later reads of a disk are slower.
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
        let slots = shared.slots;
        let large = LARGE.min((slots / 2).max(1) * DeviceArena::SLOT_BYTES);
        let small = DeviceArena::SLOT_BYTES / 2;
        // Two buffers, unless there is only one slot.
        let of_link = |_| Homed::<u8>::unnumbered(self, large, Home::Nowhere);
        let buffers: Vec<_> = (0..slots.min(2)).map(of_link).collect();
        let ids = buffers.iter().map(|buffer| buffer.id);
        let list: List = ids.map(|id| (id, Access::Write)).collect();
        let mut ends = Vec::new();
        // Dropped before the buffers.
        for device in acquire(shared, &list, &InPlace::new(), "measure_link")? {
            let host = PinnedBuffer::zeroed(&shared.device, large)?;
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
        let model = shared.device.cost_model();
        let of_in = line((small, in_small), (large, in_large));
        let mut link = Link::pcie5();
        link.in_bytes_per_second = of_in.1;
        link.out_bytes_per_second = rate(large, out_large - of_in.0);
        link.latency_seconds = of_in.0;
        link.both_ways = (alone / both.max(1e-9)).clamp(0.01, 1.0);
        link.in_place = (model.remote_rate / model.pinned_rate).clamp(0.01, 1.0);
        link.file = self.measure_files(&link, &mut ends[0].device)?;
        Ok(link)
    }

    /// Measures the transfers of files, if there are any: those to the device with the largest one, those from it with the largest one that may
    /// be written.
    fn measure_files(&self, link: &Link, device: &mut Held) -> Result<Option<FileLink>> {
        let state = self.shared.state.lock();
        let largest = |writes: bool| {
            let entries = state.entries.iter().map(|(_, entry)| entry);
            let fits = |entry: &&Entry| !writes || entry.role != Role::ReadOnly;
            let files = entries.filter(|entry| entry.in_file && entry.bytes > 0);
            let largest = files.filter(fits).max_by_key(|entry| entry.bytes);
            largest.map(|entry| (SharedHome::clone(&entry.home), entry.bytes))
        };
        let (read, written) = (largest(false), largest(true));
        drop(state);
        let Some((file, bytes)) = read else {
            return Ok(None);
        };
        let stream = self.shared.outbound.stream();
        let room = device.view()?.len();
        let large = bytes.min(room);
        let mut ins = |bytes: usize| {
            let (file, mut all) = (file.read(), device.view_mut()?);
            let mut to = all.slice_mut(..bytes)?;
            // The thread returns when the last bytes are in pinned memory.
            let busy = fastest(stream, || file.read_file(to.reborrow()))?;
            let time = fastest(stream, || {
                file.read_file(to.reborrow())?;
                // Complete before the event, whatever the stream of the copies is.
                stream.device().synchronize()
            })?;
            Ok::<_, Error>([(bytes, busy), (bytes, time)])
        };
        let ([_, small], [busy, whole]) = (ins(large / 2)?, ins(large)?);
        let mut link = FileLink::of(link);
        (link.latency_seconds, link.in_bytes_per_second) = line(small, whole);
        link.busy = (busy.1 / whole.1.max(1e-9)).clamp(0.0, 1.0);
        link.out_bytes_per_second = link.in_bytes_per_second;
        if let Some((file, bytes)) = written {
            let (mut file, mut all) = (file.write(), device.view_mut()?);
            let mut part = all.slice_mut(..bytes.min(room))?;
            // What is written is what the file has.
            file.read_file(part.reborrow())?;
            let time = fastest(stream, || file.write_file(part.as_view()))?;
            link.out_bytes_per_second = rate(part.len(), time - link.latency_seconds);
        }
        Ok(Some(link))
    }
}

/// The time of nothing, and the bytes in a second, for two sizes and their times.
fn line(small: (usize, f64), large: (usize, f64)) -> (f64, f64) {
    let per_second = (large.0 - small.0) as f64 / (large.1 - small.1).max(1e-9);
    let latency = (large.1 - large.0 as f64 / per_second).clamp(0.0, 1.0);
    (latency, per_second.clamp(1.0, 1e15))
}

fn rate(bytes: usize, seconds: f64) -> f64 {
    (bytes as f64 / seconds.max(1e-9)).clamp(1.0, 1e15)
}

/// The time of work on a stream, in seconds.
fn fastest<E>(stream: &Stream, mut work: impl FnMut() -> Result<(), E>) -> Result<f64>
where
    Error: From<E>,
{
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
