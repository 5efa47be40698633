//! The candidates of a plan, and the recipes.

use super::uses::InPlace;

/// Which buffers stay if not all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Buffers at equal distances, so that transfers are spread over the pass.
    Spread,
    /// The shortest time from the last use to the next one first (Belady's rule).
    Nearest,
    /// In order of the first use.
    First,
    /// The same without space for others. Buffers leave when space is needed, and the rest stays.
    Full,
    /// The latest used ones.
    Latest,
    Nothing,
}

/// What stays in the arena between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Buffers that cost least, in proportion to the time until their next use, leave (Belady's rule, with costs).
    Best,
    /// Least recently used buffers leave.
    Recent,
    /// Only buffers that are resident at the beginning of the pass.
    Resident,
}

/// Programs with more uses have fewer candidates.
pub(crate) const MANY_USES: usize = 2000;
/// Transfers that have a place ahead of their step, at most.
pub(crate) const MOST_AHEAD: usize = 2;

/// A candidate: what stays between passes, what is kept within a pass, how many transfers have a place ahead of their step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub stay: Stay,
    pub keep: Keep,
    pub ahead: usize,
    pub in_place: InPlace,
    pub out_weight: f64,
    /// For [`Stay::Spread`]: the part of the cheaper ones of written and read-only buffers that may stay.
    pub part: f64,
    /// It is tried for programs with many uses, too.
    pub quick: bool,
}

const fn candidate(stay: Stay, keep: Keep, ahead: usize, out_weight: f64) -> Candidate {
    Candidate {
        stay,
        keep,
        ahead,
        in_place: InPlace::Nothing,
        out_weight,
        part: 1.0,
        quick: false,
    }
}

const fn part(part: f64) -> Candidate {
    Candidate {
        part,
        ..candidate(Stay::Spread, Keep::Best, 1, 1.0)
    }
}

const fn quick(stay: Stay, out_weight: f64) -> Candidate {
    Candidate {
        quick: true,
        ..candidate(stay, Keep::Best, 1, out_weight)
    }
}

impl Candidate {
    /// Candidates that differ in one choice. They are tried if the best one so far is not close to the bound.
    pub(crate) fn neighbours(self, cyclic: bool) -> impl Iterator<Item = Self> {
        let weights = [0.5, 0.7, 1.4, 2.0].map(|times| Self {
            out_weight: self.out_weight * times,
            ..self
        });
        let aheads = [self.ahead.wrapping_sub(1), self.ahead + 1];
        let aheads = aheads.map(|ahead| Self { ahead, ..self });
        let parts = [-0.2, -0.1, 0.1, 0.2].map(|more| Self {
            part: self.part + more,
            ..self
        });
        let stays = [Stay::Spread, Stay::Nearest, Stay::Full].map(|stay| Self { stay, ..self });
        let is_allowed = move |other: &Self| {
            let spread = other.stay == Stay::Spread && (0.05..1.05).contains(&other.part);
            let same = other.part == self.part && other.stay == self.stay;
            other.ahead <= MOST_AHEAD && (same || (cyclic && (spread || other.part == self.part)))
        };
        let all = weights.into_iter().chain(aheads).chain(parts).chain(stays);
        all.filter(is_allowed)
    }
}

/// In this order. The last ones are the recipes of programs without a planner, so that no plan is slower.
pub(crate) const CANDIDATES: [Candidate; 17] = [
    quick(Stay::Spread, 1.0),
    candidate(Stay::Nearest, Keep::Best, 1, 1.0),
    quick(Stay::Spread, 0.1),
    candidate(Stay::Nearest, Keep::Best, 1, 0.1),
    candidate(Stay::Spread, Keep::Best, 1, 0.5),
    candidate(Stay::Full, Keep::Best, 1, 1.0),
    candidate(Stay::Full, Keep::Best, 1, 0.1),
    candidate(Stay::Spread, Keep::Best, 2, 1.0),
    part(0.4),
    part(0.7),
    candidate(Stay::Spread, Keep::Best, 2, 0.1),
    candidate(Stay::Spread, Keep::Best, 0, 1.0),
    candidate(Stay::Nearest, Keep::Best, 0, 1.0),
    candidate(Stay::Full, Keep::Best, 0, 1.0),
    Recipe::LeastRecentlyUsed.candidate(),
    Recipe::PinnedPrefix.candidate(),
    Recipe::DoubleBuffer.candidate(),
];

/// What programs do without a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// Every step's buffers are transferred while the step before runs, and leave after it.
    DoubleBuffer,
    /// The first buffers of the pass stay, the others have a double buffer.
    PinnedPrefix,
    /// The least recently used buffer leaves, and the next one is transferred during the step before.
    LeastRecentlyUsed,
    /// Buffers that can be read in place are, the others have a double buffer.
    InPlace,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 4] = [
        Self::DoubleBuffer,
        Self::PinnedPrefix,
        Self::LeastRecentlyUsed,
        Self::InPlace,
    ];

    pub(crate) const fn candidate(self) -> Candidate {
        match self {
            Self::DoubleBuffer => candidate(Stay::Nothing, Keep::Resident, 1, 1.0),
            Self::PinnedPrefix => candidate(Stay::First, Keep::Resident, 1, 1.0),
            Self::LeastRecentlyUsed => Candidate {
                quick: true,
                ..candidate(Stay::Latest, Keep::Recent, 1, 1.0)
            },
            Self::InPlace => Candidate {
                in_place: InPlace::All,
                ..candidate(Stay::Nothing, Keep::Resident, 1, 1.0)
            },
        }
    }
}
