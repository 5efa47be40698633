//! Advice, and attributes of a range.

use super::managed::{AdviceChange, Attribute, AttributeValue, SYSTEM};
use super::place::Place;
use super::state::State;
use super::status::Code;
use cuda_um_cost::at_rate;

impl State {
    /// Applies advice to the pages that hold a range.
    pub(crate) fn advise(
        &mut self,
        address: usize,
        bytes: usize,
        change: AdviceChange,
    ) -> Result<(), Code> {
        if matches!(change.place(), Some(Place::Device(_))) && !self.machine.concurrent {
            return Err(Code::INVALID_DEVICE);
        }
        let (base, pages) = self.memory.prefetchable(address, bytes)?;
        if self.memory.is_of_pool(base) {
            return Err(Code::NOT_SUPPORTED);
        }
        self.now += self.machine.cost.advise;
        // With the host's page tables nothing of system memory is duplicated, and no processor needs a mapping of its own.
        if base == SYSTEM && self.machine.coherent && !matches!(change, AdviceChange::Preferred(_))
        {
            return Ok(());
        }
        if let Some(managed) = self.managed.get_mut(base) {
            managed.change_advice(&pages, |advice| advice.apply(change));
        }
        match change {
            AdviceChange::ReadMostly(false) => self.uvm().collapse(base, &pages),
            AdviceChange::AccessedBy(_, true) => {
                let spread = self.managed.spread(base, &pages);
                let mapped = spread.resident();
                self.now += at_rate(mapped, self.machine.cost.map_rate);
            }
            AdviceChange::AccessedBy(place, false) => {
                self.uvm().unmap(base, &pages, place.processor());
            }
            AdviceChange::ReadMostly(true) | AdviceChange::Preferred(_) => {}
        }
        Ok(())
    }

    /// The value of an attribute that all pages that hold a range have in common.
    pub(crate) fn range_attribute(
        &self,
        address: usize,
        bytes: usize,
        attribute: Attribute,
    ) -> Result<AttributeValue, Code> {
        let (base, pages) = self.memory.managed_range(address, bytes)?;
        self.managed
            .attribute(base, &pages, attribute)
            .ok_or(Code::INVALID_VALUE)
    }

    /// The place where most pages of a range are; `None` if most were never touched.
    pub(crate) fn location(&self, address: usize, bytes: usize) -> Result<Option<Place>, Code> {
        let (base, pages) = self.memory.prefetchable(address, bytes)?;
        Ok(self.managed.location(base, &pages))
    }
}
