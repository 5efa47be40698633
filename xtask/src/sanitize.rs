//! `cargo xtask sanitize`: the tests on the simulator under AddressSanitizer with LeakSanitizer, or under ThreadSanitizer.
//!
//! They need a nightly toolchain: `-Zsanitizer` is not stable. Its standard library is not instrumented unless the component `rust-src` is
//! there to build it anew; without that, ThreadSanitizer can report races where the library's own ordering is what prevents them.

use crate::workspace;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

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
    #[arg(last = true, default_values = ["cuda-um", "cuda-um-sim"])]
    packages: Vec<String>,
}

/// Builds and runs the tests.
pub fn run(args: &Args) -> Result<()> {
    let sysroot = Command::new("rustc")
        .args(["+nightly", "--print", "sysroot"])
        .output()?;
    ensure!(
        sysroot.status.success(),
        "skipped: sanitizers need a nightly toolchain (rustup toolchain install nightly --component rust-src)"
    );
    let sysroot = String::from_utf8(sysroot.stdout)?;
    let has_source = Path::new(sysroot.trim())
        .join("lib/rustlib/src/rust/library")
        .exists();
    let suppressions = |name: &str| workspace::root().join("xtask/src/sanitize").join(name);
    let mut command = workspace::nightly()?;
    command.args(["test", "--target", workspace::HOST, "--lib", "--tests"]);
    let folder = match args.sanitizer {
        Sanitizer::Address => {
            // SIGSEGV is the simulator's: it shows what the host touches.
            let options = "handle_segv=0:allow_user_segv_handler=1:detect_leaks=1:detect_stack_use_after_return=1";
            let leaks = format!("suppressions={}", suppressions("lsan.txt").display());
            command
                .env("RUSTFLAGS", "-Zsanitizer=address")
                .env("ASAN_OPTIONS", options)
                .env("LSAN_OPTIONS", leaks);
            "sanitize-address"
        }
        Sanitizer::Thread => {
            let file = if has_source {
                command.arg("-Zbuild-std");
                "tsan.txt"
            } else {
                eprintln!("no rust-src: the standard library is not instrumented");
                "tsan-std.txt"
            };
            let options = format!(
                "handle_segv=0:allow_user_segv_handler=1:die_after_fork=0:suppressions={}",
                suppressions(file).display()
            );
            command
                .env(
                    "RUSTFLAGS",
                    "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
                )
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
