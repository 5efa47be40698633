//! Looks at accesses one by one: unwritten memory and races.
//!
//! Races: each warp of a block has a vector clock (Lamport; FastTrack, Flanagan and Freund, PLDI 2009). Barriers, instructions in which
//! lanes of a warp wait for each other, atomic operations and strong accesses order warps. Between blocks only atomic operations and
//! strong accesses do; they are ordered as they happened, so that what another order would reveal is not found, but nothing is
//! reported that is not a race.

#![expect(unsafe_code, reason = "the bits of written bytes are the caller's")]

use std::collections::HashMap;
use std::mem::take;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::At;
use super::exec::Stop;
use super::memory::{Kind, Located, lanes};
use crate::launch::FindingKind;
use crate::syntax::Space;

/// Who accessed a word last.
#[derive(Clone, Copy, Default)]
struct Access {
    /// The block's number plus 1; 0 if there was no access.
    block: u32,
    thread: u16,
    /// Which bytes of the word.
    bytes: u8,
    strong: bool,
    /// Of the thread's warp.
    epoch: u32,
    /// Of the launch's clock.
    stamp: u32,
}

/// The last write of a word, the last read, and the last read of another warp.
#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    reads: [Access; 2],
}

const PAGE: u64 = 4096;
const SHARDS: usize = 64;
/// Pages of cells of a launch: beyond, words are not watched.
const PAGES: u32 = 1 << 13;

type Pages = HashMap<u64, Box<[Cell; PAGE as usize / 4]>>;

/// What is known about device memory.
pub(crate) struct GlobalRaces {
    shards: Vec<Mutex<Pages>>,
    pages: AtomicU32,
    /// Counts operations that may order blocks.
    clock: AtomicU32,
    /// When each block did the last of them.
    ordered: Vec<AtomicU32>,
}

impl GlobalRaces {
    pub fn new(blocks: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pages: AtomicU32::new(0),
            clock: AtomicU32::new(1),
            ordered: (0..blocks.min(1 << 22))
                .map(|_| AtomicU32::new(0))
                .collect(),
        }
    }

    fn order(&self, block: u64) {
        if let Some(ordered) = self.ordered.get(block as usize) {
            ordered.store(
                self.clock.fetch_add(1, Ordering::SeqCst) + 1,
                Ordering::SeqCst,
            );
        }
    }

    /// Whether both blocks did something after `stamp` that may order them.
    fn may_be_ordered(&self, first: u64, second: u64, stamp: u32) -> bool {
        let after = |block: u64| {
            self.ordered
                .get(block as usize)
                .is_none_or(|ordered| ordered.load(Ordering::SeqCst) > stamp)
        };
        after(first) && after(second)
    }
}

/// What is known about the memory of a block, and the order of its warps.
pub(crate) struct SharedChecks {
    cells: Vec<Cell>,
    /// A bit for each byte that is written.
    written: Vec<u8>,
    /// The epoch of each warp, and up to which epoch it knows the others (a row for each warp).
    now: Vec<u32>,
    seen: Vec<u32>,
    /// What arrivals at each barrier bring.
    barriers: Vec<Vec<u32>>,
    /// The same for words that atomic operations and strong accesses use.
    words: HashMap<(bool, u64), Vec<u32>>,
}

fn join(into: &mut [u32], from: &[u32]) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

impl SharedChecks {
    pub fn new(bytes: usize, warps: u32, races: bool) -> Self {
        let warps = warps as usize;
        Self {
            cells: vec![Cell::default(); if races { bytes.div_ceil(4) } else { 0 }],
            written: vec![0; bytes.div_ceil(8)],
            now: vec![1; warps],
            seen: vec![0; warps * warps],
            barriers: vec![vec![0; warps]; 16],
            words: HashMap::new(),
        }
    }

    fn row(&mut self, warp: usize) -> &mut [u32] {
        let warps = self.now.len();
        &mut self.seen[warp * warps..][..warps]
    }

    /// The clock of a warp with what it did itself; it begins a new epoch.
    fn publish(&mut self, warp: usize) -> Vec<u32> {
        let mut clock = self.row(warp).to_vec();
        clock[warp] = self.now[warp];
        self.now[warp] += 1;
        clock
    }

