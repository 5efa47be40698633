//! How a processor reaches a page: the rules of residency, advice and coherence.

use super::allocation::Run;
use super::driver::UvmDriver;
use super::page::Processor;

/// How a processor reaches a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// The page is resident there.
    Local,
    /// The page is resident there and elsewhere, and a write must end the duplicates.
    Collapse,
    /// Over the link: the page is mapped already, or by advice.
    Remote,
    /// Over the link, after a fault that maps the page at this processor.
    MapRemote(Processor),
    /// After a fault that brings the page.
    Fault,
}

impl UvmDriver<'_> {
    /// How `processor` reaches pages in this state and with this advice.
    pub(super) fn reach(&self, processor: Processor, run: &Run, write: bool) -> Reach {
        let Run { page, advice, .. } = run;
        if self.machine.one_memory() {
            return Reach::Local;
        }
        if page.resident.contains(processor) {
            return if write && page.resident.len() > 1 {
                Reach::Collapse
            } else {
                Reach::Local
            };
        }
        let preferred = advice.preferred.map(|place| place.processor());
        let duplicates = advice.read_mostly && !write;
        let Some(holder) = page.resident.device_first() else {
            return match preferred {
                Some(place)
                    if place != processor && !duplicates && self.reachable(processor, place) =>
                {
                    Reach::MapRemote(place)
                }
                _ => Reach::Fault,
            };
        };
        if duplicates || !self.reachable(processor, holder) {
            return Reach::Fault;
        }
        // One page table serves the host and the devices.
        let shared = run.system && self.machine.coherent;
        if shared || advice.accessed_by.contains(processor) || page.mapped.contains(processor) {
            return Reach::Remote;
        }
        if self.machine.coherent || preferred == Some(holder) {
            Reach::MapRemote(holder)
        } else {
            Reach::Fault
        }
    }

    /// Whether `processor` can reach memory that stays at `holder`.
    fn reachable(&self, processor: Processor, holder: Processor) -> bool {
        match (processor.ordinal(), holder.ordinal()) {
            (Some(_), None) => self.machine.concurrent,
            (None, Some(_)) => self.machine.coherent,
            (Some(from), Some(to)) => self.devices[from].peers.contains(&to),
            (None, None) => true,
        }
    }
}
