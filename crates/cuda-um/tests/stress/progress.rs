//! Prints the progress of the threads every ten seconds, and ends a process that hangs.

use cuda_um_testkit::watchdog::{end_process, say};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No operation takes so long, even on a busy machine.
const HANGS: Duration = Duration::from_secs(60);
const SAID_EVERY: Duration = Duration::from_secs(10);

pub struct Progress {
    lanes: Vec<Lane>,
    pub errors: AtomicU64,
    /// Operations that were refused, because there was no memory or a host guard kept the device idle.
    pub refused: AtomicU64,
    is_over: AtomicBool,
}

/// The progress of one thread.
#[repr(align(128))]
struct Lane {
    operations: AtomicU64,
    at: Mutex<&'static str>,
}

impl Progress {
    pub fn new(threads: usize) -> Self {
        let lane = |_| Lane {
            operations: AtomicU64::new(0),
            at: Mutex::new("start"),
        };
        Self {
            lanes: (0..threads).map(lane).collect(),
            errors: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub fn begins(&self, thread: usize, operation: &'static str) {
        self.lanes[thread]
            .operations
            .fetch_add(1, Ordering::Relaxed);
        *self.lanes[thread].at.lock().unwrap() = operation;
    }

    pub fn operations(&self) -> u64 {
        let done = |lane: &Lane| lane.operations.load(Ordering::Relaxed);
        self.lanes.iter().map(done).sum()
    }

    /// Until `Over` is dropped: prints the progress and `live`, and ends the process if there is no progress.
    pub fn watch(&self, mut live: impl FnMut() -> String) {
        let start = Instant::now();
        let (mut moved, mut said, mut seen) = (start, start, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            let all = self.operations();
            let live = live();
            if all != seen {
                (seen, moved) = (all, Instant::now());
            }
            if said.elapsed() > SAID_EVERY {
                said = Instant::now();
                let seconds = start.elapsed().as_secs();
                say(&format!("stress: {seconds} s, {all} operations, {live}"));
            }
            if moved.elapsed() > HANGS {
                let at: Vec<_> = self
                    .lanes
                    .iter()
                    .map(|lane| *lane.at.lock().unwrap())
                    .collect();
                let headline =
                    format!("nothing has moved for {HANGS:?}; the threads are at {at:?}");
                end_process(&headline, String::new);
            }
        }
    }
}

/// Stops the watch, also after a panic.
pub struct Over<'a>(pub &'a Progress);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
