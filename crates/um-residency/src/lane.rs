//! The transfers of one direction, one after another.

use um_backend::cuda_um::{Device, Stream};

pub(crate) struct Lane(Stream);

impl Lane {
    pub(crate) fn new(device: &Device) -> um_backend::Result<Self> {
        Ok(Self(device.create_stream()?))
    }

    /// Enqueues a transfer behind all earlier ones of the direction.
    pub(crate) fn enqueue(
        &self,
        transfer: impl FnOnce(&Stream) -> um_backend::Result<()>,
    ) -> um_backend::Result<()> {
        transfer(&self.0)?;
        // The event is the transfer's end. Without it, a step that needs this transfer also waits for those ahead of later steps, which costs
        // only time.
        let _ = self.0.record();
        Ok(())
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0
    }
}
