//! The memory of a graph is where the graph uses it: advice and prefetches before a launch, which CUDA cannot capture.

use crate::buffer::view::View;
use crate::context::capture::SlotUse;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::driver::location::Location;
use crate::error::Result;
use crate::graph::contents::Contents;
use crate::managed::batch::PrefetchBatch;
use crate::resource::allocation::Allocation;
use smallvec::SmallVec;
use std::ops::Range;

fn memory<'p>(
    contents: &'p Contents,
    parts: &'p [Part<'p>],
) -> impl Iterator<Item = (usize, &'p SlotUse, &'p Allocation)> {
    let slots = contents.slots.iter().enumerate();
    let used = slots.filter(|(_, slot)| !slot.bytes.is_empty());
    let pairs = used.zip(parts);
    pairs.filter_map(|((at, slot), part)| Some((at, slot, part.memory.as_any().downcast_ref()?)))
}

pub(super) fn advise(contents: &Contents, parts: &[Part<'_>]) -> Result<()> {
    memory(contents, parts).try_for_each(|(_, slot, raw)| {
        slot.advice.iter().try_for_each(|(advice, bytes)| {
            let part = View::<u8>::whole(raw).slice(bytes.clone())?;
            part.advise(*advice).map(drop)
        })
    })
}

/// Prefetches what may have left its place, in one batch for each place.
pub(super) fn bring_in(
    contents: &Contents,
    departures: &mut [u64],
    parts: &[Part<'_>],
    stream: &Stream,
) -> Result<()> {
    let device = stream.inner().device();
    if !device.capabilities.concurrent_managed_access {
        return Ok(());
    }
    let own = Location::Device(device.ordinal);
    let mut batches = SmallVec::<[(Location, PrefetchBatch<'_>); 1]>::new();
    for (at, slot, raw) in memory(contents, parts) {
        let left = leaves(slot, &mut departures[at], raw, own);
        let Some((location, bytes)) = left else {
            continue;
        };
        match batches.iter_mut().find(|(to, _)| *to == location) {
            Some((_, batch)) => batch.push_part(raw, bytes),
            None => {
                let mut batch = PrefetchBatch::new();
                batch.push_part(raw, bytes);
                batches.push((location, batch));
            }
        }
    }
    batches
        .iter()
        .try_for_each(|(location, batch)| batch.prefetch_on(*location, stream)?.outcome.require())
}

/// The bytes to prefetch, and to which place; `None` if they are there as far as the library knows.
fn leaves(
    slot: &SlotUse,
    departures: &mut u64,
    raw: &Allocation,
    own: Location,
) -> Option<(Location, Range<usize>)> {
    if !raw.migrates() {
        return None;
    }
    let recorded = slot.prefetch.clone();
    let is_recorded = recorded.is_some();
    let (location, bytes) = recorded.unwrap_or_else(|| (own, slot.bytes.clone()));
    // The place of blocks that the buffer shares with others is not known. But it is if the buffer as a whole may have left, and the pool knows if
    // a neighbour has.
    let is_whole = bytes.len() == raw.bytes() && location == Location::from(raw.device());
    let stays = match is_whole {
        true => {
            let before = std::mem::replace(departures, raw.departures());
            !raw.may_be_away() && before == *departures
        }
        false => raw.is_known_at(location),
    };
    let is_left = stays || !is_recorded && raw.pages.is_left_to_program();
    (!is_left).then_some((location, bytes))
}
