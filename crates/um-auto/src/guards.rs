//! Host guards of a session: what follows them, and if they used all their pages.

use crate::state::{Guard, Kind, Session, State, managed};
use cuda_um::observe::Part;

impl Session {
    /// The operation of this number is a host guard that begins.
    pub(crate) fn guard_begins(&mut self, op: u64, kind: &Kind, part: &Part<'_>) {
        self.following.clear();
        if managed((0, part)).is_none() {
            return;
        }
        let before = self.is_learning().then(|| self.pages(part).clone());
        let event = self.begins(kind, std::slice::from_ref(part));
        let after = self.following.first().map(|(_, place)| *place);
        // A plan that begins now has moved it already.
        let before = before.filter(|_| self.is_learning()).and_then(|pages| {
            let missing = pages.real.missing(&part.range(), kind.place);
            (missing > 0).then_some((pages, missing))
        });
        let guard = Guard {
            event,
            number: self.sequence.uses(),
            after,
            began: None,
            before,
        };
        let is_needed = guard.after.is_some() || guard.before.is_some();
        if is_needed && !self.is_stopped() {
            self.guards.insert(op, guard);
        }
    }

    fn is_learning(&self) -> bool {
        matches!(self.state, State::Learning { .. })
    }

    /// The host has access to the memory of a guard, or did not get it.
    pub(crate) fn guard_waited(&mut self, op: u64, has_access: bool) {
        let now = (self.clock)();
        match self.guards.get_mut(&op) {
            Some(guard) if has_access => guard.began = Some(now),
            _ => drop(self.guards.remove(&op)),
        }
    }

    pub(crate) fn guard_ends(&mut self, op: u64, part: &Part<'_>) {
        let Some(guard) = self.guards.remove(&op) else {
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
            if let Some(event) = self.sequence.event_mut(guard.event) {
                for used in &mut event.uses {
                    (used.missing, used.is_partial) = (0, true);
                }
            }
            let pages = self.pages(part);
            if pages.last_use == guard.number {
                (pages.real, pages.base) = (before.real, before.base);
            }
        }
    }
}
