//! The tests of the programs and of the guides.

mod examples;
mod guide;
mod mini_framework;

use std::path::Path;
use std::process::Command;

/// The runtime of the tests: `cuda` if `CUDA_UM_TEST_RUNTIME` says so, otherwise `sim`.
fn runtime() -> String {
    std::env::var("CUDA_UM_TEST_RUNTIME").unwrap_or_else(|_| "sim".into())
}

/// A program from cargo's target folder or from the folder of the bundle, on this runtime.
fn program(name: &str, built: &str) -> Command {
    let mut command = Command::new(match std::env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join(name),
        None => built.into(),
    });
    command.env("CUDA_UM_RUNTIME", runtime());
    command
}

/// What a program prints. It must succeed.
fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}
