//! Relayed copies: a part of a large copy between pinned and device memory takes the link of a neighbour, while peer access is enabled.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::copy::InUse;
use crate::buffer::copy_within::between;
use crate::context::capture;
use crate::context::event::RawEvent;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use cuda_um_cost::PeerLink;
use smallvec::SmallVec;
use std::sync::Arc;

/// Smaller copies are not looked at: no relay pays.
const LEAST: usize = 4 << 20;
/// Bytes that pass through memory of another device at a time.
pub(crate) const PIECE: usize = 32 << 20;
/// A part begins on such a border.
const UNIT: usize = 64 << 10;
/// The most neighbours, because the links of all share the memory of the host.
const MOST: usize = 3;

/// The neighbours that carry parts of a copy.
pub(super) struct Relays {
    /// A stream of each neighbour, and memory there through which its part passes.
    relays: SmallVec<[(Arc<StreamInner>, Allocation); MOST]>,
    /// Bytes of the part of each neighbour.
    share: usize,
    /// Bytes of the first part, which takes the link of the device itself.
    direct: usize,
}

impl Relays {
    /// Finds the neighbours for a copy on a stream, by the cost model of the stream's device. None if it is not faster.
    pub(super) fn of(
        stream: &Stream,
        source: &Allocation,
        target: &Allocation,
        bytes: usize,
    ) -> Result<Option<Self>> {
        let device = stream.inner().device();
        let on_device = match (source.kind(), target.kind()) {
            (MemoryKind::Pinned, MemoryKind::Device) if bytes >= LEAST => target,
            (MemoryKind::Device, MemoryKind::Pinned) if bytes >= LEAST => source,
            _ => return Ok(None),
        };
        let is_here = on_device.device().ordinal() == device.ordinal;
        let is_open = is_here && on_device.is_open_to_peers() && !device.is_gated;
        if !is_open || capture::is_of_this_thread() {
            return Ok(None);
        }
        fork::check("copy")?;
        let mut neighbours = device.driver.peers.lock().linked_to(device.ordinal);
        neighbours.retain(|(_, link)| *link == PeerLink::NvLink);
        neighbours.truncate(MOST);
        let (cost, count) = (device.cost_model(), neighbours.len() as u32);
        let share = cost.relayed_bytes(PeerLink::NvLink, count, bytes as u64) as usize;
        let share = share / UNIT * UNIT;
        if share == 0 {
            return Ok(None);
        }
        let mut relays = SmallVec::new();
        for (neighbour, _) in neighbours {
            match relay(stream, neighbour, share.min(PIECE)) {
                // It has no memory, or is lost: its part takes the device's own link.
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) if error.is_sticky() => {}
                relay => relays.push(relay?),
            }
        }
        let direct = bytes - share * relays.len();
        let found = Self {
            relays,
            share,
            direct,
        };
        Ok(Some(found).filter(|_| direct < bytes))
    }

    /// The memory of the neighbours, which the copy uses.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let memory = self.relays.iter();
        memory.map(|(_, raw)| raw.part_of(0..raw.bytes(), Access::Write))
    }

    /// Enqueues the copy. For the stream it is one piece of work: its parts on other streams begin after the stream's earlier work, and
    /// its later work begins after them.
    ///
    /// # Safety
    ///
    /// As for `Api::memcpy_async` with the sum of the bytes; the stream tracks the use of [`parts`](Self::parts).
    pub(super) unsafe fn copy(
        &self,
        stream: &Arc<StreamInner>,
        to: *mut u8,
        from: *const u8,
    ) -> Result<()> {
        let (api, kind) = (stream.api(), CopyKind::ByAddress);
        let copy = |on: &StreamInner, to: *mut u8, from: *const u8, bytes| {
            // SAFETY: the caller's promise, for parts of both ranges and the memory of the neighbours. No two parts overlap, and pieces that
            // use the same memory of a neighbour follow each other on one stream.
            unsafe { api.memcpy_async(on.ordinal(), to, from, bytes, kind, on.raw()) }
        };
        let event_of = |on: &Arc<StreamInner>| RawEvent::create(on.device(), false)?.record(on);
        let begin = event_of(stream)?;
        copy(stream, to, from, self.direct)?;
        for (number, (relay, through)) in self.relays.iter().enumerate() {
            let (start, len) = (self.direct + number * self.share, self.share);
            let (to, from) = (to.wrapping_add(start), from.wrapping_add(start));
            let relayed = || -> Result<()> {
                relay.enqueue_wait(&begin)?;
                // Until the parts are over or the stream waits for them, they use the buffers.
                let mut in_use = InUse(Some(relay));
                let through = through.pointer().as_ptr();
                for at in (0..len).step_by(PIECE) {
                    let bytes = PIECE.min(len - at);
                    copy(relay, through, from.wrapping_add(at), bytes)?;
                    copy(relay, to.wrapping_add(at), through, bytes)?;
                }
                stream.enqueue_wait(&event_of(relay)?)?;
                in_use.0 = None;
                Ok(())
            };
            match relayed() {
                // The neighbour is lost, and nothing of its part is under way: the device's own link takes all of it.
                Err(error) if error.is_sticky() => copy(stream, to, from, len)?,
                relayed => relayed?,
            }
        }
        Ok(())
    }
}

/// A stream of a neighbour, and memory there.
fn relay(stream: &Stream, neighbour: u32, bytes: usize) -> Result<(Arc<StreamInner>, Allocation)> {
    let neighbour = stream.runtime().device(neighbour)?;
    let through = between(&neighbour, bytes, "a relayed copy")?;
    Ok((stream.runtime().relay_stream(neighbour.state())?, through))
}
