//! `cargo xtask sanitize`: runs the tests on the simulator under AddressSanitizer with LeakSanitizer, or under ThreadSanitizer,
//! or the unit tests that need no simulator under Miri.
//!
//! `-Zsanitizer` is not stable. AddressSanitizer needs a nightly toolchain. ThreadSanitizer needs an instrumented standard
//! library: otherwise it does not see the fences of `Arc`, and reports every last drop of an `Arc` as a race. So it uses the
//! pinned toolchain and the library's source of that version.

use crate::{nightly, std_source, workspace};
use anyhow::{Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Tests that have no useful result here, each with the reason.
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
    (
        "frees::a_panic_stops_no_other_entry",
        "AddressSanitizer does not follow a panic on the stack of loom's coroutine: it reports the next call there as an overflow",
    ),
];

/// The simulator handles SIGSEGV: it detects host accesses with it.
const SIGNALS: &str = "handle_segv=0:allow_user_segv_handler=1";

/// The sanitizers.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Sanitizer {
    /// AddressSanitizer and LeakSanitizer.
    Address,
    /// ThreadSanitizer.
    Thread,
    /// Miri, which finds undefined behaviour in those unit tests of cuda-um that need no simulator (a nightly toolchain with
    /// the component `miri`).
    Miri,
}

/// The package and the arguments of the tests that run under Miri: arithmetic and bookkeeping of cuda-um, and the models of its
/// `tests/loom`, which here have the library's own locks. The other tests need the simulator, which maps memory and handles signals, or
/// instructions that Miri does not support.
const UNDER_MIRI: &[&[&str]] = &[
    &[
        "cuda-um",
        "--lib",
        "--",
        "buffer::fill",
        "resource::id",
        "range::",
        "resource::pool::class",
        "resource::cache::",
        "resource::system::",
        "sync::",
        "buffer::transfer::options",
        "buffer::transfer::plan",
    ],
    &["cuda-um-loom"],
];

/// Options of `cargo xtask sanitize`.
#[derive(clap::Args)]
pub struct Args {
    /// The sanitizer.
    sanitizer: Sanitizer,
    /// For ThreadSanitizer: the folder that holds `library/`, the standard library's source of the pinned toolchain [default:
    /// the toolchain's component `rust-src`].
    #[arg(long)]
    rust_src: Option<PathBuf>,
    /// For ThreadSanitizer: number of sequences of the model test.
    #[arg(long, default_value_t = 2000)]
    model_sequences: u32,
    /// The packages to test [default: cuda-um, cuda-um-loom, cuda-um-sim, um-backend, um-dlpack, um-kernels, um-conformance, and um-cudarc
    /// for AddressSanitizer].
    #[arg(last = true)]
    packages: Vec<String>,
}

const PACKAGES: &[&str] = &[
    "cuda-um",
    "cuda-um-loom",
    "cuda-um-sim",
    "um-backend",
    "um-dlpack",
    "um-kernels",
    "um-profile",
    "um-conformance",
];

impl Args {
    fn packages(&self) -> Vec<&str> {
        if !self.packages.is_empty() {
            return self.packages.iter().map(String::as_str).collect();
        }
        // The simulator's library would need ThreadSanitizer's functions, which a program does not export.
        let more: &[&str] = match self.sanitizer {
            Sanitizer::Address => &["um-cudarc"],
            _ => &[],
        };
        [PACKAGES, more].concat()
    }
}

/// Builds and runs the tests.
pub fn run(args: &Args) -> Result<()> {
    let mut command = match args.sanitizer {
        Sanitizer::Address => address()?,
        Sanitizer::Thread => thread(args)?,
        Sanitizer::Miri => return miri(),
    };
    command.args(["test", "--target", nightly::HOST, "--tests"]);
    let packages = args.packages();
    for package in &packages {
        command.args(["-p", package]);
    }
    command.args(["--no-fail-fast", "--"]);
    for (test, why) in SKIPPED {
        eprintln!("left out: {test} ({why})");
        command.args(["--skip", test]);
    }
    workspace::run(&mut command)
}

/// `cargo` for AddressSanitizer.
fn address() -> Result<Command> {
    // Some tests ask for more memory than there is.
    let options = "allocator_may_return_null=1:detect_leaks=1:detect_stack_use_after_return=1";
    let mut command = nightly::cargo()?;
    command
        // The program exports the sanitizer's functions to the simulator's shared library.
        .env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic")
        .env("ASAN_OPTIONS", format!("{SIGNALS}:{options}"))
        .env("LSAN_OPTIONS", suppressions("lsan.txt"))
        // A separate folder: otherwise the flags would rebuild everything each time.
        .env(
            "CARGO_TARGET_DIR",
            workspace::target().join("sanitize-address"),
        );
    Ok(command)
}

/// `cargo` for ThreadSanitizer.
fn thread(args: &Args) -> Result<Command> {
    // The simulator's handler allocates and locks. This is safe, because its signal comes from an access to the simulator's
    // memory, never from inside an allocation. Processes of tests end beside threads that are not joined.
    let options =
        "report_signal_unsafe=0:report_thread_leaks=0:allocator_may_return_null=1:die_after_fork=0";
    let mut command = std_source::cargo(args.rust_src.as_deref())?;
    command
        .env("RUSTFLAGS", "-Zsanitizer=thread --cfg thread_sanitizer")
        .env(
            "TSAN_OPTIONS",
            format!("{SIGNALS}:{options}:{}", suppressions("tsan.txt")),
        )
        // Each test has simulators, and the sanitizer leaves address space for sixteen.
        .env("RUST_TEST_THREADS", "4")
        .env("CUDA_UM_MODEL_SEQUENCES", args.model_sequences.to_string())
        .env(
            "CARGO_TARGET_DIR",
            workspace::target().join("sanitize-thread"),
        );
    Ok(command)
}

/// `cargo miri test` for the tests that Miri can run.
fn miri() -> Result<()> {
    let there = nightly::cargo()?.args(["miri", "--version"]).output();
    ensure!(
        there.is_ok_and(|output| output.status.success()),
        "this needs Miri: rustup component add miri rust-src --toolchain nightly"
    );
    for tests in UNDER_MIRI {
        let mut command = nightly::cargo()?;
        command
            // proptest reads the time and the environment. The library leaks payloads of panics on purpose (`sync::caught`).
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks")
            .env("CARGO_TARGET_DIR", workspace::target().join("miri"))
            .args(["miri", "test", "-p"])
            .args(*tests);
        workspace::run(&mut command)?;
    }
    Ok(())
}

/// The option that names a file of suppressions.
fn suppressions(name: &str) -> String {
    let folder = workspace::root().join("xtask/src/sanitize");
    format!("suppressions={}", folder.join(name).display())
}
