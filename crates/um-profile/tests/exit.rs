//! Processes that end while a profiler is alive: they exit normally and do not hang. The exit handlers and threads of CUPTI are played.
//!
//! Each test starts this binary again, to run the child's part of the test.
#![cfg(unix)]
#![allow(unsafe_code, reason = "plays functions of CUPTI")]

use cuda_um::sys::{self, CUpti_Activity, CUptiResult};
use cuda_um::{Runtime, process_end};
use cuda_um_sim::Sim;
use cuda_um_testkit::{again, is_child, unwatched};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use um_profile::Profiler;

const HANGS: Duration = Duration::from_secs(60);

/// In the test: starts the child and waits for it. In the child: runs `body`, which ends the process with code 42.
fn ends_well(name: &str, body: fn()) {
    if is_child() {
        body();
        panic!("the child did not end");
    }
    let mut child = again(name).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > HANGS {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler exists until the process ends, and a panic in it aborts.
    assert_eq!(unsafe { libc::atexit(handler) }, 0);
}

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
        "the_library_ends_before_an_exit_handler_of_the_first_flush",
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
        "the_end_waits_for_a_thread_of_cupti_and_later_records_are_not_read",
        || {
            // Runs after the library's handler, which is registered later.
            static CHECK: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();
            extern "C" fn check() {
                CHECK.get().unwrap()();
            }
            at_exit(check);
            let runtime = runtime_with(&[
                (c"cuptiActivityRegisterCallbacks", register as *const c_void),
                (c"cuptiActivityGetNextRecord", next as *const c_void),
            ]);
            let _profiler = Profiler::start(&runtime).unwrap();
            std::thread::spawn(deliver);
            while READS.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            // Runs before it.
            static ENDED: Mutex<Option<Instant>> = Mutex::new(None);
            extern "C" fn before_the_library() {
                *ENDED.lock().unwrap() = Some(Instant::now());
            }
            at_exit(before_the_library);
            let set = CHECK.set(Box::new(|| {
                let waited = ENDED.lock().unwrap().unwrap().elapsed();
                let is_ended = READ_ENDED.load(Ordering::Acquire);
                assert!(is_ended || waited >= Duration::from_secs(1), "{waited:?}");
                std::thread::spawn(deliver).join().unwrap();
                assert_eq!(READS.load(Ordering::Relaxed), 1, "read after the end");
            }));
            assert!(set.is_ok());
            std::process::exit(42);
        },
    );
}

#[test]
fn threads_that_profile_stop_at_their_next_call() {
    ends_well("threads_that_profile_stop_at_their_next_call", || {
        let runtime = unwatched().1;
        let (at_work, is_at_work) = mpsc::channel();
        for _ in 0..2 {
            let (runtime, at_work) = (runtime.clone(), at_work.clone());
            std::thread::spawn(move || {
                loop {
                    // One thread at a time has the profiler, and the process may not have the permission.
                    let profiler = Profiler::start(&runtime);
                    drop(profiler.map(|profiler| profiler.stop().unwrap()));
                    let _ = at_work.send(());
                }
            });
        }
        (0..10).for_each(|_| is_at_work.recv().unwrap());
        std::process::exit(42);
    });
}
