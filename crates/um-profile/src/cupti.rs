//! CUPTI's records, copied from its buffers into the library's memory.
//!
//! A real CUPTI returns full buffers on its own thread, so the program's threads do not read the records.
#![allow(
    unsafe_code,
    reason = "calls CUPTI, and reads the records that it returns"
)]

use crate::counts::MigrationCounts;
use crate::lock::Mutex;
use crate::{ProfileError, decode};
use cuda_um::fork;
use cuda_um::process_end::{self, Calls, Used};
use cuda_um::sys;
use cuda_um_trace::{KernelRun, Record};
use std::alloc::{Layout, alloc};
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::sync::Arc;
use sys::CUpti_ActivityUnifiedMemoryCounterKind as Kind;
use sys::{CUpti_ActivityKind, CUptiResult, Cupti};

const MEMORY: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
const KERNEL: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

/// The counters that are enabled, which CUPTI must support; and those that some systems do not support.
const NEEDED: [Kind; 4] = [
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
];
const OTHERS: [Kind; 4] = [
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP,
    Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
];

const BUFFER: Layout = match Layout::from_size_align(256 * 1024, 8) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// Limits of the stored records.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keep {
    /// Of records of memory and of runs of kernels, each.
    pub(crate) records: usize,
    /// The number of buffers that CUPTI may hold.
    pub(crate) buffers: usize,
}

/// The content of CUPTI's buffers.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) records: Vec<Record>,
    /// Runs of kernels, with CUPTI's number of the launch: later calls have higher numbers.
    pub(crate) kernels: Vec<(u32, KernelRun)>,
    /// The sums over all records, including those above the limit.
    pub(crate) counts: MigrationCounts,
    /// The number of records above the limit, which are not stored.
    pub(crate) records_over: u64,
    pub(crate) kernels_over: u64,
}

/// Stores the records of one CUPTI. A process has one sink, because CUPTI's callbacks have no argument that identifies it.
struct Sink {
    cupti: Arc<Cupti>,
    keep: Keep,
    collected: Collected,
    /// Addresses whose migrations are marks and are not stored; and the number of marks.
    marked: Range<u64>,
    marks: u64,
}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);
/// Separate from the sink, which may be locked while CUPTI requests a buffer.
static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers {
    held: 0,
    most: 0,
    spare: Vec::new(),
});

/// The buffers for records. None is freed: on a GPU the heap was corrupted in 3 of 133 processes that freed them after a forced flush beside
/// launches, and in none of 132 that kept them (docs/results/h100-cuda-13.0/exit.txt). CUPTI seems to complete records in buffers that it
/// has returned.
#[cfg_attr(test, derive(Default))]
struct Buffers {
    /// The number that CUPTI holds, and its limit.
    held: usize,
    most: usize,
    spare: Vec<Returned>,
}

/// A buffer that CUPTI has returned.
#[derive(Debug, PartialEq)]
struct Returned(*mut u8);

// SAFETY: the memory belongs to no thread; the library does not access it before CUPTI gets it again.
unsafe impl Send for Returned {}

impl Buffers {
    /// Returns a buffer for CUPTI; null above the limit and without memory.
    fn give(&mut self) -> *mut u8 {
        if self.held >= self.most {
            return std::ptr::null_mut();
        }
        let buffer = match self.spare.pop() {
            Some(Returned(buffer)) => buffer,
            // SAFETY: the layout is not empty.
            None => unsafe { alloc(BUFFER) },
        };
        self.held += usize::from(!buffer.is_null());
        buffer
    }

    fn take_back(&mut self, buffer: *mut u8) {
        self.held -= 1;
        self.spare.push(Returned(buffer));
    }
}

/// A running collection into the process's sink. The drop ends it.
pub(crate) struct Collection {
    cupti: Arc<Cupti>,
}

