//! Buffers, streams and what is ordered after what: each use as an event, with all events that come before it for certain.

use crate::context::tracker::Access;
use crate::resource::cache::extent::{BLOCK, Extent};
use crate::resource::cache::properties::step::Step;
use crate::resource::cache::{Asked, By, Cache, Place};
use std::ops::Range;

pub(super) const PLACES: [Place; 3] = [Place::Host, Place::Device(0), Place::Device(1)];
/// The devices of the streams.
pub(super) const STREAMS: [u32; 4] = [0, 0, 1, 1];
/// The first two share a block. The memory of the third goes on to the end of its last block, as that of a pool's block does.
const ADDRESSES: [Range<usize>; BUFFERS] = [
    BLOCK..3 * BLOCK + BLOCK / 2,
    3 * BLOCK + BLOCK / 2..6 * BLOCK,
    6 * BLOCK..8 * BLOCK + 100,
];
const RESERVED_END: [usize; BUFFERS] = [ADDRESSES[0].end, ADDRESSES[1].end, 9 * BLOCK];
pub(super) const BUFFERS: usize = 3;

/// Events as bits.
type Set = u128;

struct Event {
    buffer: usize,
    /// All that is over when it begins, in whatever order the streams run.
    before: Set,
    /// It may take anything in these blocks to a place, or to an unknown place (`None`).
    may_take: Option<(Range<usize>, Option<Place>)>,
    /// Where the buffer's parts of these blocks are for certain when it is over.
    puts: Vec<(usize, Place)>,
    /// A read of memory that was read-mostly, which moves nothing while it is.
    reads: Option<Place>,
}

struct Guard {
    buffer: usize,
    writes: bool,
}

#[derive(Default)]
struct Buffer {
    /// What later reads and moves come after, and what later writes do.
    written: Set,
    used: Set,
    read_mostly: bool,
    cache: Cache,
    asked: Option<(Asked, [Option<usize>; 4])>,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(PLACES[0], true)
    }
}

#[derive(Default)]
pub(super) struct World {
    buffers: [Buffer; BUFFERS],
    events: Vec<Event>,
    /// What the next work of each stream comes after.
    streams: [Set; STREAMS.len()],
    /// What the host has waited for, and done.
    done: Set,
    guards: Vec<Guard>,
}

fn blocks(addresses: &Range<usize>) -> Range<usize> {
    addresses.start / BLOCK..addresses.end.div_ceil(BLOCK)
}

impl World {
    pub(super) fn extent(&self, buffer: usize) -> Extent {
        Extent::new(ADDRESSES[buffer].clone(), RESERVED_END[buffer])
    }

    pub(crate) fn cache(&self, buffer: usize) -> &Cache {
        &self.buffers[buffer].cache
    }

    /// Whether a prefetch of this part of a buffer to the place, enqueued now on any stream, would move nothing, in whatever order the
    /// streams run: something put it there, and whatever may take it elsewhere comes before something that put it there.
    pub(super) fn is_sure(&self, buffer: usize, block: usize, place: Place) -> bool {
        let before = self.done | self.buffers[buffer].written;
        let put: Vec<usize> = (0..self.events.len())
            .filter(|&event| before >> event & 1 == 1 && self.events[event].buffer == buffer)
            .filter(|&event| self.events[event].puts.contains(&(block, place)))
            .collect();
        let is_undone = |event: usize| {
            put.iter()
                .any(|&put| self.events[put].before >> event & 1 == 1)
        };
        let elsewhere = |event: &Event| {
            let taken = event.may_take.as_ref();
            taken.is_some_and(|(blocks, to)| blocks.contains(&block) && *to != Some(place))
        };
        let held = place != Place::Host
            && self.guards.iter().any(|guard| {
                blocks(&ADDRESSES[guard.buffer]).contains(&block) && self.moves(guard)
            });
        !put.is_empty()
            && !held
            && (0..self.events.len())
                .all(|event| !elsewhere(&self.events[event]) || is_undone(event))
    }

    fn moves(&self, guard: &Guard) -> bool {
        guard.writes || !self.buffers[guard.buffer].read_mostly
    }

