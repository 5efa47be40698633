//! Prefetches of one buffer, and of many to one location, with few driver calls.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

#[cfg(all(test, not(cuda_um_loom)))]
mod properties;

use crate::buffer::array::ReadArg;
use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::View;
use crate::context::device::Device;
use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::managed::hint::HintOutcome;
use crate::process_end::Calls;
use crate::resource::allocation::Allocation;
use crate::resource::pool::advised::pages;
use smallvec::SmallVec;
use std::fmt::Display;
use std::ops::Range;

/// Buffers of any kinds and element types, or ranges of them, that are prefetched together: a driver call takes longer than most small migrations.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Location, UnifiedBuffer, managed::PrefetchBatch};
///
/// let stream = device.create_stream()?;
/// let weights = UnifiedBuffer::from_slice(&device, &vec![0.5f32; 1 << 20])?;
/// let bias = UnifiedBuffer::from_slice(&device, &vec![1u64; 256 << 10])?;
/// let mut batch = PrefetchBatch::new();
/// batch.add(&weights).add(&bias);
/// assert_eq!(batch.prefetch_on(Location::Host, &stream)?.calls, 1);
/// assert_eq!(batch.prefetch_on(Location::Host, &stream)?.calls, 0, "they are there");
/// assert_eq!(batch.forget_places().prefetch_on(Location::Host, &stream)?.calls, 1);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Default)]
pub struct PrefetchBatch<'a> {
    parts: Vec<Part<'a>>,
    skipped: Vec<(usize, Error)>,
    added: usize,
}

/// The outcome of a prefetch of many buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefetched {
    /// The number of calls of the driver; 0 if all buffers were already there.
    pub calls: usize,
    /// The outcome for all buffers that the batch does not [skip](PrefetchBatch::skipped).
    pub outcome: HintOutcome,
}

