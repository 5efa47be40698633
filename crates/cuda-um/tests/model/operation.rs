//! The operations of a sequence. An operation is valid with any numbers: a slot is taken modulo the live buffers, a stream
//! modulo the streams, and a part is a share of the length. So every part of a sequence is also a sequence, and the output of
//! `Debug` can be pasted as code.

use cuda_um::{AccessPattern, Location, MemoryKind};
use proptest::prelude::*;
use proptest::sample::select;
use std::ops::Range;

/// A share of a buffer: its start as a share of the whole, and its length as a share of the rest; both as fractions of
/// `Part::WHOLE`.
#[derive(Clone, Copy, Debug)]
pub struct Part(pub u16, pub u16);

impl Part {
    const WHOLE: usize = u16::MAX as usize;

    pub fn of(self, len: usize) -> Range<usize> {
        let start = usize::from(self.0) * len / Self::WHOLE;
        let count = usize::from(self.1) * (len - start) / Self::WHOLE;
        start..start + count
    }
}

/// The whole buffer.
pub const ALL: Part = Part(0, u16::MAX);

/// The kind of memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Managed,
    Mapped,
    /// Of an access pattern that is stated for it.
    For(AccessPattern),
    UnifiedPool,
    Device,
    DevicePool,
    Pinned,
    PinnedPool,
}

impl Kind {
    pub fn memory(self) -> MemoryKind {
        match self {
            Self::Device | Self::DevicePool => MemoryKind::Device,
            Self::Pinned | Self::PinnedPool => MemoryKind::Pinned,
            _ => MemoryKind::Managed,
        }
    }

    pub fn has_pattern(self) -> bool {
        matches!(self, Self::For(_))
    }
}

/// The initial contents of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Zeroed,
    /// `from_slice` of the numbers of a seed.
    From(u32),
    /// `uninit`, and a kernel on one of the device's streams writes the numbers of a seed. For pinned memory the same as
    /// `From`.
    Stored(u32, u8),
}

impl Start {
    pub fn seed(self) -> Option<u32> {
        match self {
            Self::Zeroed => None,
            Self::From(seed) | Self::Stored(seed, _) => Some(seed),
        }
    }
}

/// The way in which the host reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// `host`; `copy_to_host_at` of device memory.
    ReadGuard,
    /// `try_host`; not for device memory.
    TryRead,
    /// `host_async`; `copy_to_host_async` of device memory.
    ReadAsync,
    /// `copy_to_host_at`.
    CopyOut,
    /// `to_vec`, of the whole buffer.
    ReadBack,
}

/// The way in which the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// `host_mut`; `copy_from_host_at` of device memory.
    WriteGuard,
    /// `try_host_mut`; not for device memory.
    TryWrite,
    /// `host_mut_async`; `copy_from_host_at` of device memory.
    WriteAsync,
    /// `copy_from_host_at`.
    CopyIn,
    /// `copy_from_host_async`, of the whole buffer.
    CopyInAsync,
    /// `host_overwrite`.
    Overwrite,
}

/// Advice, without its location.
#[derive(Clone, Copy, Debug)]
pub enum Advising {
    ReadMostly(bool),
    Preferred(bool),
    AccessedBy(bool),
}

/// By `View::prefetch_on`, or a `PrefetchBatch`. A look comes after a prefetch of whole buffers when all devices are idle: `residency` must return
/// the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetching {
    Each,
    Batch,
    EachAndLook,
    BatchAndLook,
}

/// 0 is the host, the others are devices.
#[derive(Clone, Copy, Debug)]
pub struct At(pub u8);

impl At {
    pub fn location(self, devices: usize) -> Location {
        match usize::from(self.0) {
            0 => Location::Host,
            other => Location::Device(((other - 1) % devices) as u32),
        }
    }
}

/// One step.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A new buffer on a device, of this length.
    Allocate(Kind, u8, usize, Start),
    /// The host writes the numbers of a seed to a part of a slot.
    Write(u8, Part, u32, Writing),
    /// The host reads a part of a slot, and compares.
    Read(u8, Part, Reading),
    /// Work is enqueued on a stream.
    Enqueue(u8, Work),
    /// `View::advise` for a part of a slot.
    Advise(u8, Part, Advising, At),
    /// A prefetch of this part of each buffer whose bit is set, on a stream.
    Prefetch(u8, Part, At, u8, Prefetching),
    /// A slot is dropped, in use or not.
    Drop(u8),
    /// Closed.
    Close(u8),
    /// All pools are trimmed.
    Trim,
    /// `Runtime::reclaim`.
    Reclaim,
    /// An event of the first stream, for which the second one waits.
    Order(u8, u8),
    /// A new stream replaces one that may have work.
    NewStream(u8),
    /// `Stream::synchronize`.
    Synchronize(u8),
    /// New options for staged copies of a device: threads, and pages of the ring.
    Staging(u8, u8, u8),
    /// Work that is captured over the streams of a stream's device, and launched so many times with all slots.
    Graph(u8, Vec<Work>, u8),
    /// On a simulator: all streams are held until a call waits for one; then they continue one by one, in this order.
    Hold(u8),
}

/// Work of a stream.
#[derive(Clone, Debug)]
pub enum Work {
    /// `fill_on` of a slot.
    Fill(u8, u32),
    /// A kernel changes each element of a part separately, by a number.
    Step(u8, Part, u32),
    /// A kernel reads three slots and writes two of them: a part of the first, and the same length of the others if they have it.
    Mix([u8; 3], Part, u32),
    /// `copy_range` of a part of a slot to an offset of another one, with the length that fits.
    Copy(u8, Part, u8, u16),
    /// `copy_within_on` of a part to an offset, with the length that fits.
    CopyWithin(u8, Part, u16),
}

