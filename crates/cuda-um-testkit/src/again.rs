//! Tests that run again in another process, with other variables or to its end.

use std::process::Command;

const CHILD: &str = "CUDA_UM_TEST_CHILD";

/// True in a process that [`again`] starts.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The command that runs this program, in a new process: by the program and options in `CUDA_UM_TEST_RUNNER`, if it is set (an emulator, which does
/// not run the children of its program).
pub fn this_program() -> Command {
    let this = std::env::current_exe().expect("a test is a program");
    let runner = std::env::var("CUDA_UM_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    match words.next() {
        None => Command::new(this),
        Some(runner) => {
            let mut command = Command::new(runner);
            command.args(words).arg(this);
            command
        }
    }
}

/// The command that runs only one test of this program, in a new process.
pub fn again(test: &str) -> Command {
    let mut command = this_program();
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1");
    command
}
