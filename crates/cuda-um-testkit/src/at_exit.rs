//! Makes a test process on a GPU end only after the reclaim thread has ended.
//!
//! This thread frees buffers that were dropped in use, and may still be working when the last test returns. The driver then
//! releases all memory, but compute-sanitizer counts it as leaked.

use std::fs;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

/// The thread lives as long as a runtime: a test that leaks a runtime waits for this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits at the end of the process, for at most 5 s, until no reclaim thread is left.
///
/// Call it when CUDA is initialised: exit handlers run in reverse order, so this one runs before CUDA's, and before the library's own, which
/// stops that thread.
pub fn wait_for_frees() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        cuda_um::process_end::watch(cuda_um::process_end::Used::Context);
        // SAFETY: the function takes no arguments, cannot unwind, and exists until the process ends.
        #[allow(unsafe_code, reason = "atexit is a C function")]
        let code = unsafe { libc::atexit(wait) };
        assert_eq!(code, 0, "atexit");
    });
}

extern "C" fn wait() {
    let start = Instant::now();
    // A thread that has just been spawned does not have its name yet.
    thread::sleep(Duration::from_millis(20));
    while is_freeing() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// True if a thread of this process has the name of the reclaim thread.
fn is_freeing() -> bool {
    let tasks = fs::read_dir("/proc/self/task");
    tasks.into_iter().flatten().flatten().any(|task| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.trim_end() == "cuda-um-reclaim")
    })
}