    /// Lanes of a warp have waited for each other.
    pub fn synchronize(&mut self, warp: u32) {
        let clock = self.publish(warp as usize);
        join(self.row(warp as usize), &clock);
    }

    pub fn arrive(&mut self, id: u8, warp: u32) {
        let clock = self.publish(warp as usize);
        join(&mut self.barriers[usize::from(id)], &clock);
    }

    /// Barrier `id` is complete.
    pub fn barrier(&mut self, id: usize, warps: &[usize]) {
        let clock = std::mem::take(&mut self.barriers[id]);
        for &warp in warps {
            join(self.row(warp), &clock);
        }
        self.barriers[id] = vec![0; clock.len()];
    }

    /// An atomic operation or strong access: takes what others published there, and publishes.
    fn exchange(&mut self, warp: usize, shared: bool, address: u64, kind: Kind) {
        let key = (shared, address & !3);
        if kind != Kind::StrongStore
            && let Some(clock) = self.words.get(&key).cloned()
        {
            join(self.row(warp), &clock);
        }
        if kind != Kind::StrongLoad {
            let clock = self.publish(warp);
            let entry = self
                .words
                .entry(key)
                .or_insert_with(|| vec![0; clock.len()]);
            join(entry, &clock);
        }
    }

    fn knows(&self, warp: usize, access: &Access) -> bool {
        self.seen[warp * self.now.len() + usize::from(access.thread) / 32] >= access.epoch
    }
}

/// Looks at a cell and records the access: the earlier access that races with it.
fn update(
    cell: &mut Cell,
    access: Access,
    write: bool,
    ordered: impl Fn(&Access) -> bool,
) -> Option<(Access, bool)> {
    let races = |other: &Access| {
        let same = other.block == access.block && other.thread == access.thread;
        other.block != 0
            && !same
            && other.bytes & access.bytes != 0
            && !(other.strong && access.strong)
            && !ordered(other)
    };
    let mut found = races(&cell.write).then_some((cell.write, true));
    if write {
        found = found.or(cell
            .reads
            .iter()
            .find(|read| races(read))
            .map(|read| (*read, false)));
        cell.write = access;
    } else {
        if (cell.reads[0].block, cell.reads[0].thread / 32) != (access.block, access.thread / 32) {
            cell.reads[1] = cell.reads[0];
        }
        cell.reads[0] = access;
    }
    found
}

