//! Links: what bytes take from one processor to another, and when it is free.

use std::collections::BTreeMap;
use std::time::Duration;

use super::device::Devices;
use super::managed::{HOST, Processor};
use cuda_um_cost::{PeerLink, at_rate};

/// The link of a device to the host in one direction. Copies and prefetches that take it at the same time come one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    ToHost(usize),
    FromHost(usize),
}

/// When each link is free again.
#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<Lane, Duration>);

/// What uses a link between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Copy,
    /// The driver of managed memory, which uses NVLink without peer access.
    Migration,
}

/// From one processor to another.
pub(crate) type Route = (Processor, Processor, By);

impl Devices {
    /// The link of two devices.
    pub(crate) fn peer_link(&self, from: usize, to: usize, by: By) -> PeerLink {
        let is_enabled = self.reaches(from, to) || self.reaches(to, from);
        match self.machine().topology.link() {
            _ if !self.can_access(from, to) => PeerLink::Host,
            PeerLink::NvLink if by == By::Migration => PeerLink::NvLink,
            link if is_enabled => link,
            _ => PeerLink::Host,
        }
    }

    /// Bytes a second of a prefetch, which moves or duplicates pages.
    pub(crate) fn prefetch_rate(&self, from: Processor, to: Processor, duplicate: bool) -> f64 {
        let cost = &self.machine().cost;
        match self.link_of(from, to) {
            Some(PeerLink::NvLink) if duplicate => cost.peer_duplicate_rate,
            Some(link) => cost.peer_prefetch_rate_over(link),
            None if to == HOST => cost.prefetch_to_host_rate,
            None => cost.prefetch_to_device_rate,
        }
    }

    /// Bytes a second of the copies that faults cause.
    pub(crate) fn fault_rate(&self, from: Processor, to: Processor) -> f64 {
        let cost = &self.machine().cost;
        match self.link_of(from, to) {
            Some(PeerLink::NvLink) => cost.peer_fault_rate,
            // The pages go to the host, and then to the device.
            Some(PeerLink::Host) => cost.fault_rate / 2.0,
            Some(_) | None => cost.fault_rate,
        }
    }

    /// The time of a kernel on `to` that uses bytes of `from` where they are.
    pub(crate) fn peer_time(&self, from: usize, to: usize, bytes: u64) -> Duration {
        let link = self.peer_link(from, to, By::Migration);
        at_rate(bytes, self.machine().cost.peer_rate_over(link))
    }

    fn link_of(&self, from: Processor, to: Processor) -> Option<PeerLink> {
        Some(self.peer_link(from.ordinal()?, to.ordinal()?, By::Migration))
    }

    fn lanes(&self, (from, to, by): Route) -> Vec<Lane> {
        match (from.ordinal(), to.ordinal()) {
            (None, None) => Vec::new(),
            (None, Some(to)) => vec![Lane::FromHost(to)],
            (Some(from), None) => vec![Lane::ToHost(from)],
            (Some(from), Some(to)) if from == to => Vec::new(),
            (Some(from), Some(to)) => match self.peer_link(from, to, by) {
                PeerLink::NvLink => Vec::new(),
                _ => vec![Lane::ToHost(from), Lane::FromHost(to)],
            },
        }
    }

    /// Work of a device takes the links of the routes for `cost` from `start` on, or from when all are free. Returns its end.
    pub(crate) fn carry(
        &mut self,
        device: usize,
        routes: impl IntoIterator<Item = Route>,
        start: Duration,
        cost: Duration,
    ) -> Duration {
        let lanes = routes.into_iter().flat_map(|route| self.lanes(route));
        let lanes: Vec<Lane> = lanes.collect();
        let links = &mut self.links.0;
        let free = lanes.iter().filter_map(|lane| links.get(lane));
        let end = free.fold(start, |start, free| start.max(*free)) + cost;
        links.extend(lanes.iter().map(|lane| (*lane, end)));
        self[device].worked_until(end);
        end
    }

    /// The routes of migrations from several processors to one.
    pub(crate) fn migrations(
        from: impl Iterator<Item = Processor>,
        to: Processor,
    ) -> impl Iterator<Item = Route> {
        from.filter(move |from| *from != to)
            .map(move |from| (from, to, By::Migration))
    }
}

/// The processor of a device, or the host for `None`.
pub(crate) fn processor(device: Option<usize>) -> Processor {
    device.map_or(HOST, Processor::device)
}
