//! Reports the end of this process if it has no time to do so itself.
//!
//! MPICH's mpiexec kills all ranks as soon as one is killed, and names its process but not its rank. So each rank has a witness: a shell that
//! waits for the end of a pipe. It belongs to the rank's process group, so a launcher that kills the other ranks kills their witnesses with them,
//! and only the first rank that died is reported.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Reads the report, then waits: a second line is a good-bye, the end of the input is the end of the process.
const SCRIPT: &str = "read -r report && { read -r bye || echo \"$report\" >&2; }";

/// The witness of this process; `None` if there is no shell.
pub(crate) struct Witness(Option<Child>);

impl Witness {
    pub(crate) fn new(report: &str) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT]).stdout(Stdio::null());
        let mut child = shell.stdin(Stdio::piped()).spawn().ok();
        if let Some(input) = child.as_mut().and_then(|child| child.stdin.as_mut()) {
            // Without its report it ends.
            let _ = writeln!(input, "{}", report.replace(['\n', '\r'], " "));
        }
        Self(child)
    }

    /// Sends the witness away; the process ends as it should, or reports its end itself.
    pub(crate) fn dismiss(self) {
        if let Some(mut child) = self.0 {
            // A witness that was killed needs no good-bye. The wait ends its input.
            let _ = child.stdin.as_mut().map(|input| input.write_all(b"bye\n"));
            let _ = child.wait();
        }
    }
}
