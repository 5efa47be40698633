//! CUPTI's records, from its buffers into memory of ours.
//!
//! A real CUPTI hands full buffers over on a thread of its own, so their records are read off the program's threads.
#![allow(
    unsafe_code,
    reason = "calls CUPTI, and reads the records that it hands over"
)]

use crate::fork::Origin;
use crate::profile::counts::MigrationCounts;
use crate::profile::{ProfileError, decode};
use crate::sync::Mutex;
use cuda_um_sys as sys;
use cuda_um_trace::{KernelRun, Record};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::sync::Arc;
use sys::CUpti_ActivityUnifiedMemoryCounterKind as Kind;
use sys::{CUpti_ActivityKind, CUptiResult, Cupti};

const MEMORY: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
const KERNEL: CUpti_ActivityKind = CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

/// Collected, and whether CUPTI must be able to: the others are not known to every system.
const COUNTERS: [(Kind, bool); 8] = [
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
        true,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
        true,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
        true,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
        true,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING,
        false,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING,
        false,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP,
        false,
    ),
    (
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
        false,
    ),
];

const BUFFER: Layout = match Layout::from_size_align(256 * 1024, 8) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// How much is kept.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keep {
    pub(crate) records: usize,
    pub(crate) kernels: usize,
    /// Buffers that CUPTI may hold.
    pub(crate) buffers: usize,
}

/// What came out of CUPTI's buffers.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) records: Vec<Record>,
    /// With CUPTI's number of the launch: later calls have higher ones.
    pub(crate) kernels: Vec<(u32, KernelRun)>,
    /// Of all records, kept or not.
    pub(crate) counts: MigrationCounts,
    /// Records that were more than are kept.
    pub(crate) records_over: u64,
    pub(crate) kernels_over: u64,
}

/// Takes the records of one CUPTI. A process has one, for CUPTI's callbacks are not told whose they are.
struct Sink {
    cupti: Arc<Cupti>,
    keep: Keep,
    collected: Collected,
    /// Addresses whose records are a sign, and not kept; and how many there were.
    marked: Range<u64>,
    marks: u64,
}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);
/// Buffers that CUPTI holds, and how many it may; apart from the sink, which may be locked while CUPTI asks for one.
static BUFFERS: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// CUPTI, collecting into the process's sink until this is dropped.
pub(crate) struct Collection {
    cupti: Arc<Cupti>,
    origin: Origin,
}

impl Collection {
    /// Begins. The caller sees to it that there is one in the process.
    pub(crate) fn start(cupti: Arc<Cupti>, devices: u32, keep: Keep) -> Result<Self, ProfileError> {
        *SINK.lock() = Some(Sink {
            cupti: Arc::clone(&cupti),
            keep,
            collected: Collected::default(),
            marked: 0..0,
            marks: 0,
        });
        BUFFERS.lock().1 = keep.buffers;
        // Ends everything again when something is refused.
        let origin = Origin::here();
        let collection = Self { cupti, origin };
        let functions = &*collection.cupti;
        // SAFETY: both callbacks have the documented signatures, and live as long as the program.
        check(functions, "cuptiActivityRegisterCallbacks", unsafe {
            (functions.cuptiActivityRegisterCallbacks)(requested, completed)
        })?;
        let single =
            sys::CUpti_ActivityUnifiedMemoryCounterScope::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
        for device in 0..devices {
            for (kind, needed) in COUNTERS {
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
                if needed {
                    check(
                        functions,
                        "cuptiActivityConfigureUnifiedMemoryCounter",
                        code,
                    )?;
                }
            }
        }
        for kind in [MEMORY, KERNEL] {
            if kind == KERNEL && keep.kernels == 0 {
                continue;
            }
            // SAFETY: one of CUPTI's kinds.
            let code = unsafe { (functions.cuptiActivityEnable)(kind) };
            check(functions, "cuptiActivityEnable", code)?;
        }
        Ok(collection)
    }

    /// The process that collects.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// The clock of the records.
    pub(crate) fn clock(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let cupti = Arc::clone(&self.cupti);
        move || {
            let mut now = 0;
            // SAFETY: the place is valid for the call.
            unsafe { (cupti.cuptiGetTimestamp)(&mut now) };
            now
        }
    }

    /// Takes what CUPTI has.
    pub(crate) fn flush(&self) -> Result<(), ProfileError> {
        let forced = sys::CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0;
        // SAFETY: no preconditions; it calls `completed` for each buffer.
        let code = unsafe { (self.cupti.cuptiActivityFlushAll)(forced) };
        // What was dropped before there was a buffer is told to nobody else.
        let dropped = dropped(&self.cupti, std::ptr::null_mut(), 0);
        if let Some(sink) = &mut *SINK.lock() {
            sink.collected.counts.dropped_records += dropped;
        }
        check(&self.cupti, "cuptiActivityFlushAll", code)
    }

    /// From here on migrations to the host at these addresses are counted as marks, and nothing there is kept.
    pub(crate) fn mark(&self, addresses: Range<u64>) {
        if let Some(sink) = &mut *SINK.lock() {
            (sink.marked, sink.marks) = (addresses, 0);
        }
    }

