//! Functions of CUPTI.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use super::client::{CLIENTS, Completed, Requested};
use super::guard::{Entry, Outcome, entry_points, find, of_all_slots};
use super::pointer::{Array, Out};
use super::records::Layout;
use crate::engine::{Code, Core};
use crate::preset::{CudaVersion, Cupti};
use crate::slot::{self, SLOTS};
use cuda_um_sys as sys;

const INVALID_PARAMETER: Code = Code(sys::CUptiResult::CUPTI_ERROR_INVALID_PARAMETER.0);
const INVALID_KIND: Code = Code(sys::CUptiResult::CUPTI_ERROR_INVALID_KIND.0);
const MAX_LIMIT_REACHED: Code = Code(sys::CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED.0);

/// Enables or disables a kind of record.
fn switch(core: &Arc<Core>, kind: u32, on: bool) -> Outcome {
    let activity = &mut core.state.lock().records.activity;
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
            // Counters are collected for all devices together: the configuration is only checked.
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

// These are called for each record, or by the client's callbacks: they are not in the log of calls, and failures cannot be injected.

unsafe extern "C" fn cuptiGetTimestamp<const SLOT: usize>(timestamp: Out<u64>) -> u32 {
    with_core(SLOT, |core| {
        let now = core.state.lock().now;
        timestamp.put(now.as_nanos() as u64)
    })
}

unsafe extern "C" fn cuptiActivityGetNumDroppedRecords<const SLOT: usize>(
    _context: *mut c_void,
    _stream: u32,
    dropped: Out<usize>,
) -> u32 {
    with_core(SLOT, |core| {
        let count = core.state.lock().records.activity.take_dropped();
        dropped.put(count as usize)
    })
}

/// `record` is null for the first record, and otherwise the previous record.
unsafe extern "C" fn cuptiActivityGetNextRecord<const SLOT: usize>(
    buffer: usize,
    valid_bytes: usize,
    record: Out<usize>,
) -> u32 {
    with_core(SLOT, |core| {
        let layout = Layout(core.machine.cuda);
        let next = match record.get()? {
            0 => buffer,
            // SAFETY: the caller vouches that this function returned the record: it lies in the buffer and begins with its kind.
            at => at + layout.bytes_of_kind(unsafe { *(at as *const u32) }),
        };
        if valid_bytes == 0 || next >= buffer + valid_bytes {
            return Err(MAX_LIMIT_REACHED);
        }
        record.put(next)
    })
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

fn with_core(slot: usize, use_it: impl FnOnce(&Core) -> Outcome) -> u32 {
    slot::core(slot).map_or(sys::CUptiResult::CUPTI_ERROR_NOT_INITIALIZED.0, |core| {
        code(use_it(&core))
    })
}

fn code(outcome: Outcome) -> u32 {
    outcome.map_or_else(|code| code.0, |()| 0)
}

const UNRECORDED: &[Entry] = &[
    Entry::unrecorded("cuptiGetTimestamp", of_all_slots!(cuptiGetTimestamp)),
    Entry::unrecorded(
        "cuptiActivityGetNumDroppedRecords",
        of_all_slots!(cuptiActivityGetNumDroppedRecords),
    ),
    Entry::unrecorded(
        "cuptiActivityGetNextRecord",
        of_all_slots!(cuptiActivityGetNextRecord),
    ),
    Entry::unrecorded(
        "cuptiGetResultString",
        [cuptiGetResultString as *const c_void; SLOTS],
    ),
];

/// A function of the simulated CUPTI; null if it does not exist there.
pub(crate) fn symbol(slot: usize, cupti: Cupti, name: &str) -> *const c_void {
    let absent = match cupti {
        Cupti::Present | Cupti::TooOld => false,
        Cupti::Absent => true,
        Cupti::Lacks(lacking) => lacking == name,
    };
    let found = find(&[ENTRIES, UNRECORDED], slot, name).filter(|_| !absent);
    found.unwrap_or(std::ptr::null())
}
