//! The exit handlers and threads of CUPTI, which these tests play.
#![allow(unsafe_code, reason = "plays functions of CUPTI")]

use super::*;
use cuda_um::Runtime;
use cuda_um::profile::Profiler;
use cuda_um::sys::{self, CUpti_Activity, CUptiResult};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A runtime over a simulator in which these symbols have other addresses.
fn runtime_with(replaced: &[(&CStr, *const c_void)]) -> Runtime {
    let sim = Sim::from_env().unwrap();
    let owner = Arc::new(sim.clone());
    let mut symbol = |name: &CStr| match replaced.iter().find(|(of, _)| *of == name) {
        Some((_, address)) => *address,
        None => sim.symbol(name.to_str().unwrap()),
    };
    // SAFETY: the functions are the simulator's, or have the signatures of those that they replace.
    let table = unsafe { sys::Table::from_symbols(owner, Some(13), &mut symbol) };
    Runtime::from_table(Arc::new(table.unwrap())).unwrap()
}

/// CUPTI's functions register exit handlers when they first need their state. After these ran, no thread may be in a call.
#[test]
fn the_library_ends_before_an_exit_handler_of_the_first_flush() {
    extern "C" fn end_of_cupti() {
        assert!(process_end::is_ending(), "threads still call CUPTI");
    }
    extern "C" fn flush(_: u32) -> CUptiResult {
        static FIRST: AtomicBool = AtomicBool::new(true);
        if FIRST.swap(false, Ordering::Relaxed) {
            at_exit(end_of_cupti);
        }
        CUptiResult::CUPTI_SUCCESS
    }
    ends_well(
        "records::the_library_ends_before_an_exit_handler_of_the_first_flush",
        || {
            let runtime = runtime_with(&[(c"cuptiActivityFlushAll", flush as *const c_void)]);
            Profiler::start(&runtime).unwrap().stop().unwrap();
            std::process::exit(42);
        },
    );
}

type Callbacks = (
    sys::CUpti_BuffersCallbackRequestFunc,
    sys::CUpti_BuffersCallbackCompleteFunc,
);

static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();
static READS: AtomicUsize = AtomicUsize::new(0);
static READ_ENDED: AtomicBool = AtomicBool::new(false);

/// CUPTI's thread.
fn deliver() {
    let (requested, completed) = CALLBACKS.get().unwrap();
    let (mut buffer, mut bytes, mut records) = (null_mut(), 0, 0);
    // SAFETY: as CUPTI calls them; the replaced function finds no record.
    unsafe {
        requested(&mut buffer, &mut bytes, &mut records);
        completed(null_mut(), 0, buffer, bytes, bytes);
    }
}

#[test]
fn the_end_waits_for_a_thread_of_cupti_and_later_records_are_not_read() {
    extern "C" fn register(
        requested: sys::CUpti_BuffersCallbackRequestFunc,
        completed: sys::CUpti_BuffersCallbackCompleteFunc,
    ) -> CUptiResult {
        assert!(CALLBACKS.set((requested, completed)).is_ok());
        CUptiResult::CUPTI_SUCCESS
    }
    extern "C" fn next(_: *mut u8, _: usize, _: *mut *mut CUpti_Activity) -> CUptiResult {
        READS.fetch_add(1, Ordering::Relaxed);
        while !process_end::is_ending() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        READ_ENDED.store(true, Ordering::Release);
        CUptiResult::CUPTI_ERROR_MAX_LIMIT_REACHED
    }
    ends_well(
        "records::the_end_waits_for_a_thread_of_cupti_and_later_records_are_not_read",
        || {
            let at_the_end = at_the_end();
            let runtime = runtime_with(&[
                (c"cuptiActivityRegisterCallbacks", register as *const c_void),
                (c"cuptiActivityGetNextRecord", next as *const c_void),
            ]);
            let _profiler = Profiler::start(&runtime).unwrap();
            std::thread::spawn(deliver);
            while READS.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let waited = stopped::the_wait_of_the_end();
            at_the_end(Box::new(move || {
                let (waited, is_ended) = (waited(), READ_ENDED.load(Ordering::Acquire));
                assert!(is_ended || waited >= Duration::from_secs(1), "{waited:?}");
                std::thread::spawn(deliver).join().unwrap();
                assert_eq!(READS.load(Ordering::Relaxed), 1, "read after the end");
            }));
            std::process::exit(42);
        },
    );
}
