//! Relayed copies: a part of a large copy between pinned and device memory takes the link of a neighbour, while peer access is enabled.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::context::capture;
use crate::context::event::RawEvent;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::Allocate;
use crate::resource::pool::default::DefaultMemory;
use cuda_um_cost::PeerLink;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// Smaller copies are not looked at: no relay pays.
const LEAST: usize = 4 << 20;
/// Bytes of a neighbour's memory through which its part passes.
const PIECE: usize = 32 << 20;
/// A part begins on such a border.
const UNIT: usize = 64 << 10;
/// The most neighbours, because the links of all share the memory of the host.
const MOST: usize = 3;

/// The neighbours that carry parts of a copy.
pub(super) struct Relays {
    relays: SmallVec<[Relay; MOST]>,
    /// Bytes of the first part, which takes the link of the device itself.
    direct: usize,
}

struct Relay {
    stream: Arc<StreamInner>,
    through: Allocation,
    bytes: Range<usize>,
}

impl Relays {
    /// Finds the neighbours for a copy on a stream, by the cost model of the stream's device. None if it is not faster.
    pub(super) fn of(
        stream: &Stream,
        source: &Allocation,
        target: &Allocation,
        bytes: usize,
    ) -> Result<Self> {
        let mut found = Self {
            relays: SmallVec::new(),
            direct: bytes,
        };
        if bytes < LEAST {
            return Ok(found);
        }
        let on_device = match (source.kind(), target.kind()) {
            (MemoryKind::Pinned, MemoryKind::Device) => target,
            (MemoryKind::Device, MemoryKind::Pinned) => source,
            _ => return Ok(found),
        };
        let device = stream.inner().device();
        let is_here = on_device.device().ordinal() == device.ordinal;
        if !is_here
            || !on_device.is_open_to_peers()
            || device.is_gated
            || capture::is_of_this_thread()
        {
            return Ok(found);
        }
        let linked = device.driver.peers.linked_to(device.ordinal).into_iter();
        let neighbours = linked.filter(|(_, link)| *link == PeerLink::NvLink);
        let neighbours: SmallVec<[u32; MOST]> =
            neighbours.map(|(peer, _)| peer).take(MOST).collect();
        let count = neighbours.len() as u32;
        let cost = device.cost_model();
        let share = cost.relayed_bytes(PeerLink::NvLink, count, bytes as u64) as usize;
        let share = share / UNIT * UNIT;
        if share == 0 {
            return Ok(found);
        }
        for neighbour in neighbours {
            let bytes = found.direct - share..found.direct;
            match Relay::of(stream, neighbour, bytes) {
                // It has no memory, or is lost: its part takes the device's own link.
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) if error.is_sticky() => {}
                relay => {
                    found.relays.push(relay?);
                    found.direct -= share;
                }
            }
        }
        Ok(found)
    }

    /// The memory of the neighbours, which the copy uses.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let memory = self.relays.iter().map(|relay| &relay.through);
        memory.map(|raw| raw.part_of(0..raw.bytes(), Access::Write))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.relays.is_empty()
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
        let begin = RawEvent::create(stream.device(), false)?.record(stream)?;
        copy(stream, to, from, self.direct)?;
        for relay in &self.relays {
            let (start, len) = (relay.bytes.start, relay.bytes.len());
            let (to, from) = (to.wrapping_add(start), from.wrapping_add(start));
            let relayed = || {
                relay.stream.enqueue_wait(&begin)?;
                let joins = Joins(&relay.stream);
                let through = relay.through.pointer().as_ptr();
                for at in (0..len).step_by(PIECE) {
                    let bytes = PIECE.min(len - at);
                    copy(&relay.stream, through, from.wrapping_add(at), bytes)?;
                    copy(&relay.stream, to.wrapping_add(at), through, bytes)?;
                }
                joins.join(stream)
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

impl Relay {
    fn of(stream: &Stream, neighbour: u32, bytes: Range<usize>) -> Result<Self> {
        let neighbour = stream.runtime().device(neighbour)?;
        let memory = DefaultMemory::new(&neighbour, MemoryKind::Device);
        let mut through = memory.allocate(bytes.len().min(PIECE))?;
        through.set_label(Label::of::<u8>("a relayed copy", Location::caller()));
        let stream = stream.runtime().relay_stream(neighbour.state())?;
        Ok(Self {
            stream,
            through,
            bytes,
        })
    }
}

/// A stream with parts of the copy, which the stream of the caller does not wait for yet. A drop waits for the parts.
struct Joins<'a>(&'a StreamInner);

impl Joins<'_> {
    fn join(self, stream: &StreamInner) -> Result<()> {
        let end = RawEvent::create(self.0.device(), false)?.record(self.0)?;
        stream.enqueue_wait(&end)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Joins<'_> {
    fn drop(&mut self) {
        // The error that led here is returned. Until the parts are over, they use the buffers.
        let _ = self.0.finish();
    }
}
