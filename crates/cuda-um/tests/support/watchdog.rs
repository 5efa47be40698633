//! Ends a process in which a test hangs, and prints where it hangs.

use std::fs;
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

fn look() {
    loop {
        thread::sleep(LOOKS_EVERY);
        let list = watched();
        if let Some(hangs) = list.iter().find(|one| one.since.elapsed() > one.limit) {
            let headline = format!("{} hangs: no progress for {:?}", hangs.test, hangs.limit);
            end_process(&headline, || (hangs.last)());
        }
    }
}

/// Prints the hanging test and the state of each thread, and aborts.
pub fn end_process(headline: &str, last: impl FnOnce() -> String) -> ! {
    say(&format!("WATCHDOG: {headline}\n{}", threads()));
    // The calls in this thread may hang as well: the process still ends.
    let _ = thread::Builder::new().spawn(|| {
        thread::sleep(Duration::from_secs(5));
        say("WATCHDOG: what was done last cannot be asked, either");
        std::process::abort();
    });
    say(&last());
    std::process::abort();
}

/// Prints a line that the test harness does not capture, because the process may end before the harness prints anything.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// For each thread: its name, its state in the system (R: runs, S: sleeps), its system call, and its run time.
fn threads() -> String {
    let tasks = fs::read_dir("/proc/self/task");
    let of = |file: &str, task: &fs::DirEntry| {
        let text = fs::read_to_string(task.path().join(file)).unwrap_or_default();
        text.trim_end().to_owned()
    };
    let lines = tasks.into_iter().flatten().flatten().map(|task| {
        let stat = of("stat", &task);
        // After the name, which may contain spaces.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<_> = rest.split_whitespace().collect();
        let (state, ticks) = (
            fields.first().unwrap_or(&"?"),
            fields.get(11).unwrap_or(&"?"),
        );
        let (name, sleeps_in) = (of("comm", &task), of("wchan", &task));
        format!("    thread {name:16} {state} {sleeps_in} ({ticks} ticks)\n")
    });
    lines.collect()
}
