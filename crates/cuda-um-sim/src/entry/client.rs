//! The delivery of CUPTI's records to the client's buffers.
//!
//! Records wait in the engine. A flush delivers them, and so does the end of a call if many wait. The client's callbacks run on the thread
//! that delivers; therefore records are never delivered while the engine is locked, nor by the handler of host faults.

use std::sync::Arc;

use cuda_um_sys as sys;
use cuda_um_sys::locks::Mutex;

use super::records::Layout;
use crate::engine::Core;
use crate::slot::SLOTS;

/// If so many records wait, the end of a call delivers them.
const MANY: usize = 4096;

pub(super) type Requested = sys::CUpti_BuffersCallbackRequestFunc;
pub(super) type Completed = sys::CUpti_BuffersCallbackCompleteFunc;

/// The client of CUPTI that takes a simulator's records.
pub(super) struct Client {
    pub(super) callbacks: Option<(Requested, Completed)>,
    buffer: Option<Buffer>,
}

/// A buffer of the client that is not full.
struct Buffer {
    address: usize,
    size: usize,
    most_records: usize,
    used: usize,
    records: usize,
}

pub(super) static CLIENTS: [Mutex<Client>; SLOTS] = [const {
    Mutex::new(Client {
        callbacks: None,
        buffer: None,
    })
}; SLOTS];

/// A new simulator has no client.
pub(crate) fn forget_client(slot: usize) {
    *CLIENTS[slot].lock() = Client {
        callbacks: None,
        buffer: None,
    };
}

/// Delivers the waiting records if there are many, unless another thread delivers them now.
pub(super) fn deliver_many(core: &Arc<Core>, waiting: usize) {
    if waiting >= MANY
        && let Some(mut client) = CLIENTS[core.slot()].try_lock()
    {
        client.deliver(core, false);
    }
}

impl Client {
    /// Writes the waiting records into buffers of the client, and returns the full buffers; with `all`, also the last one.
    pub(super) fn deliver(&mut self, core: &Arc<Core>, all: bool) {
        let Some((requested, completed)) = self.callbacks else {
            let mut state = core.state.lock();
            let waiting = state.records.activity.take().len();
            state.records.activity.drop_records(waiting as u64);
            return;
        };
        let records = core.state.lock().records.activity.take();
        let layout = Layout(core.machine.cuda);
        let mut dropped = 0;
        for record in &records {
            let bytes = layout.bytes_of(record);
            if self.buffer.as_ref().is_some_and(|it| !it.has_room(bytes)) {
                self.give_back(completed);
            }
            let buffer = match &mut self.buffer {
                Some(buffer) => buffer,
                none => match Buffer::request(requested).filter(|it| it.has_room(bytes)) {
                    Some(buffer) => none.insert(buffer),
                    None => {
                        dropped += 1;
                        continue;
                    }
                },
            };
            // SAFETY: the client provided the buffer for records, and it was not returned yet; it has room behind its used part.
            unsafe { layout.write(record, (buffer.address + buffer.used) as *mut u8) };
            buffer.used += bytes;
            buffer.records += 1;
        }
        if dropped > 0 {
            core.state.lock().records.activity.drop_records(dropped);
        }
        if all {
            self.give_back(completed);
        }
    }

    pub(super) fn give_back(&mut self, completed: Completed) {
        if let Some(buffer) = self.buffer.take() {
            // SAFETY: the client's function for the client's buffer, once. The simulator has one context, without an address.
            unsafe {
                completed(
                    std::ptr::null_mut(),
                    0,
                    buffer.address as *mut u8,
                    buffer.size,
                    buffer.used,
                );
            }
        }
    }
}

impl Buffer {
    fn request(requested: Requested) -> Option<Self> {
        let (mut address, mut size, mut most_records) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the client's function, with three valid places.
        unsafe { requested(&mut address, &mut size, &mut most_records) };
        (!address.is_null() && (address as usize).is_multiple_of(8)).then_some(Self {
            address: address as usize,
            size,
            most_records,
            used: 0,
            records: 0,
        })
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= self.size
            && (self.most_records == 0 || self.records < self.most_records)
    }
}
