//! Host guards of a session: what follows them, and if they used all their pages.

use crate::auto::state::{Guard, Kind, Session, State, managed};
use crate::context::tracked::Part;

impl Session {
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
        let now = self.clock.now();
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
        let now = self.clock.now();
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
}
