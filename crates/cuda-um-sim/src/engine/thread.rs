//! The state of a thread in each simulator: current device and last error.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::graph::CaptureMode;
use super::status::Code;

/// The state of a thread in one simulator.
#[derive(Clone, Debug)]
pub(crate) struct ThreadState {
    pub(crate) device: usize,
    /// The current context of the driver, one of `device`; 0 for none.
    pub(crate) context: usize,
    /// The contexts below the current one.
    pub(crate) stack: Vec<usize>,
    pub(crate) last_error: Code,
    /// Which captures forbid it unsafe calls.
    pub(crate) capture_mode: CaptureMode,
}

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static STATES: RefCell<HashMap<u64, ThreadState>> = RefCell::default();
    // Relaxed: the numbers need only differ.
    static ID: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// The C function that this thread called last.
pub(crate) fn this_call() -> &'static str {
    CALL.get()
}

/// Records that this thread calls a C function.
pub(crate) fn begin_call(name: &'static str) {
    CALL.set(name);
}

/// A number that no other thread has, also no later one.
pub(crate) fn this_thread() -> u64 {
    // Threads that are ending share the number 0.
    ID.try_with(|id| *id).unwrap_or(0)
}

impl ThreadState {
    /// This thread's state in the simulator `core`.
    pub(crate) fn with<R>(core: u64, use_it: impl FnOnce(&mut ThreadState) -> R) -> R {
        let fresh = || ThreadState {
            device: 0,
            context: 0,
            stack: Vec::new(),
            last_error: Code::SUCCESS,
            capture_mode: CaptureMode::Global,
        };
        let mut use_it = Some(use_it);
        let done = STATES.try_with(|states| {
            let mut states = states.borrow_mut();
            use_it
                .take()
                .map(|use_it| use_it(states.entry(core).or_insert_with(fresh)))
        });
        match (done, use_it) {
            (Ok(Some(result)), _) => result,
            // The state of a thread that is ending is destroyed already.
            (_, Some(use_it)) => use_it(&mut fresh()),
            _ => unreachable!("the closure was either used or kept"),
        }
    }
}