    /// Counts marks from zero.
    pub(crate) fn forget_marks(&self) {
        if let Some(sink) = &mut *SINK.lock() {
            sink.marks = 0;
        }
    }

    /// How many marks have come since.
    pub(crate) fn marks(&self) -> u64 {
        SINK.lock().as_ref().map_or(0, |sink| sink.marks)
    }

    /// Whether it is a real CUPTI, which delivers late.
    pub(crate) fn is_late(&self) -> bool {
        self.cupti.is_library()
    }

    /// The sums so far.
    pub(crate) fn counts(&self) -> MigrationCounts {
        let sink = SINK.lock();
        sink.as_ref()
            .map_or_else(MigrationCounts::default, |sink| sink.collected.counts)
    }

    /// Ends, and gives what was collected.
    pub(crate) fn finish(self) -> Result<Collected, ProfileError> {
        self.disable();
        self.flush()?;
        let sink = SINK.lock().take();
        Ok(sink.map_or_else(Collected::default, |sink| sink.collected))
    }

    fn disable(&self) {
        for kind in [MEMORY, KERNEL] {
            // SAFETY: one of CUPTI's kinds; what was not enabled stays so. Nothing can be done about a failure.
            unsafe { (self.cupti.cuptiActivityDisable)(kind) };
        }
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        if self.origin.is_inherited() {
            return;
        }
        self.disable();
        let forced = sys::CUpti_ActivityFlag::CUPTI_ACTIVITY_FLAG_FLUSH_FORCED.0;
        // SAFETY: no preconditions; so that CUPTI gives its buffers back.
        unsafe { (self.cupti.cuptiActivityFlushAll)(forced) };
        // Dropped without the lock: the last of CUPTI may be a whole simulator.
        let _sink = SINK.lock().take();
    }
}

fn check(cupti: &Cupti, call: &'static str, code: CUptiResult) -> Result<(), ProfileError> {
    if code == CUptiResult::CUPTI_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: `text` is written with a static string, or left alone for an unknown code.
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
    // SAFETY: the place is valid for the call; the context is one that CUPTI named, or null for all.
    let code = unsafe { (cupti.cuptiActivityGetNumDroppedRecords)(context, stream, &mut dropped) };
    match code {
        CUptiResult::CUPTI_SUCCESS => dropped as u64,
        _ => 0,
    }
}

unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most_records: *mut usize) {
    let mut buffers = BUFFERS.lock();
    let (held, most) = &mut *buffers;
    let memory = if *held < *most {
        // SAFETY: the layout is not empty.
        unsafe { alloc(BUFFER) }
    } else {
        std::ptr::null_mut()
    };
    *held += usize::from(!memory.is_null());
    // SAFETY: CUPTI passes three valid places; a null buffer of size 0 tells it that there is no memory.
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
    if let Some(sink) = &mut *SINK.lock() {
        // SAFETY: the buffer is one that `requested` gave, with `valid` bytes of records.
        unsafe { sink.read(buffer, valid) };
        sink.collected.counts.dropped_records += dropped(&sink.cupti, context, stream);
    }
    BUFFERS.lock().0 -= 1;
    // SAFETY: allocated by `requested` with the same layout, and CUPTI is done with it.
    unsafe { dealloc(buffer, BUFFER) };
}

impl Sink {
    /// # Safety
    /// The buffer has `valid` bytes of CUPTI's records.
    unsafe fn read(&mut self, buffer: *mut u8, valid: usize) {
        let mut at: *mut sys::CUpti_Activity = std::ptr::null_mut();
        // SAFETY: the caller's promise; CUPTI walks the records and sets `at` to each. A record's kind tells what it begins with, and it
        // is aligned to 8.
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
        let Collected {
            records,
            counts,
            records_over,
            ..
        } = &mut self.collected;
        count(counts, raw);
        if self.keep.records == 0 {
            return;
        }
        if let Some(record) = decode::record(raw) {
            if records.len() < self.keep.records {
                records.push(record);
            } else {
                *records_over += 1;
            }
        }
    }

    fn kernel(&mut self, raw: &sys::CUpti_ActivityKernelPrefix) {
        if self.collected.kernels.len() >= self.keep.kernels {
            self.collected.kernels_over += 1;
            return;
        }
        let name = if raw.name.is_null() {
            String::new()
        } else {
            // SAFETY: CUPTI's name of the kernel ends with a NUL, and lives as long as the record.
            unsafe { CStr::from_ptr(raw.name) }
                .to_string_lossy()
                .into_owned()
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

/// Adds a record to the sums.
fn count(counts: &mut MigrationCounts, raw: &sys::CUpti_ActivityUnifiedMemoryCounter2) {
    match raw.counterKind {
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD => {
            counts.bytes_to_device += raw.value;
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH => {
            counts.bytes_to_host += raw.value;
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD => {
            counts.bytes_device_to_device += raw.value;
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT => {
            counts.gpu_faults += raw.value;
            counts.gpu_fault_groups += 1;
        }
        Kind::CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT => {
            counts.cpu_faults += 1;
        }
        _ => {}
    }
}
