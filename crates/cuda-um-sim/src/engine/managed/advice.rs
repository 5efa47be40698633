//! Advice, and the attributes of a range.

use super::page::{HOST, Processor, Processors};
use crate::engine::place::Place;

/// Advice and the last prefetch of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Option<Place>,
    pub(crate) accessed_by: Processors,
    pub(crate) last_prefetch: Option<Place>,
}

/// A piece of advice, set or unset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdviceChange {
    ReadMostly(bool),
    Preferred(Option<Place>),
    AccessedBy(Place, bool),
}

impl AdviceChange {
    /// The place that the advice names.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            AdviceChange::Preferred(place) => place,
            AdviceChange::AccessedBy(place, _) => Some(place),
            AdviceChange::ReadMostly(_) => None,
        }
    }
}

impl Advice {
    pub(crate) fn apply(&mut self, change: AdviceChange) {
        match change {
            AdviceChange::ReadMostly(on) => self.read_mostly = on,
            AdviceChange::Preferred(place) => self.preferred = place,
            AdviceChange::AccessedBy(place, true) => {
                self.accessed_by = self.accessed_by.with(place.processor());
            }
            AdviceChange::AccessedBy(place, false) => {
                self.accessed_by = self.accessed_by.without(place.processor());
            }
        }
    }
}

/// An attribute of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attribute {
    ReadMostly,
    Preferred,
    AccessedBy,
    LastPrefetch,
}

/// The value of an attribute that all pages of a range have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttributeValue {
    Flag(bool),
    /// `None` if pages differ, or have no such place.
    Place(Option<Place>),
    Processors(Processors),
}

impl AttributeValue {
    /// The number of a place in the old interface: -1 for the host, -2 for none.
    pub(crate) fn number(place: Option<Place>) -> i32 {
        match place {
            None => -2,
            Some(Place::Host | Place::HostNuma(_)) => -1,
            Some(Place::Device(ordinal)) => ordinal as i32,
        }
    }

    /// Numbers of a set of processors, devices first.
    pub(crate) fn numbers(processors: Processors) -> Vec<i32> {
        let devices = processors
            .iter()
            .filter_map(Processor::ordinal)
            .map(|ordinal| ordinal as i32);
        devices
            .chain(processors.contains(HOST).then_some(-1))
            .collect()
    }
}