impl Collection {
    /// Starts collecting. The caller ensures that the process has only one collection.
    pub(crate) fn start(cupti: Arc<Cupti>, devices: u32, keep: Keep) -> Result<Self, ProfileError> {
        *SINK.lock() = Some(Sink {
            cupti: Arc::clone(&cupti),
            keep,
            collected: Collected::default(),
            marked: 0..0,
            marks: 0,
        });
        BUFFERS.lock().most = keep.buffers;
        // Its drop disables everything if CUPTI refuses a call below.
        let collection = Self { cupti };
        let _calls = Calls::of("cuptiActivityEnable").map_err(Box::new)?;
        let functions = &*collection.cupti;
        // SAFETY: both callbacks have the documented signatures, and live until the end of the program.
        check(functions, "cuptiActivityRegisterCallbacks", unsafe {
            (functions.cuptiActivityRegisterCallbacks)(requested, completed)
        })?;
        let single =
            sys::CUpti_ActivityUnifiedMemoryCounterScope::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
        for device in 0..devices {
            for kind in NEEDED.into_iter().chain(OTHERS) {
                let mut configuration = sys::CUpti_ActivityUnifiedMemoryCounterConfig {
                    scope: single,
                    kind,
                    deviceId: device,
                    enable: 1,
                };
                // SAFETY: one configuration, valid for the call.
                let code = unsafe {
                    (functions.cuptiActivityConfigureUnifiedMemoryCounter)(&mut configuration, 1)
                };
                if NEEDED.contains(&kind) {
                    let call = "cuptiActivityConfigureUnifiedMemoryCounter";
                    check(functions, call, code)?;
                }
            }
        }
        for kind in [MEMORY, KERNEL] {
            if kind == KERNEL && keep.records == 0 {
                continue;
            }
            // SAFETY: `kind` is one of CUPTI's kinds.
            let code = unsafe { (functions.cuptiActivityEnable)(kind) };
            check(functions, "cuptiActivityEnable", code)?;
        }
        process_end::watch(Used::Profiler);
        Ok(collection)
    }

    pub(crate) fn clock(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let cupti = Arc::clone(&self.cupti);
        move || {
            let mut now = 0;
            // The caller holds a lock, and stops after it.
            let Ok(_calls) = Calls::of("cuptiGetTimestamp") else {
                return now;
            };
            // SAFETY: the address is valid for the call.
            unsafe { (cupti.cuptiGetTimestamp)(&mut now) };
            now
        }
    }

    /// Reads the records that CUPTI has buffered.
    pub(crate) fn flush(&self) -> Result<(), ProfileError> {
        let _calls = Calls::of("cuptiActivityFlushAll").map_err(Box::new)?;
        let forced = sys::CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0;
        // SAFETY: no preconditions; CUPTI calls `completed` for each buffer.
        let code = unsafe { (self.cupti.cuptiActivityFlushAll)(forced) };
        // Only this query counts the records that CUPTI dropped before it had a buffer.
        let dropped = dropped(&self.cupti, std::ptr::null_mut(), 0);
        if let Some(sink) = &mut *SINK.lock() {
            sink.collected.counts.dropped_records += dropped;
        }
        // CUPTI registers more exit handlers when it first uses some of its parts.
        process_end::watch(Used::Records);
        check(&self.cupti, "cuptiActivityFlushAll", code)
    }

    /// Counts later migrations to the host at these addresses as marks, and does not store their records.
    pub(crate) fn mark(&self, addresses: Range<u64>) {
        if let Some(sink) = &mut *SINK.lock() {
            (sink.marked, sink.marks) = (addresses, 0);
        }
    }

    pub(crate) fn forget_marks(&self) {
        if let Some(sink) = &mut *SINK.lock() {
            sink.marks = 0;
        }
    }

    pub(crate) fn marks(&self) -> u64 {
        SINK.lock().as_ref().map_or(0, |sink| sink.marks)
    }

    /// Returns true for a real CUPTI, which delivers records late.
    pub(crate) fn is_late(&self) -> bool {
        self.cupti.is_library()
    }

    pub(crate) fn counts(&self) -> MigrationCounts {
        let sink = SINK.lock();
        sink.as_ref()
            .map_or_else(MigrationCounts::default, |sink| sink.collected.counts)
    }

    /// Ends the collection and returns its records.
    pub(crate) fn finish(self) -> Result<Collected, ProfileError> {
        let _calls = Calls::of("cuptiActivityDisable").map_err(Box::new)?;
        self.disable();
        self.flush()?;
        let sink = SINK.lock().take();
        Ok(sink.map_or_else(Collected::default, |sink| sink.collected))
    }

