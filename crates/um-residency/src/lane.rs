//! The transfers of one direction, one after another.

use um_backend::cuda_um::{Device, Event, Stream};

pub(crate) struct Lane(Stream);

impl Lane {
    pub(crate) fn new(device: &Device) -> um_backend::Result<Self> {
        Ok(Self(device.stream()?))
    }

    /// Enqueues a transfer behind all earlier ones of the direction. Returns its end, if CUDA has an event for it.
    pub(crate) fn enqueue(
        &self,
        transfer: impl FnOnce(&Stream) -> um_backend::Result<()>,
    ) -> um_backend::Result<Option<Event>> {
        transfer(&self.0)?;
        // Without the event, a step that needs this transfer also waits for those ahead of later steps, which costs only time.
        Ok(self.0.record().ok())
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0
    }
}