impl At<'_, '_> {
    #[inline(never)]
    pub fn observe(&mut self, located: &Located, size: u64, kind: Kind) -> Result<(), Stop> {
        let grid = self.worker.grid;
        if grid.launch.profile {
            self.profile(located, size);
        }
        let shared = located.space == Space::Shared;
        if !shared && !matches!(located.space, Space::Global | Space::Const)
            || self.common.checks.is_none()
        {
            return Ok(());
        }
        if self.worker.checks.unwritten {
            self.unwritten(located, size, kind)?;
        }
        let (warp, common, pc) = (&*self.warp, &mut *self.common, self.pc);
        let (Some(checks), Some(global)) = (&mut common.checks, &grid.checker) else {
            return Ok(());
        };
        let index = warp.index as usize;
        let strong = !matches!(kind, Kind::Load | Kind::Store);
        if strong {
            let mut last = u64::MAX;
            for lane in lanes(located.mask) {
                if std::mem::replace(&mut last, located.addresses[lane]) != located.addresses[lane]
                {
                    checks.exchange(index, shared, located.addresses[lane], kind);
                }
            }
            if !shared {
                global.order(common.number);
            }
        }
        let write = kind.writes();
        let mut found = None;
        let access = |lane: usize, first: u64, stamp: u32, epoch: u32| {
            let (address, end) = (located.addresses[lane], located.addresses[lane] + size);
            // The word's bytes that are at or behind the address, and before the end.
            let begin = address.saturating_sub(first).min(4);
            let bytes = (0xf << begin) & ((1 << (end - first).min(4)) - 1);
            Access {
                block: common.number as u32 + 1,
                thread: (warp.index * 32 + lane as u32) as u16,
                bytes,
                strong,
                epoch,
                stamp,
            }
        };
        let epoch = checks.now[index];
        let mut words = take(&mut checks.cells);
        // Lanes of one instruction that write to one address do not race: one of them wins.
        let ordered = |other: &Access| {
            let number = u64::from(other.block - 1);
            let own = usize::from(other.thread) / 32 == index && other.epoch == epoch;
            if number == common.number {
                checks.knows(index, other) || own && (!shared || other.stamp == pc as u32)
            } else {
                global.may_be_ordered(number, common.number, other.stamp)
            }
        };
        for lane in lanes(located.mask) {
            let (mut word, end) = (located.addresses[lane] & !3, located.addresses[lane] + size);
            while word < end {
                let (page, mut shard) = (word / PAGE, None);
                let (cells, base, stamp): (&mut [Cell], _, _) = if shared {
                    (&mut words, 0, pc as u32)
                } else {
                    let pages = global.shards[page as usize % SHARDS].lock();
                    let pages = shard.insert(pages.unwrap_or_else(PoisonError::into_inner));
                    if !pages.contains_key(&page)
                        && global.pages.fetch_add(1, Ordering::Relaxed) >= PAGES
                    {
                        break;
                    }
                    let new = || Box::new([Cell::default(); PAGE as usize / 4]);
                    let cells = pages.entry(page).or_insert_with(new);
                    (
                        &mut cells[..],
                        page * PAGE,
                        global.clock.load(Ordering::SeqCst),
                    )
                };
                let last = end.min(base + 4 * cells.len() as u64);
                for word in (word..last).step_by(4) {
                    let cell = &mut cells[(word - base) as usize / 4];
                    let hit = update(cell, access(lane, word, stamp, epoch), write, ordered);
                    found = found.or(hit.map(|hit| (lane, word, hit)));
                }
                word = if shared { end } else { (page + 1) * PAGE };
            }
        }
        checks.cells = words;
        let Some((lane, word, (other, wrote))) = found else {
            return Ok(());
        };
        let [x, y, z] = grid.thread(other.thread.into());
        let [bx, by, bz] = grid.block(u64::from(other.block - 1));
        let (this, that) = (
            if write { "a write" } else { "a read" },
            if wrote { "wrote" } else { "read" },
        );
        let text = format!(
            "{this} of what thread ({x}, {y}, {z}) of block ({bx}, {by}, {bz}) {that}, and nothing orders the two"
        );
        let address = located.addresses[lane];
        let place = if shared {
            None
        } else {
            self.worker.whose(address)
        };
        let at = Some((word.max(address), size as u32));
        Err(self.finding(FindingKind::Race, lane, at, place, text))
    }

    /// Reads of bytes that nothing has written.
    fn unwritten(&mut self, located: &Located, size: u64, kind: Kind) -> Result<(), Stop> {
        let shared = located.space == Space::Shared;
        for lane in lanes(located.mask) {
            let address = located.addresses[lane];
            // One bit for each byte: of the block, or of the region.
            let (bits, base) = match (shared, &mut self.common.checks) {
                (true, Some(checks)) => (checks.written.as_mut_ptr(), 0),
                _ => match self.worker.written(address) {
                    Some(found) => found,
                    None => continue,
                },
            };
            // Eight bytes of memory at a time.
            let (mut byte, end) = (address - base, address - base + size);
            while byte < end {
                let next = end.min((byte / 8 + 1) * 8);
                let mask = (((1u16 << (next - byte)) - 1) << (byte % 8)) as u8;
                // SAFETY: the access is within the region (or the block's shared memory), which has a bit for each byte.
                let cell = unsafe { AtomicU8::from_ptr(bits.add(byte as usize / 8)) };
                byte = next;
                if cell.load(Ordering::Relaxed) & mask == mask {
                    continue;
                }
                if kind.reads() {
                    let (text, place) = if shared {
                        ("a read of shared memory that no thread has written", None)
                    } else {
                        (
                            "a read of memory that nothing has written",
                            self.worker.whose(address),
                        )
                    };
                    let at = Some((address, size as u32));
                    return Err(self.finding(FindingKind::Unwritten, lane, at, place, text));
                }
                cell.fetch_or(mask, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