    fn disable(&self) {
        for kind in [MEMORY, KERNEL] {
            // SAFETY: both are CUPTI's kinds; a kind that was not enabled stays disabled. A failure has no remedy.
            unsafe { (self.cupti.cuptiActivityDisable)(kind) };
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let Some(_calls) = Calls::begin() else { return };
        self.disable();
        // Makes CUPTI return its buffers. A failure has no remedy.
        let _ = self.flush();
        // Dropped without the lock: the last handle of CUPTI may own a whole simulator.
        let _sink = SINK.lock().take();
    }
}

fn check(cupti: &Cupti, call: &'static str, code: CUptiResult) -> Result<(), ProfileError> {
    if code == CUptiResult::CUPTI_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: CUPTI sets `text` to a static string, or does not change it for an unknown code.
    let message = unsafe {
        (cupti.cuptiGetResultString)(code, &mut text);
        if text.is_null() {
            "a result without a name".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(ProfileError::Refused {
        call,
        code: code.0,
        message,
    })
}

fn dropped(cupti: &Cupti, context: *mut c_void, stream: u32) -> u64 {
    let mut dropped = 0;
    // SAFETY: the address is valid for the call; the context is one that CUPTI named, or null for all.
    let code = unsafe { (cupti.cuptiActivityGetNumDroppedRecords)(context, stream, &mut dropped) };
    match code {
        CUptiResult::CUPTI_SUCCESS => dropped as u64,
        _ => 0,
    }
}

unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let memory = BUFFERS.lock().give();
    // SAFETY: CUPTI passes three valid addresses; a null buffer of size 0 means that there is no memory.
    unsafe {
        *buffer = memory;
        *size = if memory.is_null() { 0 } else { BUFFER.size() };
        *most_records = 0;
    }
}

unsafe extern "C" fn completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    if buffer.is_null() {
        return;
    }
    // CUPTI's thread calls this, too: the end of the process waits for it, and later buffers are not read.
    let Some(_calls) = Calls::begin() else { return };
    if let Some(sink) = &mut *SINK.lock() {
        // SAFETY: `requested` allocated the buffer, which has `valid` bytes of records.
        unsafe { sink.read(buffer, valid) };
        sink.collected.counts.dropped_records += dropped(&sink.cupti, context, stream);
    }
    BUFFERS.lock().take_back(buffer);
}

impl Sink {
    /// # Safety
    /// The buffer has `valid` bytes of CUPTI's records.
    unsafe fn read(&mut self, buffer: *mut u8, valid: usize) {
        let mut at: *mut sys::CUpti_Activity = std::ptr::null_mut();
        // SAFETY: the caller's promise; CUPTI iterates over the records and sets `at` to each. A record's kind determines the struct at its
        // start, and the record is aligned to 8.
        unsafe {
            while (self.cupti.cuptiActivityGetNextRecord)(buffer, valid, &mut at)
                == CUptiResult::CUPTI_SUCCESS
            {
                match (*at).kind {
                    MEMORY => self.memory(&*at.cast()),
                    KERNEL => self.kernel(&*at.cast()),
                    _ => {}
                }
            }
        }
    }

    fn memory(&mut self, raw: &sys::CUpti_ActivityUnifiedMemoryCounter2) {
        if self.marked.contains(&raw.address) {
            let to_host = Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
            self.marks += u64::from(raw.counterKind == to_host);
            return;
        }
        let Some(record) = decode::record(raw) else {
            return;
        };
        let collected = &mut self.collected;
        collected.counts.add(&record.kind);
        match self.keep.records {
            0 => {}
            most if collected.records.len() < most => collected.records.push(record),
            _ => collected.records_over += 1,
        }
    }

    fn kernel(&mut self, raw: &sys::CUpti_ActivityKernelPrefix) {
        if self.collected.kernels.len() >= self.keep.records {
            self.collected.kernels_over += 1;
            return;
        }
        let name = match raw.name.is_null() {
            true => String::new(),
            // SAFETY: CUPTI's name of the kernel ends with a NUL, and lives as long as the record.
            false => unsafe { CStr::from_ptr(raw.name) }
                .to_string_lossy()
                .into_owned(),
        };
        let run = KernelRun {
            name,
            device: raw.deviceId,
            stream: raw.streamId,
            start: raw.start,
            end: raw.end.max(raw.start),
            operation: None,
        };
        self.collected.kernels.push((raw.correlationId, run));
    }
}

#[cfg(test)]
mod tests;
