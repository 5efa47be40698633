//! A session: follows the operations of its thread, plans them, and moves memory.

use crate::auto::advised;
use crate::auto::pages::Pages;
use crate::auto::plan::{Kept, Moves, Plan, Step};
use crate::auto::report::{AutoPrefetchReport, AutoPrefetchStop};
use crate::auto::rounds::{Rounds, Verdict};
use crate::auto::sequence::{LONGEST, Sequence, Use};
use crate::context::device::Device;
use crate::context::planner;
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::driver::location::Location;
use crate::error::Result;
use crate::managed::batch::PrefetchBatch;
use crate::resource::allocation::Allocation;
use crate::resource::cache::Place;
use cuda_um_cost::{CostModel, Faults};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Events without a gain after which a session ends.
const PATIENCE: u64 = 512;
/// Buffers that a session remembers.
const MOST_BUFFERS: usize = 1 << 14;
/// The smallest buffer that a plan advises: advice applies to whole pages, which smaller ones share.
const LEAST_ADVISED: usize = 64 << 10;

pub(super) type Clock = Box<dyn Fn() -> Duration>;

pub(super) struct Session {
    pub(super) number: u64,
    device: Device,
    model: Arc<CostModel>,
    clock: Clock,
    /// The streams of moves to devices and to the host, which run beside the program's streams and beside each other.
    streams: Option<[Stream; 2]>,
    sequence: Sequence,
    buffers: HashMap<u64, Pages>,
    state: State,
    /// True until rounds in which kernels use memory of the host were slower.
    over_link: bool,
    /// The moves that follow when the current operation is enqueued, by the position of its part.
    following: SmallVec<[(usize, Place); 4]>,
    /// Host guards that live, by the number of their event.
    guards: HashMap<u64, Guard>,
    pub(super) report: AutoPrefetchReport,
}

enum State {
    /// Records since an event, and searches for a period from another event on.
    Learning {
        since: u64,
        search: u64,
    },
    Running {
        plan: Plan,
        at: usize,
        rounds: Rounds,
    },
    Stopped,
}

/// A host guard.
struct Guard {
    /// The number of its use.
    number: u64,
    /// The move that follows it.
    after: Option<Place>,
    /// The time at which the host got access.
    began: Option<Duration>,
    /// The pages before it, and the bytes that are to fault in, while the session learns.
    before: Option<(Pages, u64)>,
}

