//! Advice, and reading it back.

use super::address_space::PAGE;
use super::page::{HOST, Processor, Processors};
use super::place::Place;
use super::state::{Machine, State};
use super::status::Code;
use cuda_um_cost::at_rate;

/// A piece of advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdviceChange {
    ReadMostly(bool),
    Preferred(Option<Place>),
    AccessedBy(Place, bool),
}

/// An attribute of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attribute {
    ReadMostly,
    Preferred,
    AccessedBy,
    LastPrefetch,
}

/// What all pages of a range agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttributeValue {
    Flag(bool),
    /// None where pages differ, or have no such place.
    Place(Option<Place>),
    Processors(Processors),
}

impl AttributeValue {
    /// As the old interface numbers places: host -1, none -2.
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

impl State {
    /// Applies advice to the pages that hold a range.
    pub(crate) fn advise(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
        change: AdviceChange,
    ) -> Result<(), Code> {
        let place = match change {
            AdviceChange::Preferred(place) => place,
            AdviceChange::AccessedBy(place, _) => Some(place),
            AdviceChange::ReadMostly(_) => None,
        };
        if matches!(place, Some(Place::Device(_))) && !machine.concurrent {
            return Err(Code::INVALID_DEVICE);
        }
        let Some((base, pages)) = self.prefetchable(machine, address, bytes)? else {
            return Ok(());
        };
        self.now += machine.cost.advise;
        let mut mapped = 0;
        if let Some(managed) = self
            .allocations
            .get_mut(&base)
            .and_then(|allocation| allocation.managed_mut())
        {
            managed.change_advice(pages.clone(), |advice| match change {
                AdviceChange::ReadMostly(on) => advice.read_mostly = on,
                AdviceChange::Preferred(place) => advice.preferred = place,
                AdviceChange::AccessedBy(place, true) => {
                    advice.accessed_by = advice.accessed_by.with(place.processor())
                }
                AdviceChange::AccessedBy(place, false) => {
                    advice.accessed_by = advice.accessed_by.without(place.processor())
                }
            });
        }
        match change {
            AdviceChange::ReadMostly(false) => self.collapse(machine, base, &pages),
            AdviceChange::AccessedBy(_, true) => {
                let spread = self.spread(base, &pages);
                mapped = spread.device + spread.host;
            }
            AdviceChange::AccessedBy(place, false) => {
                self.unmap(machine, base, &pages, place.processor())
            }
            AdviceChange::ReadMostly(true) | AdviceChange::Preferred(_) => {}
        }
        self.now += at_rate(mapped, machine.cost.map_rate);
        Ok(())
    }

    /// Ends a processor's mapping of pages that are elsewhere.
    fn unmap(
        &mut self,
        machine: &Machine,
        base: usize,
        pages: &std::ops::Range<usize>,
        processor: Processor,
    ) {
        let Some((managed, _)) = self.managed(base) else {
            return;
        };
        for (run, mut page, _) in managed.runs(pages) {
            if page.mapped.contains(processor) {
                page.mapped = page.mapped.without(processor);
                self.place(machine, base, run, page);
            }
        }
    }

    /// What all pages that hold a range agree on.
    pub(crate) fn range_attribute(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
        attribute: Attribute,
    ) -> Result<AttributeValue, Code> {
        let (base, pages) = self.managed_range(machine, address, bytes)?;
        let Some((managed, _)) = self.managed(base) else {
            return Err(Code::INVALID_VALUE);
        };
        debug_assert!(pages.end * PAGE >= bytes);
        let mut advice = managed
            .advice
            .overlapping(&pages)
            .map(|(_, advice)| *advice);
        Ok(match attribute {
            Attribute::ReadMostly => AttributeValue::Flag(advice.all(|advice| advice.read_mostly)),
            Attribute::Preferred => {
                AttributeValue::Place(same(advice.map(|advice| advice.preferred)))
            }
            Attribute::LastPrefetch => {
                AttributeValue::Place(same(advice.map(|advice| advice.last_prefetch)))
            }
            Attribute::AccessedBy => {
                let first = advice
                    .next()
                    .map_or(Processors::NONE, |advice| advice.accessed_by);
                AttributeValue::Processors(
                    advice.fold(first, |all, advice| all.intersection(advice.accessed_by)),
                )
            }
        })
    }
}

impl State {
    /// Where most pages of a range are; none where most were never touched.
    pub(crate) fn location(
        &mut self,
        machine: &Machine,
        address: usize,
        bytes: usize,
    ) -> Result<Option<Place>, Code> {
        let (base, pages) = self.managed_range(machine, address, bytes)?;
        let Some((managed, _)) = self.managed(base) else {
            return Err(Code::INVALID_VALUE);
        };
        let mut counts: Vec<(Option<Processor>, usize)> = Vec::new();
        for (run, page) in managed.pages.overlapping(&pages) {
            let at = page.resident.device_first();
            let count = run.end.min(pages.end) - run.start.max(pages.start);
            match counts.iter_mut().find(|(place, _)| *place == at) {
                Some((_, all)) => *all += count,
                None => counts.push((at, count)),
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let place = |at: Processor| at.ordinal().map_or(Place::Host, Place::Device);
        Ok(most.and_then(|(at, _)| at).map(place))
    }
}

/// The place that all pages agree on.
fn same(mut places: impl Iterator<Item = Option<Place>>) -> Option<Place> {
    let first = places.next().flatten();
    places
        .all(|place| place == first)
        .then_some(first)
        .flatten()
}
