//! Runs a target on an input, and checks its time, and its memory in proportion to the input.

use cuda_um_testkit::watchdog::watch_named;
use peak_alloc::PeakAlloc;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use um_fuzz::Target;

/// Counts the heap. The stacks of threads and the simulator's memory file are not part of it.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The limits for an input.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Far more than any input needs, so that a busy machine causes no failure: beyond it the input counts as a hang.
    pub time: Duration,
    /// Bytes of the heap, independent of the input.
    pub bytes: usize,
    /// Bytes of the heap for each byte of the input.
    pub bytes_of_each: usize,
}

/// Held by the only running test of the process, because other tests would use the same heap.
pub struct Alone(#[allow(dead_code, reason = "held until the test ends")] MutexGuard<'static, ()>);

pub fn alone() -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    Alone(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Alone {
    /// Runs a target, and returns the number of heap bytes that it needed.
    ///
    /// # Panics
    /// The target panics, or it needs too much memory. The input is then saved, and named.
    pub fn run(&self, name: &str, target: Target, input: &[u8], limits: Limits) -> usize {
        // Nothing else can end a thread that hangs.
        let running = (name.to_owned(), input.to_vec());
        let save_running = move || format!("its input: {}", save(&running.0, &running.1));
        let _watchdog = watch_named(name.to_owned(), limits.time, save_running);
        HEAP.reset_peak_usage();
        let before = HEAP.current_usage();
        target(input);
        let bytes = HEAP.peak_usage().saturating_sub(before);
        let most = limits.bytes + limits.bytes_of_each * input.len();
        assert!(
            bytes <= most,
            "{name}: {} bytes of input took {bytes} bytes of the heap, and {most} are allowed: see {}",
            input.len(),
            save(name, input)
        );
        bytes
    }
}

fn save(name: &str, input: &[u8]) -> String {
    let file = format!("{}-input", name.replace(' ', "-"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    match std::fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("{}, which could not be written: {error}", path.display()),
    }
}
