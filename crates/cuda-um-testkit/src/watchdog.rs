//! Ends a process in which a test hangs, and prints where it hangs.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Much longer than a test takes between two reports of progress, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// Watches a test until it is dropped.
#[must_use = "watches until it is dropped"]
pub struct Watchdog {
    number: u64,
    process: u32,
}

struct Watched {
    number: u64,
    test: String,
    limit: Duration,
    since: Instant,
    /// Describes its last action, for the report.
    last: Box<dyn Fn() -> String + Send>,
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the test on this thread: without progress for [`LIMIT`] it counts as hanging.
pub fn watch() -> Watchdog {
    watch_for(LIMIT, String::new)
}

/// The same with another time limit; `last` describes the last action.
pub fn watch_for(limit: Duration, last: impl Fn() -> String + Send + 'static) -> Watchdog {
    // The test harness names its threads.
    let test = thread::current().name().unwrap_or("a test").to_owned();
    watch_named(test, limit, last)
}

/// The same for a part of a test, with its own name.
pub fn watch_named(
    test: String,
    limit: Duration,
    last: impl Fn() -> String + Send + 'static,
) -> Watchdog {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let thread = thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(look).expect("a thread to watch");
    });
    // An emulator is many times slower.
    let limit = limit
        * if std::env::var_os("CUDA_UM_TEST_RUNNER").is_some() {
            20
        } else {
            1
        };
    // Relaxed: the numbers need only differ.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    watched().push(Watched {
        number,
        test,
        limit,
        since: Instant::now(),
        last: Box::new(last),
    });
    Watchdog {
        number,
        process: std::process::id(),
    }
}

impl Watchdog {
    /// Reports progress of the test.
    pub fn progress(&self) {
        let mut watched = watched();
        if let Some(watched) = watched.iter_mut().find(|one| one.number == self.number) {
            watched.since = Instant::now();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // In a child made by `fork` the list may stay locked forever.
        if self.process == std::process::id() {
            let its = {
                let mut watched = watched();
                let at = watched.iter().position(|one| one.number == self.number);
                at.map(|at| watched.swap_remove(at))
            };
            drop(its);
        }
    }
}

/// Prints the hanging test and what it did last, and aborts.
fn look() {
    loop {
        thread::sleep(LOOKS_EVERY);
        let list = watched();
        let Some(hangs) = list.iter().find(|one| one.since.elapsed() > one.limit) else {
            continue;
        };
        let (test, limit) = (&hangs.test, hangs.limit);
        say(&format!(
            "WATCHDOG: {test} hangs: no progress for {limit:?}"
        ));
        // What it did last may hang as well: the process still ends.
        let _ = thread::Builder::new().spawn(|| {
            thread::sleep(Duration::from_secs(5));
            std::process::abort();
        });
        say(&(hangs.last)());
        std::process::abort();
    }
}

/// Prints a line that the test harness does not capture, because the process may end before the harness prints anything.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