    pub(super) fn run(&mut self, step: &Step) {
        match *step {
            Step::Kernel {
                buffer,
                stream,
                writes,
            } => self.kernel(buffer, stream, writes),
            Step::Prefetch {
                buffer,
                stream,
                place,
                blocks,
                is_unsure,
            } => self.prefetch(buffer, stream, PLACES[place], blocks, is_unsure),
            Step::Guard {
                buffer,
                writes,
                lives,
            } => self.guard(buffer, writes, lives),
            Step::EndGuard { guard } => self.end_guard(guard),
            Step::Advise { buffer } if self.is_free(buffer, false) => {
                self.on_host(buffer, Some(None), None);
                self.cache(buffer).touched(By::Unknown);
            }
            Step::ReadMostly { buffer, set } if self.is_free(buffer, false) => {
                self.read_mostly(buffer, set)
            }
            Step::Ask {
                buffer,
                places,
                is_unsure,
            } if self.is_free(buffer, false) => self.ask(buffer, places, is_unsure),
            Step::Answer { buffer } => {
                if let Some((asked, places)) = self.buffers[buffer].asked.take() {
                    let extent = self.extent(buffer);
                    let places = places.map(|place| place.map(|place| PLACES[place]));
                    let of_blocks = &places[..extent.blocks().len()];
                    self.cache(buffer).correct(&extent, &asked, of_blocks);
                }
            }
            Step::StreamWaits { stream, on } => self.streams[stream] |= self.streams[on],
            Step::Synchronize { stream } => self.done |= self.streams[stream],
            Step::Replace { buffer } if self.is_free(buffer, true) => {
                let old = std::mem::take(&mut self.buffers[buffer]);
                self.buffers[buffer] = Buffer {
                    // Everything comes after all that the former owner left.
                    written: old.used,
                    used: old.used,
                    ..Buffer::default()
                };
            }
            _ => {}
        }
    }

    /// Whether the borrow checker allows a use beside the guards that live.
    fn is_free(&self, buffer: usize, writes: bool) -> bool {
        let mut guards = self.guards.iter().filter(|guard| guard.buffer == buffer);
        guards.all(|guard| !guard.writes && !writes)
    }

    /// Whether the last event, or the host now, comes after all other uses of the buffer.
    fn is_last(&self, buffer: usize, on_stream: bool) -> bool {
        let before = match on_stream {
            true => self.events.last().map_or(0, |event| event.before),
            false => self.done,
        };
        let known = self.events.len() - usize::from(on_stream);
        let mut own = (0..known).filter(|&event| self.events[event].buffer == buffer);
        own.all(|event| before >> event & 1 == 1)
    }

    fn on_stream(
        &mut self,
        buffer: usize,
        stream: usize,
        access: Access,
        may_take: Option<(Range<usize>, Option<Place>)>,
        puts: Vec<(usize, Place)>,
    ) {
        let uses = &mut self.buffers[buffer];
        let own = if access == Access::Write {
            uses.used
        } else {
            uses.written
        };
        let before = self.done | self.streams[stream] | own;
        let with_it = before | 1 << self.events.len();
        self.streams[stream] |= with_it;
        uses.used |= with_it;
        if access != Access::Read {
            uses.written |= with_it;
        }
        let reads = (access == Access::Read).then_some(Place::Device(STREAMS[stream]));
        self.events.push(Event {
            buffer,
            before,
            may_take,
            puts,
            reads,
        });
    }

    /// The host does something now, which may take the buffer's blocks somewhere.
    fn on_host(
        &mut self,
        buffer: usize,
        takes: Option<Option<Place>>,
        puts: Option<Vec<(usize, Place)>>,
    ) {
        let may_take = takes.map(|to| (blocks(&ADDRESSES[buffer]), to));
        let number = self.events.len();
        self.events.push(Event {
            buffer,
            before: self.done,
            may_take,
            puts: puts.unwrap_or_default(),
            reads: None,
        });
        self.done |= 1 << number;
    }

