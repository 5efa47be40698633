//! Keeps the CPU and devices without concurrent managed access apart.
//!
//! While a kernel runs on such a device, the CPU must not touch *any* managed memory: a touch can be a segmentation fault. So a
//! host guard of managed memory closes the gate, which first waits for those devices, and while it is closed nothing can be
//! enqueued on them. A guard that is forgotten (`mem::forget`) leaves the gate closed: launches are refused, nothing breaks.

use crate::call::Api;
use crate::error::{Error, Result};
use crate::stream::StreamInner;
use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};

/// One for all devices of a driver, whichever [`Runtime`](crate::Runtime) they were opened through.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    guards: usize,
    /// The buffer of the newest guard.
    buffer: u64,
    /// What may still run on devices without concurrent access.
    busy: Vec<Busy>,
}

#[derive(Clone)]
struct Busy {
    api: Arc<Api>,
    ordinal: u32,
    stream: Weak<StreamInner>,
}

/// Holds the gate open while something is enqueued.
pub(crate) struct Enqueue<'a> {
    _state: MutexGuard<'a, State>,
}

/// Holds the gate closed.
pub(crate) struct Closed {
    gate: Arc<Gate>,
}

impl Gate {
    /// To be held while work is enqueued on `stream`.
    pub(crate) fn enqueue(&self, stream: &Arc<StreamInner>) -> Result<Enqueue<'_>> {
        let mut state = self.state.lock();
        let ordinal = stream.ordinal();
        if state.guards > 0 {
            return Err(Error::Busy {
                what: format!("device {ordinal}, which has no concurrent managed access,"),
                by: format!(
                    "{} host guard(s) of managed memory live, the newest of buffer {}",
                    state.guards, state.buffer
                ),
            });
        }
        if !state
            .busy
            .iter()
            .any(|busy| std::ptr::eq(busy.stream.as_ptr(), Arc::as_ptr(stream)))
        {
            state.busy.push(Busy {
                api: Arc::clone(stream.api()),
                ordinal,
                stream: Arc::downgrade(stream),
            });
        }
        Ok(Enqueue { _state: state })
    }

    /// Closes the gate and waits until the devices behind it are idle.
    pub(crate) fn close(self: &Arc<Self>, buffer: u64) -> Result<Closed> {
        let (closed, busy) = self.shut(buffer);
        let mut done: Vec<u32> = Vec::new();
        for Busy { api, ordinal, .. } in busy {
            if !done.contains(&ordinal) {
                api.device_synchronize(ordinal)?;
                done.push(ordinal);
            }
        }
        closed.all_idle();
        Ok(closed)
    }

    /// Closes the gate if the devices behind it are idle now.
    pub(crate) fn try_close(self: &Arc<Self>, buffer: u64) -> Result<Closed> {
        let (closed, busy) = self.shut(buffer);
        for Busy {
            ordinal, stream, ..
        } in busy
        {
            // A stream that is gone may have left work behind.
            let idle = match stream.upgrade() {
                Some(stream) => stream.is_idle()?,
                None => false,
            };
            if !idle {
                return Err(Error::Busy {
                    what: format!("buffer {buffer}"),
                    by: format!("device {ordinal} is at work and has no concurrent managed access"),
                });
            }
        }
        closed.all_idle();
        Ok(closed)
    }

    /// From here on nothing is enqueued; what was enqueued before is in the list.
    fn shut(self: &Arc<Self>, buffer: u64) -> (Closed, Vec<Busy>) {
        let mut state = self.state.lock();
        state.guards += 1;
        state.buffer = buffer;
        (
            Closed {
                gate: Arc::clone(self),
            },
            state.busy.clone(),
        )
    }
}

impl Closed {
    /// While the gate is closed nothing is added to the list, so all of it has been waited for.
    fn all_idle(&self) {
        self.gate.state.lock().busy.clear();
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.gate.state.lock().guards -= 1;
    }
}
