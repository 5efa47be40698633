//! All managed allocations, and queries about ranges of their pages.

use std::collections::BTreeMap;
use std::ops::Range;

use super::advice::{Advice, Attribute, AttributeValue};
use super::allocation::{Managed, SYSTEM};
use super::page::{HOST, Processor, Processors, common};
use crate::engine::address_space::PAGE;
use crate::engine::place::Place;

/// The pages of every managed allocation, by its first address.
pub(crate) struct ManagedMemory {
    allocations: BTreeMap<usize, Managed>,
    /// Counts the uses of blocks.
    uses: u64,
}

/// Bytes of a range, by where they are resident.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    host: u64,
    devices: BTreeMap<usize, u64>,
}

impl Spread {
    /// Bytes that are resident somewhere.
    pub(crate) fn resident(&self) -> u64 {
        self.host + self.devices.values().sum::<u64>()
    }

    /// The device with the most of the bytes, if more are on devices than on the host.
    pub(crate) fn device(self) -> Option<usize> {
        let on_devices: u64 = self.devices.values().sum();
        let most = self.devices.iter().max_by_key(|(_, bytes)| **bytes);
        most.filter(|_| on_devices > self.host)
            .map(|(ordinal, _)| *ordinal)
    }
}

impl ManagedMemory {
    /// With `system`, devices access system memory.
    pub(crate) fn new(system: bool) -> ManagedMemory {
        let system = system.then(|| (SYSTEM, Managed::system()));
        ManagedMemory {
            allocations: system.into_iter().collect(),
            uses: 0,
        }
    }

    /// Pages of system memory that are on a device.
    pub(crate) fn system_on_devices(&self) -> Vec<Range<usize>> {
        let pages = self
            .get(SYSTEM)
            .into_iter()
            .flat_map(|system| system.pages.iter());
        let on_device = pages.filter(|(_, page)| page.resident.device_first() != Some(HOST));
        on_device.map(|(pages, _)| pages.clone()).collect()
    }

    pub(crate) fn insert(&mut self, base: usize, managed: Managed) {
        self.allocations.insert(base, managed);
    }

    pub(crate) fn remove(&mut self, base: usize) {
        self.allocations.remove(&base);
    }

    /// The allocation that begins at `base`.
    pub(crate) fn get(&self, base: usize) -> Option<&Managed> {
        self.allocations.get(&base)
    }

    pub(crate) fn get_mut(&mut self, base: usize) -> Option<&mut Managed> {
        self.allocations.get_mut(&base)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Managed)> {
        self.allocations
            .iter()
            .map(|(base, managed)| (*base, managed))
    }

    /// A block is in use: it is evicted later than blocks that were used before.
    pub(crate) fn mark_used(&mut self, base: usize, block: usize) {
        self.uses += 1;
        let now = self.uses;
        if let Some(managed) = self.get_mut(base) {
            managed.used.insert(block, now);
        }
    }

    /// Bytes of a range that are resident on devices and on the host.
    pub(crate) fn spread(&self, base: usize, pages: &Range<usize>) -> Spread {
        let mut spread = Spread::default();
        let Some(managed) = self.get(base) else {
            return spread;
        };
        for (run, page) in managed.pages.overlapping(pages) {
            let bytes = (common(run, pages).len() * PAGE) as u64;
            if let Some(at) = page.resident.device_first() {
                *match at.ordinal() {
                    None => &mut spread.host,
                    Some(ordinal) => spread.devices.entry(ordinal).or_default(),
                } += bytes;
            }
        }
        spread
    }

    /// The place where most pages of a range are; `None` if most were never touched.
    pub(crate) fn location(&self, base: usize, pages: &Range<usize>) -> Option<Place> {
        let mut counts: Vec<(Option<Processor>, usize)> = Vec::new();
        for (run, page) in self.get(base)?.pages.overlapping(pages) {
            let at = page.resident.device_first();
            let count = common(run, pages).len();
            match counts.iter_mut().find(|(place, _)| *place == at) {
                Some((_, all)) => *all += count,
                None => counts.push((at, count)),
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let place = |at: Processor| at.ordinal().map_or(Place::Host, Place::Device);
        most.and_then(|(at, _)| at).map(place)
    }

    /// The value of an attribute that all pages of a range have in common.
    pub(crate) fn attribute(
        &self,
        base: usize,
        pages: &Range<usize>,
        attribute: Attribute,
    ) -> Option<AttributeValue> {
        let mut advice = self
            .get(base)?
            .advice
            .overlapping(pages)
            .map(|(_, advice)| *advice);
        Some(match attribute {
            Attribute::ReadMostly => AttributeValue::Flag(advice.all(|advice| advice.read_mostly)),
            Attribute::Preferred => {
                AttributeValue::Place(common_place(advice.map(|advice| advice.preferred)))
            }
            Attribute::LastPrefetch => {
                AttributeValue::Place(common_place(advice.map(|advice| advice.last_prefetch)))
            }
            Attribute::AccessedBy => AttributeValue::Processors(
                advice
                    .map(|advice: Advice| advice.accessed_by)
                    .reduce(Processors::intersection)
                    .unwrap_or(Processors::NONE),
            ),
        })
    }
}

/// The place that all pages have in common.
fn common_place(mut places: impl Iterator<Item = Option<Place>>) -> Option<Place> {
    let first = places.next().flatten();
    places
        .all(|place| place == first)
        .then_some(first)
        .flatten()
}
