//! Children made by `fork`, for tests of their behaviour.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time limit of a child without an end.
const HANGS: Duration = Duration::from_secs(30);

/// Runs `body` in a child made by `fork`; its result is the exit code (101 for a panic). `body` may end the process or return.
#[allow(unsafe_code, reason = "fork is a C function")]
pub fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child has only this thread of the process; it ends with `_exit` and runs no code of the test harness. The C
    // library makes its allocator usable in children.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let body = std::panic::AssertUnwindSafe(body);
        let code = std::panic::catch_unwind(body).unwrap_or(101);
        // SAFETY: this ends the process.
        unsafe { libc::_exit(code) };
    }
    let start = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the child is ours; the pointer is valid for one write.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if start.elapsed() < HANGS => std::thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: the child is ours and not waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("the child hangs");
            }
            found if found == child && libc::WIFEXITED(status) => {
                return libc::WEXITSTATUS(status);
            }
            found => panic!("waitpid gives {found}; the child ended with status {status:#x}"),
        }
    }
}

/// Ends the other threads of a test, also after a panic.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Relaxed: the threads only stop; a join orders their work.
        self.0.store(true, Ordering::Relaxed);
    }
}
