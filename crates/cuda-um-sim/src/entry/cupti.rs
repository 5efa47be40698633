//! CUPTI: which records are collected, and their way to the client's buffers.
//!
//! Records wait in the engine. They are delivered by a flush, and when there are many, at the end of a call: never while the engine is
//! locked, and never by the handler of host faults, for the client's callbacks run on the thread that delivers.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use cuda_um_sys as sys;
use parking_lot::Mutex;

use super::pointer::{Array, Out};
use super::records::Layout;
use super::{Lookup, Outcome, entry_points};
use crate::builder::Cupti;
use crate::engine::{Code, Core};
use crate::preset::CudaVersion;
use crate::slot::{self, SLOTS};

/// So many records are delivered unasked.
const MANY: usize = 4096;

const INVALID_PARAMETER: Code = Code(sys::CUptiResult::CUPTI_ERROR_INVALID_PARAMETER.0);
const INVALID_KIND: Code = Code(sys::CUptiResult::CUPTI_ERROR_INVALID_KIND.0);
const MAX_LIMIT_REACHED: Code = Code(sys::CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED.0);

type Requested = sys::CUpti_BuffersCallbackRequestFunc;
type Completed = sys::CUpti_BuffersCallbackCompleteFunc;

/// Who takes the records of a simulator.
struct Client {
    callbacks: Option<(Requested, Completed)>,
    buffer: Option<Buffer>,
}

/// A buffer of the client's that is not full.
struct Buffer {
    address: usize,
    size: usize,
    most_records: usize,
    used: usize,
    records: usize,
}

