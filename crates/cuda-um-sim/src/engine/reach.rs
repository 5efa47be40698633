//! How a processor reaches a page: the rules of residency, advice and coherence.

use super::address_space::HostAccess;
use super::allocation::Advice;
use super::page::{HOST, Page, Processor};
use super::state::{Machine, State};

/// How a processor reaches a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// It is there.
    Local,
    /// It is there, and so are duplicates that a write must end.
    Collapse,
    /// Over the link; already mapped, or mapped by advice.
    Remote,
    /// Over the link, after a fault that maps it.
    MapRemote(Processor),
    /// After a fault that brings it.
    Fault,
}

impl State {
    /// How `processor` reaches a page in this state and with this advice.
    pub(crate) fn reach(
        &self,
        machine: &Machine,
        processor: Processor,
        page: Page,
        advice: Advice,
        write: bool,
    ) -> Reach {
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
                    if place != processor
                        && !duplicates
                        && self.reachable(machine, processor, place) =>
                {
                    Reach::MapRemote(place)
                }
                _ => Reach::Fault,
            };
        };
        if duplicates || !self.reachable(machine, processor, holder) {
            return Reach::Fault;
        }
        if advice.accessed_by.contains(processor) || page.mapped.contains(processor) {
            return Reach::Remote;
        }
        if machine.coherent || preferred == Some(holder) {
            Reach::MapRemote(holder)
        } else {
            Reach::Fault
        }
    }

    /// Whether `processor` can reach memory that stays at `holder`.
    fn reachable(&self, machine: &Machine, processor: Processor, holder: Processor) -> bool {
        match (processor.ordinal(), holder.ordinal()) {
            (Some(_), None) => machine.concurrent,
            (None, Some(_)) => machine.coherent,
            (Some(from), Some(to)) => self.devices[from].peers.contains(&to),
            (None, None) => true,
        }
    }
}

impl Machine {
    /// What the host may do with a page in this state without faulting.
    pub(crate) fn host_access(&self, page: Page) -> HostAccess {
        if page.resident.contains(HOST) {
            if page.resident.len() > 1 {
                HostAccess::Read
            } else {
                HostAccess::ReadWrite
            }
        } else if page.mapped.contains(HOST) {
            HostAccess::ReadWrite
        } else {
            HostAccess::None
        }
    }
}
