//! An event: behind how many copies it was recorded last.

use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::driver::Api;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct RawEvent {
    api: Arc<Api>,
    /// 0: not recorded, so done. The lock of its lane guards it.
    position: AtomicU64,
}

impl RawEvent {
    pub(crate) fn create(device: &DeviceState, _timed: bool) -> Result<Self> {
        Ok(Self {
            api: Arc::clone(&device.api),
            position: AtomicU64::new(0),
        })
    }

    pub(crate) fn record_again(&self, stream: &StreamInner) -> Result<()> {
        self.position
            .store(stream.api().record()?, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> Result<bool> {
        unreachable!("no stream is dropped")
    }

    pub(crate) fn wait(&self) -> Result<()> {
        self.api.wait(self.position.load(Ordering::Relaxed))
    }
}
