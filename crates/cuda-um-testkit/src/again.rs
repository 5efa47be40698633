//! Tests that run again in another process, with other variables or to its end.

use std::process::Command;

const CHILD: &str = "CUDA_UM_TEST_CHILD";

/// True in a process that [`again`] starts.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The command that runs only one test of this program, in a new process.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1");
    command
}
