//! Threads that help with copies.
//!
//! A copy often ends before a sleeping thread is awake, which takes 145 us on an H200's host (`thread_wake_us` in
//! `docs/results/h200-cuda-13.0/calibration.json`). So a copy does not wait for a helper that has not begun: a helper that is too late
//! finds the work closed. In contrast, a pool of `rayon` waits for all spawned tasks. And a helper stays awake for [`AWAKE`] after its
//! work, so that the next copy of a series finds it at once.
#![allow(unsafe_code, reason = "lends work to threads that live longer")]

use crate::process_end::Calls;
use crate::sync::thread;
use crate::sync::thread::JoinHandle;
use crate::sync::{Condvar, Mutex, later, spin_until};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a helper stays awake after its work.
const AWAKE: Duration = Duration::from_micros(200);

thread_local! {
    /// True on helpers, and on a thread that has the ring for a read: code of the caller that runs there must not wait for the ring.
    pub(super) static HAS_RING: Cell<bool> = const { Cell::new(false) };
}

/// Helper threads, which start with the first work that is large enough for them.
#[derive(Default)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of times that work was opened, for helpers that are awake.
    works: AtomicU64,
    opened: Condvar,
    left: Condvar,
}

#[derive(Default)]
struct State {
    work: Option<Work>,
    running: usize,
    sleeping: usize,
    panic: Option<Box<dyn Any + Send>>,
    closing: bool,
}

/// Work that helpers may join.
#[derive(Clone, Copy)]
struct Work {
    run: *const (dyn Fn(usize) + Sync),
    /// The number of the next helper, and the number of helpers.
    next: usize,
    helpers: usize,
}

// SAFETY: the pointer's target is `Sync`, and lives until the work is closed and no helper runs it (see `run`).
unsafe impl Send for Work {}

impl Workers {
    /// Runs `work(0)` on this thread, and `work` with other numbers below `count` on helpers that start in time. When this returns or
    /// panics, no helper runs the work. Only one thread at a time may call this.
    pub(super) fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let helpers = self.start(count.saturating_sub(1));
        if helpers == 0 {
            return work(0);
        }
        let lent: *const (dyn Fn(usize) + Sync + '_) = work;
        // SAFETY: the two types differ only in the lifetime. The pointer is used while the work is open or a helper runs it, and this
        // function closes the work and waits for the helpers before it ends, also if `work` panics.
        let run = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
                lent,
            )
        };
        let sleeping = {
            let mut state = self.shared.state.lock();
            state.work = Some(Work {
                run,
                next: 1,
                helpers,
            });
            self.shared.works.fetch_add(1, Ordering::Release);
            state.sleeping
        };
        for _ in 0..helpers.min(sleeping) {
            self.shared.opened.notify_one();
        }
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        let panic = {
            let mut state = self.shared.state.lock();
            state.work = None;
            state.keep(own);
            while state.running > 0 {
                self.shared.left.wait(&mut state);
            }
            state.panic.take()
        };
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Starts helpers until there are `wanted`, or fewer if the system refuses a thread. Returns the number of helpers, at most `wanted`.
    fn start(&self, wanted: usize) -> usize {
        let mut threads = self.threads.lock();
        while threads.len() < wanted {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("cuda-um-transfer".to_owned());
            match thread.spawn(move || shared.help()) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        threads.len().min(wanted)
    }
}

impl Shared {
    fn help(&self) {
        HAS_RING.set(true);
        let mut seen = 0;
        while let Some((number, work)) = self.join(&mut seen) {
            // Foreign code may wait for the thread that waits for the work. Dropped after this thread has left the work.
            let _later = later();
            // Other threads do the rest if the process ends.
            let outcome = Calls::begin().map(|_calls| {
                // SAFETY: the work was open when this thread joined it, and `Workers::run` waits until it has left.
                catch_unwind(AssertUnwindSafe(|| unsafe { (*work.run)(number) }))
            });
            let mut state = self.state.lock();
            state.keep(outcome.unwrap_or(Ok(())));
            state.running -= 1;
            if state.running == 0 {
                self.left.notify_one();
            }
        }
    }

    /// Waits for work to help with; `None` at the end of the device. `seen` is the number of works that this helper has seen.
    fn join(&self, seen: &mut u64) -> Option<(usize, Work)> {
        if *seen > 0 {
            spin_until(AWAKE, || self.works.load(Ordering::Acquire) != *seen);
        }
        let mut state = self.state.lock();
        loop {
            if state.closing {
                return None;
            }
            *seen = self.works.load(Ordering::Acquire);
            if let Some(work) = &mut state.work
                && work.next <= work.helpers
            {
                let joined = (work.next, *work);
                work.next += 1;
                state.running += 1;
                return Some(joined);
            }
            state.sleeping += 1;
            self.opened.wait(&mut state);
            state.sleeping -= 1;
        }
    }
}

impl State {
    /// The destructor of a panic's payload is foreign code, which may panic as well: every payload except the first is forgotten.
    fn keep(&mut self, outcome: std::thread::Result<()>) {
        match (outcome, &self.panic) {
            (Ok(()), _) => {}
            (Err(panic), None) => self.panic = Some(panic),
            (Err(panic), Some(_)) => std::mem::forget(panic),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let threads = std::mem::take(self.threads.get_mut());
        self.shared.state.lock().closing = true;
        self.shared.opened.notify_all();
        let own = thread::current().id();
        for thread in threads {
            // A helper can drop this in foreign code after its work: it cannot wait for itself.
            if thread.thread().id() != own {
                // The panics of the work were already caught.
                let _ = thread.join();
            }
        }
    }
}
