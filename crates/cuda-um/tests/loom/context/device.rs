//! A device: its calls, its transfers, and the memory that pools have of it.

use crate::context::slot::Slot;
use crate::driver::Api;
use crate::raw_memory::RawMemory;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct DeviceState {
    pub(crate) api: Arc<Api>,
    pub(crate) ordinal: u32,
    pub(crate) transfers: Slot,
}

#[derive(Clone, Default)]
pub(crate) struct Device {
    api: Arc<Api>,
    reclaim: Reclaim,
    memory: Arc<RawMemory>,
}

impl Device {
    /// With so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self {
            api: Arc::default(),
            reclaim: Reclaim,
            memory: Arc::new(RawMemory::of(bytes)),
        }
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub(crate) fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    pub(crate) fn ordinal(&self) -> u32 {
        0
    }

    pub(crate) fn memory(&self) -> &Arc<RawMemory> {
        &self.memory
    }
}

/// Memory is freed at once: no work uses it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reclaim;

impl Reclaim {
    pub(crate) fn flush(&self) {}

    pub(crate) fn give_way(&self) {}
}
