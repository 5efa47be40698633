//! Reports the end of this process if it has no time to do so itself.
//!
//! MPICH's mpiexec kills all ranks as soon as one is killed, and names its process but not its rank. So each rank has a witness: a shell that
//! waits for the end of a pipe. It belongs to the rank's process group, so a launcher that kills the other ranks kills their witnesses with them,
//! and only the first rank that died is reported.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Reads the report, then waits: a second line is a good-bye, the end of the input is the end of the process.
const SCRIPT: &str = "read -r report && { read -r bye || echo \"$report\" >&2; }";

/// The witness of this process.
pub(crate) struct Witness(Child);

impl Witness {
    /// Starts the witness; `None` if there is no shell.
    pub(crate) fn new(report: &str) -> Option<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT]).stdout(Stdio::null());
        let child = shell.stdin(Stdio::piped()).spawn().ok()?;
        let mut input = child.stdin.as_ref()?;
        writeln!(input, "{}", report.replace(['\n', '\r'], " ")).ok()?;
        Some(Self(child))
    }

    /// Sends the witness away; the process ends as it should, or reports its end itself.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            // A witness that was killed needs no good-bye.
            let _ = input.write_all(b"bye\n");
            drop(input);
            let _ = self.0.wait();
        }
    }
}