static CLIENTS: [Mutex<Client>; SLOTS] = [const {
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

/// Delivers what waits if it is much, unless somebody does already.
pub(super) fn deliver_many(core: &Arc<Core>, waiting: usize) {
    if waiting >= MANY
        && let Some(mut client) = CLIENTS[core.slot()].try_lock()
    {
        client.deliver(core, false);
    }
}

impl Client {
    /// Writes what waits into buffers of the client, and gives back the full ones; with `all`, the last one as well.
    fn deliver(&mut self, core: &Arc<Core>, all: bool) {
        let Some((requested, completed)) = self.callbacks else {
            let mut state = core.state.lock();
            let waiting = state.activity.take().len();
            state.activity.drop_records(waiting as u64);
            return;
        };
        let records = core.state.lock().activity.take();
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
            // SAFETY: the client gave the buffer for records, and has not got it back; there is room behind what is used.
            unsafe { layout.write(record, (buffer.address + buffer.used) as *mut u8) };
            buffer.used += bytes;
            buffer.records += 1;
        }
        if dropped > 0 {
            core.state.lock().activity.drop_records(dropped);
        }
        if all {
            self.give_back(completed);
        }
    }

    fn give_back(&mut self, completed: Completed) {
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

/// Switches the collection of a kind.
fn switch(core: &Arc<Core>, kind: u32, on: bool) -> Outcome {
    let activity = &mut core.state.lock().activity;
    match sys::CUpti_ActivityKind(kind) {
        sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER => activity.memory = on,
        sys::CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => activity.kernels = on,
        _ => return Err(INVALID_KIND),
    }
    Ok(())
}

entry_points! { Inquiry;
    fn cuptiGetVersion(core, version: Out<u32>) {
        version.put(match (core.machine.cupti, core.machine.cuda) {
            (Cupti::TooOld, _) => 17,
            (_, CudaVersion::V11_8) => 18,
            (_, CudaVersion::V12_2) => 20,
            (_, CudaVersion::V12_9) => 28,
            (_, CudaVersion::V13_0) => 130_001,
            (_, CudaVersion::V13_4) => 130_400,
        })
    }

    fn cuptiActivityRegisterCallbacks(core, requested: Option<Requested>, completed: Option<Completed>) {
        let callbacks = requested.zip(completed).ok_or(INVALID_PARAMETER)?;
        let mut client = CLIENTS[core.slot()].lock();
        if let Some((_, before)) = client.callbacks {
            client.give_back(before);
        }
        client.callbacks = Some(callbacks);
        Ok(())
    }

    fn cuptiActivityConfigureUnifiedMemoryCounter(
        core, configurations: Array<sys::CUpti_ActivityUnifiedMemoryCounterConfig>, count: u32,
    ) {
        let devices = core.state.lock().devices.len();
        for configuration in configurations.to_vec(count as usize)? {
            // All counters of all devices are collected, or none.
            if configuration.deviceId as usize >= devices || !(1..=8).contains(&configuration.kind.0) {
                return Err(INVALID_PARAMETER);
            }
        }
        Ok(())
    }

    fn cuptiActivityEnable(core, kind: u32) { switch(core, kind, true) }

    fn cuptiActivityDisable(core, kind: u32) { switch(core, kind, false) }

    fn cuptiActivityFlushAll(core, flag: u32) {
        let forced = flag & sys::CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0 != 0;
        CLIENTS[core.slot()].lock().deliver(core, forced);
        Ok(())
    }
}

// These are called for each record, or by the client's callbacks: they are not in the log of calls, and never made to fail.

unsafe extern "C" fn cuptiGetTimestamp<const SLOT: usize>(timestamp: Out<u64>) -> u32 {
    let Some(core) = slot::core(SLOT) else {
        return sys::CUptiResult::CUPTI_ERROR_NOT_INITIALIZED.0;
    };
    let now = core.state.lock().now;
    code(timestamp.put(now.as_nanos() as u64))
}

unsafe extern "C" fn cuptiActivityGetNumDroppedRecords<const SLOT: usize>(
    _context: *mut c_void,
    _stream: u32,
    dropped: Out<usize>,
) -> u32 {
    let Some(core) = slot::core(SLOT) else {
        return sys::CUptiResult::CUPTI_ERROR_NOT_INITIALIZED.0;
    };
    let count = core.state.lock().activity.take_dropped();
    code(dropped.put(count as usize))
}

/// `record` is null before the first one, else the one before.
unsafe extern "C" fn cuptiActivityGetNextRecord<const SLOT: usize>(
    buffer: usize,
    valid_bytes: usize,
    record: Out<usize>,
) -> u32 {
    let Some(core) = slot::core(SLOT) else {
        return sys::CUptiResult::CUPTI_ERROR_NOT_INITIALIZED.0;
    };
    let layout = Layout(core.machine.cuda);
    code(record.get().and_then(|before| {
        let next = match before {
            0 => buffer,
            // SAFETY: a record that this function gave, by the caller's word: it lies in the buffer and begins with its kind.
            at => at + layout.bytes_of_kind(unsafe { *(at as *const u32) }),
        };
        if valid_bytes == 0 || next >= buffer + valid_bytes {
            return Err(MAX_LIMIT_REACHED);
        }
        record.put(next)
    }))
}

extern "C" fn cuptiGetResultString(result: u32, text: Out<*const c_char>) -> u32 {
    let name: &CStr = match result {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        21 => c"CUPTI_ERROR_INVALID_KIND",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        28 => c"CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED",
        35 => c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        39 => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => return INVALID_PARAMETER.0,
    };
    code(text.put(name.as_ptr()))
}

fn code(outcome: Outcome) -> u32 {
    outcome.map_or_else(|code| code.0, |()| 0)
}

fn function<const SLOT: usize>(name: &str) -> Option<*const c_void> {
    Some(match name {
        "cuptiGetTimestamp" => cuptiGetTimestamp::<SLOT> as *const c_void,
        "cuptiActivityGetNumDroppedRecords" => {
            cuptiActivityGetNumDroppedRecords::<SLOT> as *const c_void
        }
        "cuptiActivityGetNextRecord" => cuptiActivityGetNextRecord::<SLOT> as *const c_void,
        "cuptiGetResultString" => cuptiGetResultString as *const c_void,
        name => return lookup::<SLOT>(name),
    })
}

macro_rules! lookups {
    ($($slot:literal)*) => {
        static FUNCTIONS: [Lookup; SLOTS] = [$(function::<$slot>),*];
    };
}

lookups!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

/// A function of the played CUPTI, or null where there is none.
pub(crate) fn symbol(slot: usize, cupti: Cupti, name: &str) -> *const c_void {
    let absent = match cupti {
        Cupti::Present | Cupti::TooOld => false,
        Cupti::Absent => true,
        Cupti::Lacks(lacking) => lacking == name,
    };
    let found = FUNCTIONS[slot](name).filter(|_| !absent);
    found.unwrap_or(std::ptr::null())
}
