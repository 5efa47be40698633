//! A test process on a GPU ends when the library's thread that frees has ended.
//!
//! That thread frees what was dropped in use, and may be at it when the last test returns. The driver takes all memory back then; but
//! compute-sanitizer counts it as leaked.

use std::fs;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

/// The thread lives as long as a runtime does: a test that leaks one waits as long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits at the end of the process, at most 5 s, until no thread that frees is left.
///
/// To be called when CUDA is initialised: handlers run in the reverse order, this one before CUDA's.
pub fn wait_for_frees() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes nothing, cannot unwind, and is there until the process ends.
        #[allow(unsafe_code, reason = "atexit is a function of C")]
        let code = unsafe { libc::atexit(wait) };
        assert_eq!(code, 0, "atexit");
    });
}

extern "C" fn wait() {
    let start = Instant::now();
    while is_freeing() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread of this process has the name of the one that frees.
fn is_freeing() -> bool {
    let tasks = fs::read_dir("/proc/self/task");
    tasks.into_iter().flatten().flatten().any(|task| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim_end() == "cuda-um-reclaim")
    })
}
