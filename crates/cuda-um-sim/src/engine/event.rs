//! Recording events, and waiting for them.

use std::sync::Arc;

use super::state::State;
use super::status::Code;
use super::stream::Stream;

impl State {
    /// Records an event: it completes when the work enqueued so far has. An external event of a capture is a node of its graph.
    pub(crate) fn record_event(
        &mut self,
        handle: usize,
        stream: &Arc<Stream>,
        external: bool,
    ) -> Result<(), Code> {
        if self.events.get(handle)?.device != stream.device {
            return Err(Code::INVALID_RESOURCE_HANDLE);
        }
        self.now += self.machine.cost.event_record;
        if self.graphs.is_capturing(stream)? {
            self.capture_record(stream, handle, external);
            return Ok(());
        }
        let done = self.enqueue(stream, |start| start);
        self.events.record(handle, done);
        Ok(())
    }

    /// Makes a stream wait for an event; it does not wait for an event that was never recorded.
    pub(crate) fn wait_event(
        &mut self,
        stream: &Arc<Stream>,
        handle: usize,
        external: bool,
    ) -> Result<(), Code> {
        let recorded = self.events.get(handle)?.recorded.clone();
        self.now += self.machine.cost.stream_wait;
        if self.wait_captured(stream, handle, external)? {
            return Ok(());
        }
        if let Some(recorded) = recorded {
            let work = Box::new(|start| start);
            self.streams.enqueue(self.now, stream, vec![recorded], work);
        }
        Ok(())
    }
}
