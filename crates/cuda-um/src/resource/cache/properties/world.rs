//! Buffers, streams and what is ordered after what: each use as an event, with all events that come before it for certain.

use crate::context::tracker::Access;
use crate::resource::cache::extent::Extent;
use crate::resource::cache::neighbours::{BLOCK, Later, Neighbours, User};
use crate::resource::cache::properties::step::{Shy, Step};
use crate::resource::cache::{Asked, By, Place, Shadow};
use std::ops::Range;

pub(crate) const PLACES: [Place; 3] = [Place::Host, Place::Device(0), Place::Device(1)];
/// The devices of the streams.
pub(crate) const STREAMS: [u32; 4] = [0, 0, 1, 1];
/// Neighbours in blocks 3 and 4; the last one is elsewhere, but has the entry of block 3 in the table.
const ADDRESSES: [Range<usize>; BUFFERS] = [
    BLOCK..3 * BLOCK + BLOCK / 2,
    3 * BLOCK + BLOCK / 2..3 * BLOCK + 3 * BLOCK / 4,
    3 * BLOCK + 3 * BLOCK / 4..4 * BLOCK + 100,
    4 * BLOCK + 4096..7 * BLOCK,
    4099 * BLOCK..4100 * BLOCK,
];
pub(crate) const BUFFERS: usize = 5;

/// Events as bits.
type Set = u128;

struct Event {
    buffer: usize,
    /// All that is over when it begins, in whatever order the streams run.
    before: Set,
    /// It may take anything in these blocks to a place, or nobody knows where (`None`).
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
    shadow: Shadow,
    /// How often it was replaced.
    former: u64,
    asked: Option<(Asked, [Option<usize>; 4])>,
}

#[derive(Default)]
pub(crate) struct World {
    neighbours: Neighbours,
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
    pub(crate) fn extent(&self, buffer: usize) -> Extent<'_> {
        Extent {
            addresses: ADDRESSES[buffer].clone(),
            neighbours: &self.neighbours,
        }
    }

    pub(crate) fn shadow(&self, buffer: usize) -> &Shadow {
        &self.buffers[buffer].shadow
    }

    /// Whether a prefetch of this part of a buffer to the place, enqueued now on any stream, would move nothing, in whatever order the
    /// streams run: something put it there, and whatever may take it elsewhere comes before something that put it there.
    pub(crate) fn is_sure(&self, buffer: usize, block: usize, place: Place) -> bool {
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

    pub(crate) fn run(&mut self, step: &Step) {
        match *step {
            Step::Kernel {
                buffer,
                stream,
                writes,
                shy,
            } => self.kernel(buffer, stream, writes, shy),
            Step::Prefetch {
                buffer,
                stream,
                place,
                blocks,
                shy,
            } => self.prefetch(buffer, stream, PLACES[place], blocks, shy),
            Step::Guard {
                buffer,
                writes,
                lives,
                shy,
            } => self.guard(buffer, writes, lives, shy),
            Step::EndGuard { guard } => self.end_guard(guard),
            Step::Advise { buffer } if self.is_free(buffer, false) => {
                self.on_host(buffer, Some(None), None);
                self.tell(
                    buffer,
                    None,
                    Access::Move,
                    Shy::default(),
                    |shadow, extent, user| shadow.touched(extent, By::Unknown, user),
                );
            }
            Step::ReadMostly { buffer, set } if self.is_free(buffer, false) => {
                self.read_mostly(buffer, set)
            }
            Step::Ask {
                buffer,
                places,
                shy,
            } if self.is_free(buffer, false) => self.ask(buffer, places, shy),
            Step::Answer { buffer } => {
                if let Some((asked, places)) = self.buffers[buffer].asked.take() {
                    let extent = self.extent(buffer);
                    let places = places.map(|place| place.map(|place| PLACES[place]));
                    let of_blocks = &places[..extent.blocks().len()];
                    self.shadow(buffer).correct(&extent, &asked, of_blocks);
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
                    former: old.former + 1,
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

    /// Tells the library of the event that was last, or of a use of the host that is none.
    fn tell<R>(
        &self,
        buffer: usize,
        stream: Option<usize>,
        access: Access,
        shy: Shy,
        tell: impl FnOnce(&Shadow, &Extent<'_>, &User<'_>) -> R,
    ) -> R {
        let before = match stream {
            Some(_) => self.events.last().map_or(0, |event| event.before),
            None => self.done,
        };
        let known = self.events.len() - usize::from(stream.is_some());
        let is_before = |event: usize| before >> event & 1 == 1;
        let after_own =
            (0..known).all(|event| self.events[event].buffer != buffer || is_before(event));
        let after_all = (0..known).all(is_before);
        let user = User {
            // Numbers are not used again.
            buffer: buffer as u64 + self.buffers[buffer].former * BUFFERS as u64,
            after_own: access == Access::Write || after_own && !shy.of_own,
            after_all: &|| after_all && !shy.of_all,
            before: match (stream, access) {
                (None, _) => Later::All,
                (_, Access::Read) => Later::Nothing,
                _ => Later::OfTheBuffer,
            },
        };
        tell(&self.buffers[buffer].shadow, &self.extent(buffer), &user)
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

    fn kernel(&mut self, buffer: usize, stream: usize, writes: bool, shy: Shy) {
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
        self.tell(buffer, Some(stream), access, shy, |shadow, extent, user| {
            shadow.touched(extent, by, user)
        });
    }

    fn prefetch(
        &mut self,
        buffer: usize,
        stream: usize,
        place: Place,
        some: Option<(usize, usize, bool)>,
        shy: Shy,
    ) {
        if !self.is_free(buffer, false) {
            return;
        }
        let parts = self.extent(buffer).parts();
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
        self.tell(
            buffer,
            Some(stream),
            Access::Move,
            shy,
            |shadow, extent, user| shadow.moved(extent, range, place, user),
        );
    }

    fn guard(&mut self, buffer: usize, writes: bool, lives: bool, shy: Shy) {
        if !self.is_free(buffer, writes) {
            return;
        }
        let (access, by) = match writes {
            true => (Access::Write, By::Writer(Place::Host)),
            false => (Access::Read, By::Reader(Place::Host)),
        };
        let uses = &self.buffers[buffer];
        self.done |= if writes { uses.used } else { uses.written };
        let guard = Guard { buffer, writes };
        self.on_host(
            buffer,
            self.moves(&guard).then_some(Some(Place::Host)),
            None,
        );
        self.tell(buffer, None, access, shy, |shadow, extent, user| {
            shadow.held(extent, by, user)
        });
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
            self.shadow(guard.buffer).let_go(&self.extent(guard.buffer));
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
            self.shadow(buffer).set_read_mostly();
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
        self.tell(
            buffer,
            None,
            Access::Move,
            Shy::default(),
            |shadow, extent, user| shadow.unset_read_mostly(extent, user),
        );
    }

    fn ask(&mut self, buffer: usize, places: [Option<usize>; 4], shy: Shy) {
        self.done |= self.buffers[buffer].written;
        let asked = self.tell(buffer, None, Access::Move, shy, Shadow::ask);
        let found = blocks(&ADDRESSES[buffer]).zip(places);
        let puts = found
            .filter_map(|(block, place)| Some((block, PLACES[place?])))
            .collect();
        self.on_host(buffer, None, Some(puts));
        self.buffers[buffer].asked = Some((asked, places));
    }
}