/// A part of managed memory: its position, and its allocation.
type Managed<'a, 'p> = (usize, &'a Part<'p>, &'a Allocation);

/// The part, if a plan may move it: memory that the program made read-mostly stays where it is.
fn managed<'a, 'p>((at, part): (usize, &'a Part<'p>)) -> Option<Managed<'a, 'p>> {
    let raw = part.memory.as_any().downcast_ref::<Allocation>()?;
    let is_movable = raw.is_managed() && !part.bytes.is_empty() && !raw.cache.is_read_mostly();
    is_movable.then_some((at, part, raw))
}

/// A kind of event, with the processor that uses the memory.
pub(super) struct Kind {
    pub(super) key: u64,
    pub(super) place: Place,
    pub(super) waits: bool,
    /// True if the host has access already.
    pub(super) is_held: bool,
}

impl Session {
    pub(super) fn new(number: u64, device: Device, clock: Clock) -> Self {
        Self {
            number,
            model: device.cost_model(),
            device,
            clock,
            streams: None,
            sequence: Sequence::default(),
            buffers: HashMap::new(),
            state: State::Learning {
                since: 0,
                search: 0,
            },
            over_link: true,
            following: SmallVec::new(),
            guards: HashMap::new(),
            report: AutoPrefetchReport::default(),
        }
    }

    /// Returns true if the session does nothing any more.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// Ends all effects of the session. The first reason stays.
    pub(super) fn stop(&mut self, why: Option<AutoPrefetchStop>) {
        if self.is_stopped() {
            return;
        }
        self.keep_times();
        self.state = State::Stopped;
        self.report.stopped = why;
        if let Err(error) = self.release() {
            let failed = || AutoPrefetchStop::Failed(error.to_string());
            self.report.stopped.get_or_insert_with(failed);
        }
        planner::leave();
    }

    fn keep_times(&mut self) {
        if let State::Running { plan, rounds, .. } = &self.state
            && plan.is_timed
        {
            let (with, without) = rounds.medians();
            (self.report.round_with, self.report.round_without) = (with, Some(without));
        }
    }

    /// An operation begins: follows the plan, and moves what it needs.
    pub(super) fn begins(&mut self, kind: &Kind, parts: &[Part<'_>]) -> u64 {
        self.following.clear();
        let number = self.sequence.next();
        let parts: SmallVec<[_; 4]> = parts.iter().enumerate().filter_map(managed).collect();
        self.record(kind, &parts);
        let step = self.follow();
        if let Err(error) = self.carry_out(kind, &parts, step.as_ref()) {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
        for (at, (_, part, raw)) in parts.iter().enumerate() {
            let moves = step.as_ref().and_then(|step| step.moves.get(at));
            if let Some(pages) = self.buffers.get_mut(&raw.id())
                && !moves.is_some_and(|moves| moves.is_partial)
            {
                pages.used(&part.bytes, kind.place);
            }
        }
        number
    }

    /// Adds the event to the sequence.
    fn record(&mut self, kind: &Kind, parts: &[Managed<'_, '_>]) {
        let first = self.sequence.uses();
        let mut uses = SmallVec::new();
        for (number, (_, part, raw)) in (first + 1..).zip(parts) {
            let pages = self.pages(raw);
            uses.push(Use {
                since: match pages.last_use {
                    0 => 0,
                    last => number - last,
                },
                place: kind.place,
                writes: part.access.is_write(),
                bytes: part.bytes.len() as u64,
                missing: pages.base.missing(&part.bytes, kind.place),
                is_partial: false,
                same_range: pages.last_range == part.bytes,
                may_advise: part.bytes.len() == raw.bytes() && raw.bytes() >= LEAST_ADVISED,
            });
            (pages.last_use, pages.last_range) = (number, part.bytes.clone());
        }
        let event = (kind.key, (self.clock)(), kind.waits);
        self.sequence.push(event, uses);
        self.report.events += 1;
    }

    fn pages(&mut self, raw: &Allocation) -> &mut Pages {
        if self.buffers.len() > MOST_BUFFERS {
            // Most were dropped: a program with a period uses fewer.
            self.buffers.retain(|_, pages| pages.kept.is_some());
        }
        self.buffers.entry(raw.id()).or_insert_with(|| {
            let place = match raw.cache.is_away() {
                true => Place::Host,
                false => Place::Device(raw.device().ordinal()),
            };
            Pages::new(raw.bytes(), place)
        })
    }

    /// Finds the step of the plan for the last event, if there is a plan.
    fn follow(&mut self) -> Option<Step> {
        let State::Running { plan, at, rounds } = &mut self.state else {
            return self.learn(0);
        };
        let event = self.sequence.last()?;
        if !plan.steps[*at].is(event) {
            let period = plan.steps.len();
            self.keep_times();
            self.report.divergences += 1;
            self.forget_plan();
            // The plan may be a loop inside of a longer one.
            return self.learn(period);
        }
        let step = plan.steps[*at].clone();
        *at = (*at + 1) % plan.steps.len();
        let is_paused = rounds.is_paused();
        if *at == 0 {
            self.report.rounds_planned += u64::from(!is_paused);
            if plan.is_timed
                && let Verdict::Slower { with, without } = rounds.ended(event.at)
            {
                if plan.is_over_link {
                    // Another plan may be better.
                    self.over_link = false;
                    self.forget_plan();
                    return None;
                }
                self.stop(Some(AutoPrefetchStop::Slower { with, without }));
                return None;
            }
        }
        (!is_paused).then_some(step)
    }

    /// Ends the plan, and learns again.
    fn forget_plan(&mut self) {
        let since = self.sequence.next();
        self.state = State::Learning { since, search: 0 };
        if let Err(error) = self.release() {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
    }

    /// Searches for a period that is longer than `above`, and plans it. Returns the step of the last event.
    fn learn(&mut self, above: usize) -> Option<Step> {
        let next = self.sequence.next();
        let State::Learning { since, search } = &mut self.state else {
            return None;
        };
        let learned = next - *since;
        if next >= *search
            && let Some(period) = self.sequence.period(above)
        {
            let time = self.sequence.round_time(period);
            self.sequence.expect_as_before(period);
            let events = self.sequence.tail(period);
            if let Some(plan) = Plan::of(events, &self.model, time, self.over_link) {
                self.report.rounds_recorded += (learned / period as u64).max(1);
                self.report.plans += 1;
                let step = plan.steps.last().cloned();
                let now = self.sequence.last()?.at;
                let rounds = Rounds::new(time.unwrap_or(Duration::MAX), now);
                self.guards.clear();
                self.state = State::Running {
                    plan,
                    at: 0,
                    rounds,
                };
                return step;
            }
            // The next rounds of this period are nearly the same. Each time it is another event that ends the period, because the last
            // guard is not over yet.
            *search = next + 1 + period as u64 / 8;
        }
        let why = match self.sequence.since_missing() {
            PATIENCE.. => AutoPrefetchStop::NothingToGain,
            _ if learned > 2 * LONGEST as u64 => AutoPrefetchStop::NoPlan,
            _ => return None,
        };
        self.stop(Some(why));
        None
    }

    /// Issues the moves of a step that come before the operation, and keeps those that follow it.
    fn carry_out(
        &mut self,
        kind: &Kind,
        parts: &[Managed<'_, '_>],
        step: Option<&Step>,
    ) -> Result<()> {
        let mut needed: SmallVec<[Managed<'_, '_>; 4]> = SmallVec::new();
        for (at, managed) in parts.iter().enumerate() {
            let (position, part, raw) = managed;
            let moves = step.and_then(|step| step.moves.get(at)).cloned();
            let moves = moves.unwrap_or_default();
            self.advise(&moves, part, raw)?;
            let Some(pages) = self.buffers.get(&raw.id()) else {
                continue;
            };
            if moves.before && pages.real.missing(&part.bytes, kind.place) > 0 {
                needed.push(*managed);
            }
            if let Some(place) = moves.after {
                self.following.push((*position, place));
            }
        }
        if !kind.is_held {
            self.migrate(&needed, kind.place)?;
        }
        for (_, part, raw) in parts {
            if let Some(pages) = self.buffers.get(&raw.id()) {
                let faults = pages.base.missing(&part.bytes, kind.place);
                let saved = faults.saturating_sub(pages.real.missing(&part.bytes, kind.place));
                self.report.faults_avoided += match kind.place {
                    Place::Device(_) => Faults::of_device(saved).faults,
                    Place::Host => Faults::of_host(saved).faults,
                };
            }
        }
        Ok(())
    }

    /// Advises a buffer before a use, or ends its advice as read-mostly before a write.
    fn advise(&mut self, moves: &Moves, part: &Part<'_>, raw: &Allocation) -> Result<()> {
        let Some(pages) = self.buffers.get_mut(&raw.id()) else {
            return Ok(());
        };
        if pages.kept == Some(Kept::Both) && part.access.is_write() {
            pages.released(Place::Device(self.device.ordinal()));
            return advised::unset(raw);
        }
        let Some(kept) = moves.advice.filter(|_| pages.kept.is_none()) else {
            return Ok(());
        };
        pages.kept = Some(kept);
        self.report.advised += 1;
        advised::set(self.number, raw, kept, Location::from(&self.device))
    }

    /// Ends the advice of the plan.
    fn release(&mut self) -> Result<()> {
        let device = Place::Device(self.device.ordinal());
        let buffers = self.buffers.values_mut();
        buffers.for_each(|pages| pages.released(device));
        advised::unset_all(self.number)
    }

    /// Enqueues the migration of parts to one place.
    pub(super) fn migrate(&mut self, parts: &[Managed<'_, '_>], place: Place) -> Result<()> {
        // Memory that a guard holds stays where it is.
        let is_free = |managed: &&Managed<'_, '_>| !managed.2.cache.is_held();
        let parts: SmallVec<[_; 4]> = parts.iter().filter(is_free).collect();
        if parts.is_empty() {
            return Ok(());
        }
        if self.streams.is_none() {
            self.streams = Some([self.device.stream()?, self.device.stream()?]);
        }
        let Some([to_device, to_host]) = &self.streams else {
            return Ok(());
        };
        let (stream, location) = match place {
            Place::Device(ordinal) => (to_device, Location::Device(ordinal)),
            Place::Host => (to_host, Location::Host),
        };
        let mut batch = PrefetchBatch::new();
        let mut bytes = 0;
        for (_, part, raw) in parts {
            batch.push_part(raw, part.bytes.clone());
            if let Some(pages) = self.buffers.get_mut(&raw.id()) {
                bytes += pages.real.missing(&part.bytes, place);
                pages.moved(&part.bytes, place);
            }
        }
        self.report.prefetches += batch.prefetch(location, stream)? as u64;
        match place {
            Place::Device(_) => self.report.bytes_to_device += bytes,
            Place::Host => self.report.bytes_to_host += bytes,
        }
        Ok(())
    }

    /// The current operation is enqueued: issues the moves that follow it.
    pub(super) fn ended(&mut self, parts: &[Part<'_>]) {
        let following = std::mem::take(&mut self.following);
        for to in [Place::Host, Place::Device(self.device.ordinal())] {
            let of_place = following.iter().filter(|(_, place)| *place == to);
            let parts = of_place.filter_map(|(at, _)| managed((*at, parts.get(*at)?)));
            self.follow_up(&parts.collect::<SmallVec<[_; 4]>>(), to);
        }
    }

    fn follow_up(&mut self, parts: &[Managed<'_, '_>], to: Place) {
        if let Err(error) = self.migrate(parts, to) {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
    }

    /// A host guard begins. Returns the number of its event, if the session wants to know of its end.
    pub(super) fn guard_begins(&mut self, kind: &Kind, part: &Part<'_>) -> Option<u64> {
        let (_, _, raw) = managed((0, part))?;
        let before = self.is_learning().then(|| self.pages(raw).clone());
        let event = self.begins(kind, std::slice::from_ref(part));
        let after = self.following.first().map(|(_, place)| *place);
        // A plan that begins now has moved it already.
        let before = before.filter(|_| self.is_learning()).and_then(|pages| {
            let missing = pages.real.missing(&part.bytes, kind.place);
            (missing > 0).then_some((pages, missing))
        });
        let guard = Guard {
            number: self.sequence.uses(),
            after,
            began: None,
            before,
        };
        let is_needed = guard.after.is_some() || guard.before.is_some();
        (is_needed && !self.is_stopped()).then(|| {
            self.guards.insert(event, guard);
            event
        })
    }

    fn is_learning(&self) -> bool {
        matches!(self.state, State::Learning { .. })
    }

    /// The host has access to the memory of a guard.
    pub(super) fn guard_waited(&mut self, event: u64) {
        let now = (self.clock)();
        if let Some(guard) = self.guards.get_mut(&event) {
            guard.began = Some(now);
        }
    }

    /// A host guard is gone.
    pub(super) fn guard_ends(&mut self, event: u64, part: &Part<'_>) {
        let Some(guard) = self.guards.remove(&event) else {
            return;
        };
        let Some(managed) = managed((0, part)) else {
            return;
        };
        if let Some(place) = guard.after {
            return self.follow_up(&[managed], place);
        }
        let now = (self.clock)();
        if let (Some((before, missing)), Some(began)) = (guard.before, guard.began)
            && now.saturating_sub(began) < self.model.host_faults(missing) / 2
        {
            // Too short for faults on all pages: the host used a few of them.
            if let Some(event) = self.sequence.event_mut(event) {
                for used in &mut event.uses {
                    (used.missing, used.is_partial) = (0, true);
                }
            }
            let pages = self.pages(managed.2);
            if pages.last_use == guard.number {
                (pages.real, pages.base) = (before.real, before.base);
            }
        }
    }

    /// The program moves memory itself.
    pub(super) fn moved(&mut self, parts: &[Part<'_>], place: Place) {
        for (_, part, raw) in parts.iter().enumerate().filter_map(managed) {
            let pages = self.pages(raw);
            pages.used(&part.bytes, place);
        }
    }

    /// A copy writes memory, which ends its duplicates.
    pub(super) fn copied(&mut self, parts: &[Part<'_>]) {
        for (_, part, raw) in parts.iter().enumerate().filter_map(managed) {
            if let Err(error) = self.advise(&Moves::default(), part, raw) {
                return self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
            }
        }
    }

    /// A buffer is dropped.
    pub(super) fn forget(&mut self, buffer: u64) {
        self.buffers.remove(&buffer);
    }

    /// Returns true if work of this runtime is seen.
    pub(super) fn sees(&self, device: &Device) -> bool {
        !self.is_stopped() && device.runtime().is_same(self.device.runtime())
    }
}
