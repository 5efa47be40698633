//! What pays: the moves of one period, from its uses and the cost model.

use crate::auto::sequence::{Event, Use};
use crate::resource::cache::Place;
use cuda_um_cost::CostModel;
use smallvec::SmallVec;
use std::time::Duration;

/// The moves for one use of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// The distance to the previous use of the buffer, which the use must have.
    since: u64,
    /// Prefetch to the place of the use, before it.
    pub(super) before: bool,
    /// Prefetch to this place, as soon as the use is over.
    pub(super) after: Option<Place>,
    /// The use leaves most pages where they are.
    pub(super) is_partial: bool,
    /// Make the buffer read-mostly before the use.
    pub(super) duplicates: bool,
}

/// An event of the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    key: u64,
    pub(super) moves: SmallVec<[Moves; 4]>,
}

impl Step {
    pub(super) fn is(&self, event: &Event) -> bool {
        let mut uses = self.moves.iter().zip(&event.uses);
        self.key == event.key
            && self.moves.len() == event.uses.len()
            && uses.all(|(moves, used)| moves.since == used.since)
    }
}

/// The moves of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The time that it saves in each round, by the cost model.
    pub(super) saves: Duration,
    /// True if the host waits for the device in each round, so that the times of rounds can be compared.
    pub(super) is_timed: bool,
}

impl Plan {
    /// Plans a period; `None` if no move pays. `round` is the time of a round without moves, if it is known.
    pub(super) fn of<'e>(
        period: impl Iterator<Item = &'e Event> + Clone,
        model: &CostModel,
        round: Option<Duration>,
    ) -> Option<Self> {
        let step = |event: &Event| Step {
            key: event.key,
            moves: (event.uses.iter())
                .map(|used| Moves {
                    since: used.since,
                    is_partial: used.is_partial,
                    ..Moves::default()
                })
                .collect(),
        };
        let is_timed = period.clone().any(|event| event.waits);
        let uses: Vec<&Use> = period.clone().flat_map(|event| &event.uses).collect();
        let mut steps: Vec<Step> = period.map(step).collect();
        let mut moves: Vec<&mut Moves> = steps.iter_mut().flat_map(|step| &mut step.moves).collect();
        let duplicated = duplicated(&uses);
        let (mut saves, mut faults) = (Duration::ZERO, Duration::ZERO);
        for (at, used) in uses.iter().enumerate().filter(|(_, used)| used.missing > 0) {
            let (by_faults, by_prefetch) = times(used, model);
            if duplicated[at] {
                saves += by_faults;
            } else if by_prefetch < by_faults {
                saves += by_faults - by_prefetch;
                match previous(&uses, at).filter(|_| used.same_range) {
                    Some(before) if uses[before].place != used.place => {
                        moves[before].after = Some(used.place);
                    }
                    _ => {}
                }
                // Also if it was moved after the previous use: a plan begins in the middle.
                moves[at].before = true;
            } else {
                continue;
            }
            faults += by_faults;
        }
        for (at, _) in duplicated.iter().enumerate().filter(|(_, is)| **is) {
            (moves[at].before, moves[at].duplicates) = (true, true);
        }
        // Faults that would take longer than the round did not happen: the program uses only parts of its buffers.
        let is_possible = round.is_none_or(|round| !is_timed || faults <= round + round / 4);
        (saves > Duration::ZERO && is_possible).then_some(Self {
            steps,
            saves,
            is_timed,
        })
    }
}

/// The times in which faults and a prefetch bring the missing bytes.
fn times(used: &Use, model: &CostModel) -> (Duration, Duration) {
    let bytes = used.missing;
    match used.place {
        Place::Device(_) => (model.device_faults(bytes), model.prefetch_to_device(bytes)),
        Place::Host => (model.host_faults(bytes), model.prefetch_to_host(bytes)),
    }
}

/// The previous use of the buffer: of this round, or of the last one.
fn previous(uses: &[&Use], at: usize) -> Option<usize> {
    let since = usize::try_from(uses[at].since).ok()?;
    (1..=uses.len()).contains(&since).then(|| match since <= at {
        true => at - since,
        false => at + uses.len() - since,
    })
}

/// The uses of buffers that host and device only read in each round, and that move in each: as read-mostly memory they stay.
fn duplicated(uses: &[&Use]) -> Vec<bool> {
    let mut is_duplicated = vec![false; uses.len()];
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
        if is_round
            && all().all(|used| !used.writes && used.may_duplicate)
            && all().any(|used| used.missing > 0)
        {
            of_buffer.iter().for_each(|at| is_duplicated[*at] = true);
        }
    }
    is_duplicated
}
