//! Children made by `fork`, for tests of what they may do. The tests of `um-backend` have this file, too.

use std::time::{Duration, Instant};

/// A child that does nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(30);

/// Runs `body` in a child made by `fork`, which ends with its result as exit code (101 for a panic). `body` ends the process or returns.
#[allow(unsafe_code, reason = "fork is a function of C")]
pub fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: of this process's threads the child has this one alone; it ends by `_exit` and runs no code of the test harness. The C
    // library makes its allocator usable in children.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let body = std::panic::AssertUnwindSafe(body);
        let code = std::panic::catch_unwind(body).unwrap_or(101);
        // SAFETY: ends the process.
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
