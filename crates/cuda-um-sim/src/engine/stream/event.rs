//! Events: points of a stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use crate::engine::handle::Handles;
use crate::engine::status::Code;

/// An event.
#[derive(Clone)]
pub(crate) struct Event {
    /// It is recorded only on streams of this device.
    pub(crate) device: usize,
    timed: bool,
    pub(crate) recorded: Option<Arc<Completion>>,
    /// If it was last recorded in a capture: the capture, and the nodes that it stands for.
    pub(crate) captured: Option<(u64, Vec<usize>)>,
}

/// All events of one simulator.
pub(crate) struct Events {
    handles: Handles,
    events: HashMap<usize, Event>,
}

impl Events {
    pub(crate) fn new(handles: Handles) -> Events {
        let events = HashMap::new();
        Events { handles, events }
    }

    pub(crate) fn create(&mut self, device: usize, timed: bool) -> usize {
        let handle = self.handles.fresh();
        let event = Event {
            device,
            timed,
            recorded: None,
            captured: None,
        };
        self.events.insert(handle, event);
        handle
    }

    pub(crate) fn destroy(&mut self, handle: usize) -> Result<(), Code> {
        let event = self.events.remove(&handle);
        event.map(drop).ok_or(Code::INVALID_RESOURCE_HANDLE)
    }

    pub(crate) fn get(&self, handle: usize) -> Result<&Event, Code> {
        self.events
            .get(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)
    }

    /// The event completes with `done` from now on.
    pub(crate) fn record(&mut self, handle: usize, done: Arc<Completion>) {
        if let Some(event) = self.events.get_mut(&handle) {
            event.recorded = Some(done);
            event.captured = None;
        }
    }

    /// The event stands for these nodes of a capture from now on.
    pub(crate) fn capture(&mut self, handle: usize, capture: u64, nodes: Vec<usize>) {
        if let Some(event) = self.events.get_mut(&handle) {
            event.captured = Some((capture, nodes));
        }
    }

    /// The number of events that were created and not destroyed.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }

    /// Time between two completed events of one device, and whether the second was before the first.
    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Result<(Duration, bool), Code> {
        if self.get(start)?.device != self.get(end)?.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        let time = |handle: usize| {
            let event = self.get(handle)?;
            if !event.timed {
                return Err(Code::INVALID_RESOURCE_HANDLE);
            }
            event
                .recorded
                .as_ref()
                .ok_or(Code::INVALID_RESOURCE_HANDLE)?
                .get()
                .ok_or(Code::NOT_READY)
        };
        let (start, end) = (time(start)?, time(end)?);
        Ok((end.abs_diff(start), end < start))
    }
}