    fn kernel(&mut self, buffer: usize, stream: usize, writes: bool) {
        if !self.is_free(buffer, writes) {
            return;
        }
        let place = Place::Device(STREAMS[stream]);
        let (access, by) = match writes {
            true => (Access::Write, By::Writer(place)),
            false => (Access::Read, By::Reader(place)),
        };
        let moves = writes || !self.buffers[buffer].read_mostly;
        let may_take = moves.then(|| (blocks(&ADDRESSES[buffer]), Some(place)));
        self.on_stream(buffer, stream, access, may_take, Vec::new());
        self.cache(buffer).touched(by);
    }

    fn prefetch(
        &mut self,
        buffer: usize,
        stream: usize,
        place: Place,
        some: Option<(usize, usize, bool)>,
        is_unsure: bool,
    ) {
        if !self.is_free(buffer, false) {
            return;
        }
        let extent = self.extent(buffer);
        let parts: Vec<_> = extent.blocks().map(|block| extent.part(block)).collect();
        let range = match some {
            None => ADDRESSES[buffer].clone(),
            Some((first, count, is_cut)) => {
                let first = first % parts.len();
                let last = (first + count - 1).min(parts.len() - 1);
                parts[first].start..parts[last].end - usize::from(is_cut) * 50
            }
        };
        let whole = parts
            .iter()
            .filter(|part| range.start <= part.start && part.end <= range.end);
        let puts = whole.map(|part| (part.start / BLOCK, place)).collect();
        self.on_stream(
            buffer,
            stream,
            Access::Move,
            Some((blocks(&range), Some(place))),
            puts,
        );
        let is_last = self.is_last(buffer, true) && !is_unsure;
        self.cache(buffer).moved(&extent, range, place, is_last);
    }

    fn guard(&mut self, buffer: usize, writes: bool, lives: bool) {
        if !self.is_free(buffer, writes) {
            return;
        }
        let by = match writes {
            true => By::Writer(Place::Host),
            false => By::Reader(Place::Host),
        };
        let uses = &self.buffers[buffer];
        self.done |= if writes { uses.used } else { uses.written };
        let guard = Guard { buffer, writes };
        self.on_host(
            buffer,
            self.moves(&guard).then_some(Some(Place::Host)),
            None,
        );
        self.cache(buffer).held(by);
        self.guards.push(guard);
        if !lives {
            self.end_guard(self.guards.len() - 1);
        }
    }

    /// Until now the host may have touched it.
    fn end_guard(&mut self, guard: usize) {
        if guard < self.guards.len() {
            let guard = self.guards.remove(guard);
            self.on_host(
                guard.buffer,
                self.moves(&guard).then_some(Some(Place::Host)),
                None,
            );
            self.cache(guard.buffer).let_go();
        }
    }

    fn read_mostly(&mut self, buffer: usize, set: bool) {
        if set {
            // Advice waits for writes. What guards have read until now has moved.
            self.done |= self.buffers[buffer].written;
            if self
                .guards
                .iter()
                .any(|guard| guard.buffer == buffer && self.moves(guard))
            {
                self.on_host(buffer, Some(Some(Place::Host)), None);
            }
            self.buffers[buffer].read_mostly = true;
            self.cache(buffer).set_read_mostly();
            return;
        }
        self.buffers[buffer].read_mostly = false;
        // What was enqueued before and has not run moves pages now.
        for event in self
            .events
            .iter_mut()
            .filter(|event| event.buffer == buffer)
        {
            if let Some(place) = event.reads {
                event.may_take = Some((blocks(&ADDRESSES[buffer]), Some(place)));
            }
        }
        self.on_host(buffer, Some(None), None);
        self.cache(buffer).unset_read_mostly();
    }

    fn ask(&mut self, buffer: usize, places: [Option<usize>; 4], is_unsure: bool) {
        self.done |= self.buffers[buffer].written;
        let asked = self
            .cache(buffer)
            .ask(self.is_last(buffer, false) && !is_unsure);
        let found = blocks(&ADDRESSES[buffer]).zip(places);
        let puts = found
            .filter_map(|(block, place)| Some((block, PLACES[place?])))
            .collect();
        self.on_host(buffer, None, Some(puts));
        self.buffers[buffer].asked = Some((asked, places));
    }
}
