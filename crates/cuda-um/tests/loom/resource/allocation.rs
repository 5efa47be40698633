//! A pool's slab: memory of `RawMemory` that goes back when it is dropped.

use crate::context::tracker::InFlight;
use crate::label::Label;
use crate::raw_memory::RawMemory;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) struct Allocation {
    memory: Arc<RawMemory>,
    pointer: NonNull<u8>,
    bytes: usize,
    pub(crate) in_flight: InFlight,
}

#[allow(unsafe_code, reason = "an address")]
// SAFETY: no code reads or writes there.
unsafe impl Send for Allocation {}

impl Allocation {
    /// None if so much is not there.
    pub(crate) fn of(memory: &Arc<RawMemory>, bytes: usize) -> Option<Self> {
        Some(Self {
            pointer: memory.allocate(bytes)?,
            memory: Arc::clone(memory),
            bytes,
            in_flight: InFlight::default(),
        })
    }

    pub(crate) fn labelled(self, _: Label) -> Self {
        self
    }

    pub(crate) fn id(&self) -> u64 {
        self.pointer.as_ptr().addr() as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    pub(crate) fn device_pointer(&self) -> Option<NonNull<u8>> {
        None
    }

    pub(crate) fn leak(self) {
        panic!("a slab lost a block");
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let start = self.pointer.as_ptr().addr();
            self.memory.free(&(start..start + self.bytes));
        }
    }
}
