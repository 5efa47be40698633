//! A session: follows the operations of its thread, and plans them.

use crate::plan::{Plan, Step};
use crate::report::AutoPrefetchStop;
use crate::rounds::{Rounds, Verdict};
use crate::sequence::{LONGEST, Use};
use crate::state::{Kind, Managed, Session, State, managed, may_advise};
use cuda_um::Device;
use cuda_um::fork;
use cuda_um::observe::Part;
use smallvec::SmallVec;
use std::time::Duration;

/// Events without a gain after which a session ends.
const PATIENCE: u64 = 512;

impl Session {
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// Ends all effects of the session. The first reason stays.
    pub(crate) fn stop(&mut self, why: Option<AutoPrefetchStop>) {
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
        drop(self.observing.take());
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
    pub(crate) fn begins(&mut self, kind: &Kind, parts: &[Part<'_>]) -> u64 {
        self.following.clear();
        let number = self.sequence.next();
        let parts: SmallVec<[_; 4]> = parts.iter().enumerate().filter_map(managed).collect();
        self.record(kind, &parts);
        let step = self.follow();
        if let Err(error) = self.carry_out(kind, &parts, step.as_ref()) {
            self.stop(Some(AutoPrefetchStop::Failed(error.to_string())));
        }
        for (at, (_, part)) in parts.iter().enumerate() {
            let moves = step.as_ref().and_then(|step| step.moves.get(at));
            if let Some(pages) = self.buffers.get_mut(&part.buffer())
                && !moves.is_some_and(|moves| moves.is_partial)
            {
                pages.used(&part.range(), kind.place);
            }
        }
        number
    }

    fn record(&mut self, kind: &Kind, parts: &[Managed<'_, '_>]) {
        let first = self.sequence.uses();
        let mut uses = SmallVec::new();
        for (number, (_, part)) in (first + 1..).zip(parts) {
            let (pages, range) = (self.pages(part), part.range());
            uses.push(Use {
                since: match pages.last_use {
                    0 => 0,
                    last => number - last,
                },
                place: kind.place,
                writes: part.writes(),
                bytes: range.len() as u64,
                missing: pages.base.missing(&range, kind.place),
                is_partial: false,
                same_range: pages.last_range == range,
                may_advise: may_advise(part),
            });
            (pages.last_use, pages.last_range) = (number, range);
        }
        let event = (kind.key, (self.clock)(), kind.waits);
        self.sequence.push(event, uses);
        self.report.events += 1;
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

    pub(crate) fn forget(&mut self, buffer: u64) {
        self.buffers.remove(&buffer);
    }

    /// Returns true if work of this runtime is seen.
    pub(crate) fn sees(&self, device: &Device) -> bool {
        !self.is_stopped() && device.runtime().is_same(self.device.runtime())
    }
}

/// A scope that was not stopped, because its handle was forgotten, ends with its thread.
impl Drop for Session {
    fn drop(&mut self) {
        if !fork::is_over() {
            self.stop(None);
        }
    }
}
