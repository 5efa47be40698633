//! `cargo xtask sanitize`: the tests on the simulator under AddressSanitizer with LeakSanitizer, or under ThreadSanitizer.
//!
//! They need a nightly toolchain: `-Zsanitizer` is not stable. ThreadSanitizer needs its component `rust-src` as well, to build the standard
//! library anew: in one that is not instrumented the fences of `Arc` go unseen, and every last drop of one is reported as a race.

use crate::{nightly, workspace};
use anyhow::{Result, ensure};

/// Tests that say nothing here, each with the reason.
const SKIPPED: &[(&str, &str)] = &[
    (
        "misuse_does_not_compile",
        "compares messages of the pinned compiler",
    ),
    (
        "locks_of_threads_that_a_child_does_not_have",
        "a child of a process with threads at work may wait for the sanitizer's own locks",
    ),
    (
        "a_child_may_end_by_exit",
        "at the child's exit LeakSanitizer looks for memory that only the parent's other threads hold",
    ),
];

/// Which sanitizer.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Sanitizer {
    /// AddressSanitizer and LeakSanitizer.
    Address,
    /// ThreadSanitizer.
    Thread,
}

/// Options of `cargo xtask sanitize`.
#[derive(clap::Args)]
pub struct Args {
    /// Which one.
    sanitizer: Sanitizer,
    /// The packages to test.
    #[arg(last = true, default_values = ["cuda-um", "cuda-um-sim", "um-backend"])]
    packages: Vec<String>,
}

/// Builds and runs the tests.
pub fn run(args: &Args) -> Result<()> {
    let suppressions = |name: &str| workspace::root().join("xtask/src/sanitize").join(name);
    let mut command = nightly::cargo()?;
    command.args(["test", "--target", nightly::HOST, "--lib", "--tests"]);
    let folder = match args.sanitizer {
        Sanitizer::Address => {
            // SIGSEGV is the simulator's: it shows what the host touches. Tests ask for more memory than there is.
            let options = "handle_segv=0:allow_user_segv_handler=1:allocator_may_return_null=1:detect_leaks=1:detect_stack_use_after_return=1";
            let leaks = format!("suppressions={}", suppressions("lsan.txt").display());
            command
                .env("RUSTFLAGS", "-Zsanitizer=address")
                .env("ASAN_OPTIONS", options)
                .env("LSAN_OPTIONS", leaks);
            "sanitize-address"
        }
        Sanitizer::Thread => {
            ensure!(
                nightly::has_source()?,
                "not run: ThreadSanitizer needs the standard library's source (rustup component add rust-src --toolchain nightly)"
            );
            let options = format!(
                "handle_segv=0:allow_user_segv_handler=1:die_after_fork=0:suppressions={}",
                suppressions("tsan.txt").display()
            );
            command
                .arg("-Zbuild-std")
                .env("RUSTFLAGS", "-Zsanitizer=thread")
                .env("TSAN_OPTIONS", options);
            "sanitize-thread"
        }
    };
    // Of its own: the flags would build everything anew each time.
    command.env("CARGO_TARGET_DIR", workspace::target().join(folder));
    for package in &args.packages {
        command.args(["-p", package]);
    }
    command.args(["--no-fail-fast", "--"]);
    for (test, why) in SKIPPED {
        eprintln!("left out: {test} ({why})");
        command.args(["--skip", test]);
    }
    workspace::run(&mut command)
}
