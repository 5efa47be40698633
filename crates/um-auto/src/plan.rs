//! What pays: the moves of one period, from its uses and the cost model.

use crate::sequence::{Event, Use};
use crate::state::Place;
use cuda_um::cost::{CostModel, at_rate};
use smallvec::SmallVec;
use std::time::Duration;

/// Advice with which a buffer that host and device use in each round stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Read-mostly: each side has a copy.
    Both,
    /// On the host; kernels use it over the link.
    OnHost,
}

/// The moves for one use of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// The distance to the previous use of the buffer, which the use must have.
    since: u64,
    /// Prefetch to the place of the use, before it.
    pub(crate) before: bool,
    /// Prefetch to this place, as soon as the use is over.
    pub(crate) after: Option<Place>,
    /// The use leaves most pages where they are.
    pub(crate) is_partial: bool,
    /// Give the buffer this advice before the use.
    pub(crate) advice: Option<Kept>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    key: u64,
    pub(crate) moves: SmallVec<[Moves; 4]>,
}

impl Step {
    pub(crate) fn is(&self, event: &Event) -> bool {
        let mut uses = self.moves.iter().zip(&event.uses);
        self.key == event.key
            && self.moves.len() == event.uses.len()
            && uses.all(|(moves, used)| moves.since == used.since)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// The time that it saves in each round, by the cost model.
    pub(crate) saves: Duration,
    /// True if the host waits for the device in each round, so that the times of rounds can be compared.
    pub(crate) is_timed: bool,
    /// True if kernels use memory of the host.
    pub(crate) is_over_link: bool,
}

impl Plan {
    /// Plans a period; `None` if no move pays. `round` is the time of a round without moves, if it is known. With `over_link`, kernels may
    /// use memory of the host.
    pub(crate) fn of<'e>(
        period: impl Iterator<Item = &'e Event> + Clone,
        model: &CostModel,
        round: Option<Duration>,
        over_link: bool,
    ) -> Option<Self> {
        let is_timed = period.clone().any(|event| event.waits);
        let uses: Vec<&Use> = period.clone().flat_map(|event| &event.uses).collect();
        let mut steps: Vec<Step> = period.map(Step::of).collect();
        let mut moves: Vec<&mut Moves> =
            steps.iter_mut().flat_map(|step| &mut step.moves).collect();
        let kept = kept(&uses, model, over_link);
        let (mut saves, mut faults) = (Duration::ZERO, [Duration::ZERO; 2]);
        for (at, used) in uses.iter().enumerate() {
            let (by_faults, by_prefetch) = times(used, model);
            if let Some(kept) = kept[at] {
                moves[at].advice = Some(kept);
                moves[at].before = kept == Kept::Both || used.place == Place::Host;
                saves += by_faults;
                saves = saves.saturating_sub(by_link(used, kept, model));
            } else if by_prefetch < by_faults {
                saves += by_faults - by_prefetch;
                let before = previous(&uses, at).filter(|_| used.same_range);
                if let Some(before) = before.filter(|before| uses[*before].place != used.place) {
                    moves[before].after = Some(used.place);
                }
                // Also if it was moved after the previous use: a plan begins in the middle.
                moves[at].before = true;
            } else {
                continue;
            }
            faults[usize::from(used.place == Place::Host)] += by_faults;
        }
        // Faults of one side that would take longer than the round did not happen: the program uses only parts of its buffers.
        let fit = |round: Duration| {
            faults
                .iter()
                .all(|faults| *faults <= round.saturating_add(round / 4))
        };
        let is_possible = !is_timed || round.is_none_or(fit);
        (saves > Duration::ZERO && is_possible).then_some(Self {
            steps,
            saves,
            is_timed,
            is_over_link: kept.contains(&Some(Kept::OnHost)),
        })
    }
}

impl Step {
    fn of(event: &Event) -> Self {
        let moves = event.uses.iter().map(|used| Moves {
            since: used.since,
            is_partial: used.is_partial,
            ..Moves::default()
        });
        Self {
            key: event.key,
            moves: moves.collect(),
        }
    }
}

/// The times in which faults and a prefetch bring the missing bytes.
fn times(used: &Use, model: &CostModel) -> (Duration, Duration) {
    let bytes = used.missing;
    if bytes == 0 {
        return (Duration::ZERO, Duration::ZERO);
    }
    match used.place {
        Place::Device(_) => (model.device_faults(bytes), model.prefetch_to_device(bytes)),
        Place::Host => (model.host_faults(bytes), model.prefetch_to_host(bytes)),
    }
}

/// The previous use of the buffer: of this round, or of the last one.
fn previous(uses: &[&Use], at: usize) -> Option<usize> {
    let since = usize::try_from(uses[at].since).ok()?;
    (1..=uses.len())
        .contains(&since)
        .then(|| match since <= at {
            true => at - since,
            false => at + uses.len() - since,
        })
}

/// The time that a use over the link takes longer.
fn by_link(used: &Use, kept: Kept, model: &CostModel) -> Duration {
    match (kept, used.place) {
        (Kept::OnHost, Place::Device(_)) => model.remote + at_rate(used.bytes, model.remote_rate),
        _ => Duration::ZERO,
    }
}

/// The advice for each use of a buffer that moves in each round and is better kept in place: read-mostly if both sides only read it, on
/// the host if uses over the link take less time than the moves.
fn kept(uses: &[&Use], model: &CostModel, over_link: bool) -> Vec<Option<Kept>> {
    let mut kept = vec![None; uses.len()];
    let mut is_seen = vec![false; uses.len()];
    for first in 0..uses.len() {
        let mut of_buffer = Vec::new();
        let mut at = Some(first).filter(|first| !is_seen[*first]);
        while let Some(this) = at.filter(|this| !is_seen[*this]) {
            is_seen[this] = true;
            of_buffer.push(this);
            at = previous(uses, this);
        }
        let all = || of_buffer.iter().map(|at| uses[*at]);
        let is_round = at == Some(first) && !of_buffer.is_empty();
        let can = is_round && all().all(|used| used.may_advise && !used.is_partial);
        if !can || !all().any(|used| used.missing > 0) {
            continue;
        }
        let moves = |used: &Use| {
            let (by_faults, by_prefetch) = times(used, model);
            by_faults.min(by_prefetch)
        };
        let link: Duration = all().map(|used| by_link(used, Kept::OnHost, model)).sum();
        let advice = if all().all(|used| !used.writes) {
            Some(Kept::Both)
        } else if over_link && link < all().map(moves).sum() {
            Some(Kept::OnHost)
        } else {
            None
        };
        of_buffer.iter().for_each(|at| kept[*at] = advice);
    }
    kept
}
