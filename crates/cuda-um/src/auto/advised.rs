//! Buffers that plans made read-mostly: the advice ends with the session, or with the buffer.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::context::device::Device;
use crate::driver::advice::Advice;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::cache::By;
use crate::sync::Mutex;
use std::ops::Range;

/// A buffer with the advice.
pub(super) struct Advised {
    session: u64,
    buffer: u64,
    device: Device,
    addresses: Range<*mut u8>,
}

// SAFETY: the addresses are only passed to CUDA, while the list has the buffer.
unsafe impl Send for Advised {}

/// A buffer is in the list as long as it lives: its drop takes the lock before the memory is freed.
static ADVISED: Mutex<Vec<Advised>> = Mutex::new(Vec::new());

/// Makes a buffer read-mostly.
///
/// The residency cache does not learn of it: the advice may end at any time, and without it the cache only knows less.
pub(super) fn set(session: u64, raw: &Allocation) -> Result<()> {
    let addresses = raw.address_range(&(0..raw.bytes()));
    let (number, location) = Advice::SetReadMostly.to_sys();
    raw.track_advice(&addresses, number, location);
    ADVISED.lock().push(Advised {
        session,
        buffer: raw.id(),
        device: raw.device().clone(),
        addresses: addresses.clone(),
    });
    raw.cache.touched(By::Unknown);
    let device = raw.device();
    // SAFETY: the range is the buffer's live managed memory.
    unsafe {
        device
            .api()
            .advise(device.ordinal(), addresses, number, location)
    }
}

/// Ends the advice of a buffer.
pub(super) fn unset(raw: &Allocation) -> Result<()> {
    raw.cache.touched(By::Unknown);
    match remove(raw.id()) {
        Some(advised) => advised.unset(),
        None => Ok(()),
    }
}

/// Forgets a buffer that is dropped.
pub(super) fn remove(buffer: u64) -> Option<Advised> {
    let mut list = ADVISED.lock();
    let at = list.iter().position(|advised| advised.buffer == buffer)?;
    Some(list.swap_remove(at))
}

/// Ends the advice of all buffers of a session.
pub(super) fn unset_all(session: u64) -> Result<()> {
    let mut list = ADVISED.lock();
    let advised = list.extract_if(.., |advised| advised.session == session);
    let advised: Vec<_> = advised.collect();
    // The lock keeps the buffers from being freed, so it is held until here. The drop of a device needs that it is not.
    let unset = advised.iter().map(Advised::unset);
    let result = unset.fold(Ok(()), Result::and);
    drop(list);
    result
}

impl Advised {
    fn unset(&self) -> Result<()> {
        let (number, location) = Advice::UnsetReadMostly.to_sys();
        let (api, ordinal) = (self.device.api(), self.device.ordinal());
        // SAFETY: the buffer is in the list, or its owner passed it, so the memory is live.
        unsafe { api.advise(ordinal, self.addresses.clone(), number, location) }
    }
}
