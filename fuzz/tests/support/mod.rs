//! Runs a target on an input, and checks its time, and its memory in proportion to the input.

use peak_alloc::PeakAlloc;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};
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

/// The input that is being run.
struct Running {
    name: String,
    input: Vec<u8>,
    until: Instant,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by the only running test of the process, because other tests would use the same heap.
pub struct Alone(#[allow(dead_code, reason = "held until the test ends")] MutexGuard<'static, ()>);

pub fn alone() -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    static WATCHDOG: Once = Once::new();
    WATCHDOG.call_once(|| drop(std::thread::spawn(watch)));
    Alone(lock(&TURN))
}

impl Alone {
    /// Runs a target, and returns the number of heap bytes that it needed.
    ///
    /// # Panics
    /// The target panics, or it needs too much memory. The input is then saved, and named.
    pub fn run(&self, name: &str, target: Target, input: &[u8], limits: Limits) -> usize {
        *lock(&RUNNING) = Some(Running {
            name: name.to_owned(),
            input: input.to_vec(),
            until: Instant::now() + limits.time,
        });
        HEAP.reset_peak_usage();
        let before = HEAP.current_usage();
        target(input);
        let bytes = HEAP.peak_usage().saturating_sub(before);
        let running = lock(&RUNNING).take();
        let most = limits.bytes + limits.bytes_of_each * input.len();
        if bytes > most
            && let Some(running) = running
        {
            let file = save(&running);
            panic!(
                "{name}: {} bytes of input took {bytes} bytes of the heap, and {most} are allowed: see {file}",
                input.len()
            );
        }
        bytes
    }
}

/// Ends the process if an input hangs, because nothing else can end its thread.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_millis(250));
        if let Some(running) = &*lock(&RUNNING)
            && Instant::now() > running.until
        {
            let file = save(running);
            eprintln!("{}: an input takes too long: see {file}", running.name);
            std::process::abort();
        }
    }
}

fn save(running: &Running) -> String {
    let file = format!("{}-input", running.name.replace(' ', "-"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    match std::fs::write(&path, &running.input) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("{}, which could not be written: {error}", path.display()),
    }
}
