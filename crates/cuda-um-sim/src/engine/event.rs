//! Recording events, and waiting for them.

use std::sync::Arc;

use super::state::State;
use super::status::Code;
use super::stream::Stream;

impl State {
    /// Records an event: it completes when the work enqueued so far has.
    pub(crate) fn record_event(&mut self, handle: usize, stream: &Arc<Stream>) -> Result<(), Code> {
        if self.events.get(handle)?.device != stream.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        self.now += self.machine.cost.event_record;
        let done = self.enqueue(stream, |start| start);
        self.events.record(handle, done);
        Ok(())
    }

    /// Makes a stream wait for an event; it does not wait for an event that was never recorded.
    pub(crate) fn wait_event(&mut self, stream: &Arc<Stream>, handle: usize) -> Result<(), Code> {
        let recorded = self.events.get(handle)?.recorded.clone();
        self.now += self.machine.cost.stream_wait;
        if let Some(recorded) = recorded {
            let work = Box::new(|start| start);
            self.streams.enqueue(self.now, stream, vec![recorded], work);
        }
        Ok(())
    }
}
