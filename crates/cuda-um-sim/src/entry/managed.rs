//! Prefetch, discard, advice and range attributes.

use std::sync::Arc;

use cuda_um_sys::cudaMemLocation;

use super::guard::{Outcome, entry_points, with_stream};
use super::pointer::{Array, Out};
use crate::engine::{AdviceChange, Attribute, AttributeValue, Batch, Code, Core, Place, State};

/// `cudaCpuDeviceId`.
const CPU: i32 = -1;
/// `cudaInvalidDeviceId`.
const INVALID: i32 = -2;

/// The place with this number in the old interface.
fn old_place(state: &State, device: i32) -> Result<Place, Code> {
    if device == CPU {
        Ok(Place::Host)
    } else {
        Ok(Place::Device(state.devices.ordinal(device)?))
    }
}

/// The place of a location; `no_such_device` is the error if the device does not exist.
fn place(
    core: &Core,
    state: &State,
    location: cudaMemLocation,
    no_such_device: Code,
) -> Result<Place, Code> {
    match (location.type_.0, location.id) {
        (1, device) => state
            .devices
            .ordinal(device)
            .map(Place::Device)
            .map_err(|_| no_such_device),
        (2, _) => Ok(Place::Host),
        // The simulated host has one NUMA node.
        (3, 0) => Ok(Place::HostNuma(0)),
        (4, _) if core.machine.cuda.number() >= 12_020 => Ok(Place::HostNuma(0)),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// The change of a `cudaMemoryAdvise`.
fn change(advice: u32, place: impl FnOnce() -> Result<Place, Code>) -> Result<AdviceChange, Code> {
    Ok(match advice {
        1 => AdviceChange::ReadMostly(true),
        2 => AdviceChange::ReadMostly(false),
        3 => AdviceChange::Preferred(Some(place()?)),
        4 => AdviceChange::Preferred(None),
        5 => AdviceChange::AccessedBy(place()?, true),
        6 => AdviceChange::AccessedBy(place()?, false),
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn advise(
    core: &Arc<Core>,
    pointer: usize,
    bytes: usize,
    advice: u32,
    location: cudaMemLocation,
) -> Outcome {
    core.call_unsafe()?;
    let mut state = core.state.lock();
    let change = change(advice, || {
        match place(core, &state, location, Code::INVALID_VALUE)? {
            // For accessed-by the host has no NUMA nodes.
            Place::HostNuma(_) if matches!(advice, 5 | 6) => Err(Code::INVALID_VALUE),
            place => Ok(place),
        }
    })?;
    state.advise(pointer, bytes, change)
}

fn prefetch(
    core: &Arc<Core>,
    pointer: usize,
    bytes: usize,
    location: cudaMemLocation,
    flags: u32,
    stream: usize,
) -> Outcome {
    with_stream(core, stream, |state, stream| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let to = place(core, state, location, Code::INVALID_DEVICE)?;
        state.prefetch(core, stream, pointer, bytes, to)
    })
}

struct Locations<'c> {
    places: &'c Array<cudaMemLocation>,
    indices: &'c Array<usize>,
    count: usize,
}

struct Ranges<'c> {
    pointers: &'c Array<usize>,
    sizes: &'c Array<usize>,
    count: usize,
}

/// Discards, prefetches, or both, many ranges at once.
fn batch(
    core: &Arc<Core>,
    ranges: &Ranges<'_>,
    discard: bool,
    locations: Option<Locations<'_>>,
    flags: u64,
    stream: usize,
) -> Outcome {
    let count = ranges.count;
    if !core.machine.batch_calls() {
        return Err(Code::NOT_SUPPORTED);
    }
    // 0 and 1 are the legacy default stream.
    if flags != 0 || count == 0 || stream <= 1 {
        return Err(Code::INVALID_VALUE);
    }
    let (pointers, sizes) = (ranges.pointers.to_vec(count)?, ranges.sizes.to_vec(count)?);
    with_stream(core, stream, |state, stream| {
        let mut targets = vec![None; count];
        if let Some(locations) = locations {
            let (places, indices) = (
                locations.places.to_vec(locations.count)?,
                locations.indices.to_vec(locations.count)?,
            );
            // Each location applies from its index on; the first index is 0, and each is greater than the one before.
            if indices.first() != Some(&0)
                || !indices.is_sorted_by(|a, b| a < b)
                || indices.iter().any(|index| *index >= count)
            {
                return Err(Code::INVALID_VALUE);
            }
            for (location, from) in places.into_iter().zip(indices) {
                let to = place(core, state, location, Code::INVALID_DEVICE)?;
                targets[from..].fill(Some(to));
            }
        }
        let mut ranges = Vec::with_capacity(count);
        for ((pointer, bytes), to) in pointers.into_iter().zip(sizes).zip(targets) {
            let (base, pages) = state.memory.prefetchable(pointer, bytes)?;
            ranges.push((base, pages, Batch { discard, to }));
        }
        state.enqueue_batch(core, stream, ranges);
        Ok(())
    })
}

/// Writes one attribute: numbers of 4 bytes.
fn attribute(
    core: &Arc<Core>,
    data: Out<i32>,
    data_bytes: usize,
    attribute: i32,
    pointer: usize,
    bytes: usize,
) -> Outcome {
    let which = match attribute {
        1 => Attribute::ReadMostly,
        2 | 5 | 6 => Attribute::Preferred,
        3 => Attribute::AccessedBy,
        4 | 7 | 8 => Attribute::LastPrefetch,
        _ => return Err(Code::INVALID_VALUE),
    };
    let as_location = attribute >= 5;
    if as_location && core.machine.cuda.number() < 12_020 {
        return Err(Code::INVALID_VALUE);
    }
    let fits = if which == Attribute::AccessedBy {
        data_bytes > 0 && data_bytes.is_multiple_of(4)
    } else {
        data_bytes == 4
    };
    if !fits {
        return Err(Code::INVALID_VALUE);
    }
    match core.state.lock().range_attribute(pointer, bytes, which)? {
        AttributeValue::Flag(flag) => data.put(i32::from(flag)),
        AttributeValue::Place(place) if as_location => {
            let (kind, id) = location_numbers(place);
            let kind = kind as i32;
            data.put(if matches!(attribute, 5 | 7) { kind } else { id })
        }
        AttributeValue::Place(place) => data.put(AttributeValue::number(place)),
        AttributeValue::Processors(processors) => {
            let numbers = AttributeValue::numbers(processors);
            let padded = numbers.into_iter().chain(std::iter::repeat(INVALID));
            padded
                .take(data_bytes / 4)
                .enumerate()
                .try_for_each(|(index, number)| data.put_at(index, number))
        }
    }
}

/// The type and the id of a `cudaMemLocation`; type 0 means no place.
fn location_numbers(place: Option<Place>) -> (u32, i32) {
    match place {
        None => (0, 0),
        Some(Place::Device(ordinal)) => (1, ordinal as i32),
        Some(Place::Host) => (2, 0),
        Some(Place::HostNuma(node)) => (3, node),
    }
}

entry_points! { Runtime;
    fn cudaMemPrefetchAsync(core, pointer: usize, bytes: usize, device: i32, stream: usize) = cuMemPrefetchAsync {
        with_stream(core, stream, |state, stream| {
            let to = old_place(state, device)?;
            state.prefetch(core, stream, pointer, bytes, to)
        })
    }

    fn cudaMemPrefetchAsync_v2(core, pointer: usize, bytes: usize, location: cudaMemLocation, flags: u32, stream: usize) = cuMemPrefetchAsync_v2 {
        prefetch(core, pointer, bytes, location, flags, stream)
    }

    fn cudaMemPrefetchAsync_13(core, pointer: usize, bytes: usize, location: cudaMemLocation, flags: u32, stream: usize) as "cudaMemPrefetchAsync" {
        prefetch(core, pointer, bytes, location, flags, stream)
    }

    fn cudaMemAdvise(core, pointer: usize, bytes: usize, advice: u32, device: i32) = cuMemAdvise {
        core.call_unsafe()?;
        let mut state = core.state.lock();
        let change = change(advice, || old_place(&state, device).map_err(|_| Code::INVALID_DEVICE))?;
        state.advise(pointer, bytes, change)
    }

    fn cudaMemAdvise_v2(core, pointer: usize, bytes: usize, advice: u32, location: cudaMemLocation) = cuMemAdvise_v2 {
        advise(core, pointer, bytes, advice, location)
    }

    fn cudaMemAdvise_13(core, pointer: usize, bytes: usize, advice: u32, location: cudaMemLocation) as "cudaMemAdvise" {
        advise(core, pointer, bytes, advice, location)
    }

    fn cudaMemPrefetchBatchAsync(
        core, pointers: Array<usize>, sizes: Array<usize>, count: usize,
        places: Array<cudaMemLocation>, indices: Array<usize>, place_count: usize, flags: u64, stream: usize,
    ) = cuMemPrefetchBatchAsync {
        let locations = Locations { places: &places, indices: &indices, count: place_count };
        batch(core, &Ranges { pointers: &pointers, sizes: &sizes, count }, false, Some(locations), flags, stream)
    }

    fn cudaMemDiscardBatchAsync(core, pointers: Array<usize>, sizes: Array<usize>, count: usize, flags: u64, stream: usize) = cuMemDiscardBatchAsync {
        batch(core, &Ranges { pointers: &pointers, sizes: &sizes, count }, true, None, flags, stream)
    }

    fn cudaMemDiscardAndPrefetchBatchAsync(
        core, pointers: Array<usize>, sizes: Array<usize>, count: usize,
        places: Array<cudaMemLocation>, indices: Array<usize>, place_count: usize, flags: u64, stream: usize,
    ) = cuMemDiscardAndPrefetchBatchAsync {
        let locations = Locations { places: &places, indices: &indices, count: place_count };
        batch(core, &Ranges { pointers: &pointers, sizes: &sizes, count }, true, Some(locations), flags, stream)
    }

    fn cudaMemGetLocationInfo(
        core, pointer: usize, bytes: usize, summary: usize, sampling: usize, locations: Out<cudaMemLocation>,
    ) {
        if summary == 0 || summary > bytes || sampling > summary {
            return Err(Code::INVALID_VALUE);
        }
        let state = core.state.lock();
        for (index, start) in (0..bytes).step_by(summary).enumerate() {
            let at = state.location(pointer + start, summary.min(bytes - start))?;
            let (type_, id) = location_numbers(at);
            let type_ = cuda_um_sys::cudaMemLocationType(type_);
            locations.put_at(index, cudaMemLocation { type_, id })?;
        }
        Ok(())
    }

    fn cudaMemRangeGetAttribute(core, data: Out<i32>, data_bytes: usize, which: i32, pointer: usize, bytes: usize) = cuMemRangeGetAttribute {
        attribute(core, data, data_bytes, which, pointer, bytes)
    }

    fn cudaMemRangeGetAttributes(
        core, data: Array<Out<i32>>, data_bytes: Array<usize>, attributes: Array<i32>, count: usize, pointer: usize, bytes: usize,
    ) = cuMemRangeGetAttributes {
        if count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (data, data_bytes, attributes) = (data.to_vec(count)?, data_bytes.to_vec(count)?, attributes.to_vec(count)?);
        for ((data, data_bytes), which) in data.into_iter().zip(data_bytes).zip(attributes) {
            attribute(core, data, data_bytes, which, pointer, bytes)?;
        }
        Ok(())
    }
}