fn work(within: u32) -> impl Strategy<Value = Work> {
    let slot = || 0..8_u8;
    prop_oneof![
        4 => (slot(), any::<u32>()).prop_map(|(slot, value)| Work::Fill(slot, value)),
        7 => (slot(), part(), 1..2000_u32)
            .prop_map(|(slot, part, number)| Work::Step(slot, part, number)),
        6 => ([slot(), slot(), slot()], part(), 1..2000_u32)
            .prop_map(|(slots, part, number)| Work::Mix(slots, part, number)),
        7 => (slot(), part(), slot(), any::<u16>())
            .prop_map(|(from, part, to, offset)| Work::Copy(from, part, to, offset)),
        within => (slot(), part(), any::<u16>())
            .prop_map(|(slot, part, offset)| Work::CopyWithin(slot, part, offset)),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        2 => Just(ALL),
        3 => (any::<u16>(), any::<u16>()).prop_map(|(start, count)| Part(start, count)),
    ]
}

/// Mostly small lengths; some lengths repeat often, so that pools reuse blocks.
fn len() -> impl Strategy<Value = usize> {
    prop_oneof![
        48 => select(vec![1, 64, 1000, 1024, 5000]),
        32 => 1..=2000_usize,
        8 => 2001..=40_000_usize,
        1 => 40_001..=300_000_usize,
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    use AccessPattern::*;
    use Kind::*;
    let patterns = vec![General, ReadMostly, DeviceResident, ReadBack, StreamOnce];
    prop_oneof![
        3 => Just(Managed),
        5 => Just(UnifiedPool),
        2 => Just(Device),
        4 => Just(DevicePool),
        2 => Just(Pinned),
        3 => Just(PinnedPool),
        1 => Just(Mapped),
        1 => select(patterns).prop_map(For),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        1 => Just(Start::Zeroed),
        1 => any::<u32>().prop_map(Start::From),
        2 => (any::<u32>(), 0..4_u8).prop_map(|(seed, stream)| Start::Stored(seed, stream)),
    ]
}

fn allocate() -> impl Strategy<Value = Operation> {
    (kind(), 0..4_u8, len(), start())
        .prop_map(|(kind, device, len, start)| Operation::Allocate(kind, device, len, start))
}

fn advising() -> impl Strategy<Value = Advising> {
    prop_oneof![
        any::<bool>().prop_map(Advising::ReadMostly),
        any::<bool>().prop_map(Advising::Preferred),
        any::<bool>().prop_map(Advising::AccessedBy),
    ]
}

fn prefetching() -> impl Strategy<Value = Prefetching> {
    use Prefetching::*;
    select(vec![
        Each,
        Each,
        Each,
        Batch,
        Batch,
        EachAndLook,
        BatchAndLook,
    ])
}

fn reading() -> impl Strategy<Value = Reading> {
    use Reading::*;
    select(vec![ReadGuard, TryRead, ReadAsync, CopyOut, ReadBack])
}

fn writing() -> impl Strategy<Value = Writing> {
    use Writing::*;
    select(vec![
        WriteGuard,
        TryWrite,
        WriteAsync,
        CopyIn,
        CopyInAsync,
        Overwrite,
    ])
}

pub fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let slot = || 0..8_u8;
    let stream = || 0..12_u8;
    let at = || (0..5_u8).prop_map(At);
    prop_oneof![
        6 => (slot(), part(), reading()).prop_map(|(slot, part, how)| Read(slot, part, how)),
        6 => allocate(),
        5 => (slot(), part(), any::<u32>(), writing())
            .prop_map(|(slot, part, seed, how)| Write(slot, part, seed, how)),
        27 => (stream(), work(4)).prop_map(|(stream, work)| Enqueue(stream, work)),
        3 => (slot(), part(), advising(), at())
            .prop_map(|(slot, part, advice, at)| Advise(slot, part, advice, at)),
        8 => (any::<u8>(), part(), at(), stream(), prefetching())
            .prop_map(|(slots, part, at, stream, how)| Prefetch(slots, part, at, stream, how)),
        6 => slot().prop_map(Drop),
        1 => slot().prop_map(Close),
        2 => Just(Trim),
        1 => Just(Reclaim),
        1 => (stream(), stream()).prop_map(|(before, after)| Order(before, after)),
        1 => stream().prop_map(NewStream),
        1 => stream().prop_map(Synchronize),
        1 => (0..4_u8, 1..4_u8, 0..32_u8)
            .prop_map(|(device, threads, ring_pages)| Staging(device, threads, ring_pages)),
        4 => (stream(), proptest::collection::vec(work(0), 1..=6), 1..=3_u8)
            .prop_map(|(stream, work, launches)| Graph(stream, work, launches)),
        8 => any::<u8>().prop_map(Hold),
    ]
}

/// A sequence of 2 to 40 operations, which begins with some allocations.
pub fn sequence() -> impl Strategy<Value = Vec<Operation>> {
    let first = proptest::collection::vec(allocate(), 1..=4);
    let then = proptest::collection::vec(operation(), 1..=36);
    (first, then).prop_map(|(first, then)| first.into_iter().chain(then).collect())
}