impl<'a> PrefetchBatch<'a> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what a kernel can read: a buffer or a view. Other memory than that which migrates is [skipped](Self::skipped).
    pub fn add<T: 'static>(&mut self, buffer: impl ReadArg<T> + 'a) -> &mut Self {
        let added = buffer.into_view().and_then(|view| {
            check_migrates(view)?;
            self.push_part(view.raw, view.bytes());
            Ok(())
        });
        if let Err(error) = added {
            self.skipped.push((self.added, error));
        }
        self.added += 1;
        self
    }

    /// The index of each buffer that was added and is not prefetched, and the reason.
    pub fn skipped(&self) -> &[(usize, Error)] {
        &self.skipped
    }

    /// Adds memory that an [observer](crate::observe) is told of.
    pub fn add_part(&mut self, part: &Part<'a>) -> &mut Self {
        if let Some(raw) = part.memory.as_any().downcast_ref() {
            self.push_part(raw, part.range());
        }
        self.added += 1;
        self
    }

    /// Forgets where the memory that was added is known to be: other libraries, whose work is not known, may have moved it.
    pub fn forget_places(&mut self) -> &mut Self {
        memory(&self.parts).for_each(|(raw, _)| raw.pages.lost());
        self
    }

    pub(crate) fn push_part(&mut self, raw: &'a Allocation, bytes: Range<usize>) {
        if !bytes.is_empty() && raw.migrates() {
            self.parts.push(raw.part_of(bytes, Access::Move));
        }
    }

    /// Prefetches all ranges to a location, on a stream
    /// ([`cudaMemPrefetchAsync`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)). The batch can be used again.
    ///
    /// Ranges of one allocation are joined if they touch or overlap in pages of the host, as buffers of a [`Pool`](crate::Pool) often do; CUDA 13.0
    /// and newer prefetch what remains in one call. Buffers that are known to be at the location are left out.
    ///
    /// # Ordering
    ///
    /// For each buffer as for [`UnifiedBuffer::prefetch_on`].
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::prefetch_on`], and its outcomes. If a CUDA function fails, some ranges may be enqueued nevertheless.
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<Prefetched> {
        let ours = |part: &Part<'_>| stream.runtime().is_same(part.device().runtime());
        let stranger = match self.parts.iter().any(ours) {
            true => "a buffer of the batch",
            false => "the stream",
        };
        let enqueued = prefetch(&self.parts, location.into(), stream, stranger);
        Ok(Prefetched {
            calls: *enqueued.as_ref().unwrap_or(&0),
            outcome: HintOutcome::of(enqueued.map(drop))?,
        })
    }
}

pub(super) fn migrate<T>(view: View<'_, T>, location: Location, stream: &Stream) -> Result<()> {
    let raw = view.raw;
    // A loop repeats this case. `prefetch` does the same, but makes an operation first.
    if stream.leaves_out(raw.home, location, || raw.pages.is_at(location))? {
        return Ok(());
    }
    if view.bytes().is_empty() || !raw.migrates() {
        stream.check_runtime(raw.device(), "the stream")?;
        raw.device().runtime().check_location(location)?;
        return check_migrates(view);
    }
    prefetch(&[view.part(Access::Move)], location, stream, "the stream").map(drop)
}

fn check_migrates<T>(view: View<'_, T>) -> Result<()> {
    if view.raw.migrates() || view.raw.bytes() == 0 {
        return Ok(());
    }
    Err(not_managed(view, "a prefetch of"))
}

pub(super) fn not_managed<T>(view: View<'_, T>, call: impl Display) -> Error {
    Error::NotSupported {
        what: format!("{call} {}", view.raw.title()),
        needs: "managed memory".to_owned(),
        have: view.kind_in_words(),
    }
}

fn check_places(device: &Device, location: Location, stream: &Stream) -> Result<()> {
    device
        .runtime()
        .check_migration_to(location, "a prefetch")?;
    for device in [device.state(), stream.inner().device()] {
        let ordinal = device.ordinal;
        let what = || format!("a prefetch to {location} on a stream of device {ordinal}");
        device.check_concurrent_access(what)?;
    }
    Ok(())
}

/// Prefetches parts of memory that migrates, as one operation. Returns the number of calls of the driver.
///
/// `stranger` is what belongs to another runtime, if a part and the stream do not belong to one.
fn prefetch(
    parts: &[Part<'_>],
    location: Location,
    stream: &Stream,
    stranger: &'static str,
) -> Result<usize> {
    let Some(first) = parts.first() else {
        stream.runtime().check_location(location)?;
        return Ok(0);
    };
    for part in parts {
        stream.check_runtime(part.device(), stranger)?;
    }
    let op = Op::new(What::Prefetch { to: location }, first.device(), parts);
    let calls = Calls::of("prefetch")?;
    let place = stream.admit(&op)?;
    stream.inner().look_for_evictions();
    if place.is_none() && memory(parts).all(|(raw, _)| raw.is_known_at(location)) {
        drop(calls);
        op.elided(stream);
        return Ok(0);
    }
    let of_one_device = parts.chunk_by(|a, b| a.device().ordinal() == b.device().ordinal());
    of_one_device
        .map(|parts| parts[0].device())
        .try_for_each(|device| check_places(device, location, stream))?;
    if let Some(place) = place {
        place.prefetch(parts, location);
        return Ok(0);
    }
    let missing = memory(parts).filter(|(raw, _)| !raw.is_known_at(location));
    let moved: SmallVec<[_; 4]> = missing
        .map(|(raw, part)| (raw, &part.bytes, raw.pages.before()))
        .collect();
    let ranges = moved.iter();
    let ranges = ranges.map(|(raw, bytes, _)| (allocation(raw), raw.address_range(bytes)));
    let (ranges, inner) = (joined(ranges.collect()), stream.inner());
    let (api, ordinal) = (inner.api(), inner.ordinal());
    // The driver accepts batches only if every device has concurrent managed access.
    let one_call = ranges.len() > 1 && !inner.device().is_gated && api.has_prefetch_batch();
    let enqueued = stream.enqueue(calls, &op, |on| {
        if one_call {
            // SAFETY: as below, for each range.
            return unsafe { api.prefetch_batch(ordinal, &ranges, location, on.raw) };
        }
        ranges.iter().try_for_each(|range| {
            // SAFETY: the ranges were checked. A joined range begins in one buffer and ends in another of the same slab, which is one
            // managed allocation; only the rest of a page is between them. Every buffer tracks this use, so the memory lives until it
            // is complete.
            unsafe { api.prefetch(ordinal, range.clone(), location, on.raw) }
        })
    });
    for (raw, bytes, before) in moved {
        // After a failure a part may be enqueued.
        match enqueued.is_ok() {
            true => raw.moved(bytes, location, (inner, before)),
            false => raw.pages.lost(),
        }
    }
    enqueued?;
    Ok(if one_call { 1 } else { ranges.len() })
}

fn memory<'p>(parts: &'p [Part<'_>]) -> impl Iterator<Item = (&'p Allocation, &'p Part<'p>)> {
    let raw = |part: &'p Part<'_>| part.memory.as_any().downcast_ref();
    parts
        .iter()
        .filter_map(move |part| Some((raw(part)?, part)))
}

fn allocation(raw: &Allocation) -> u64 {
    raw.address.slab.map_or(raw.id(), |slab| slab.buffer)
}

/// Returns the ranges of these allocations in the order of their addresses. Those that share or touch pages of one allocation are joined.
fn joined(mut ranges: SmallVec<[(u64, Range<*mut u8>); 1]>) -> SmallVec<[Range<*mut u8>; 1]> {
    ranges.sort_unstable_by_key(|(_, range)| range.start.addr());
    let in_pages = |range: &Range<*mut u8>| pages(&(range.start.addr()..range.end.addr()));
    ranges.dedup_by(|(of, range), (before, last)| {
        let is_joined = of == before && in_pages(range).start <= in_pages(last).end;
        if is_joined {
            last.end = last.end.max(range.end);
        }
        is_joined
    });
    ranges.into_iter().map(|(_, range)| range).collect()
}

impl<'a, T: 'static> FromIterator<&'a UnifiedBuffer<T>> for PrefetchBatch<'a> {
    fn from_iter<I: IntoIterator<Item = &'a UnifiedBuffer<T>>>(buffers: I) -> Self {
        let mut batch = Self::new();
        for buffer in buffers {
            batch.add(buffer);
        }
        batch
    }
}

debug!([] PrefetchBatch<'_>, "PrefetchBatch", |it| ranges: it.parts.len());
