//! Events: a point of a stream, remembered.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::recorded::Event;
use super::state::State;
use super::status::Code;
use super::stream::Stream;

impl State {
    pub(crate) fn create_event(&mut self, device: usize, timed: bool) -> usize {
        let handle = self.handle();
        self.events.insert(
            handle,
            Event {
                device,
                timed,
                recorded: None,
            },
        );
        handle
    }

    pub(crate) fn event(&self, handle: usize) -> Result<&Event, Code> {
        self.events
            .get(&handle)
            .ok_or(Code::INVALID_RESOURCE_HANDLE)
    }

    /// Records an event: it completes when the work enqueued so far has.
    pub(crate) fn record_event(
        &mut self,
        core: &Arc<Core>,
        handle: usize,
        stream: &Arc<Stream>,
    ) -> Result<(), Code> {
        if self.event(handle)?.device != stream.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        self.now += core.machine.cost.event_record;
        let done = self.enqueue(core, stream, Vec::new(), Box::new(|_, start| start));
        self.events
            .entry(handle)
            .and_modify(|event| event.recorded = Some(done));
        Ok(())
    }

    /// Makes a stream wait for what an event has recorded; an event that recorded nothing holds nobody up.
    pub(crate) fn wait_event(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        handle: usize,
    ) -> Result<(), Code> {
        let recorded = self.event(handle)?.recorded.clone();
        self.now += core.machine.cost.stream_wait;
        if let Some(recorded) = recorded {
            self.enqueue(core, stream, vec![recorded], Box::new(|_, start| start));
        }
        Ok(())
    }

    /// Time between two completed events of one device.
    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Result<(Duration, bool), Code> {
        if self.event(start)?.device != self.event(end)?.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        let time = |handle: usize| {
            let event = self.event(handle)?;
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
