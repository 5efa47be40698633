//! Sees that another rank of this machine is gone.
//!
//! MPI itself has no such function: a collective whose other side died waits for ever. The launcher kills the other ranks after a crash, but not
//! always, and not after a rank that exits early.

use bytemuck::{Pod, Zeroable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

/// One rank, as it introduces itself to the others of its machine, in the bytes of this struct.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Process {
    /// The namespace of `pid`, 0 if it is unknown.
    namespace: u64,
    pub(crate) pid: u32,
    pub(crate) rank: u32,
}

impl Process {
    pub(crate) fn this(rank: usize) -> Self {
        use std::os::unix::fs::MetadataExt;
        let namespace = std::fs::metadata("/proc/self/ns/pid");
        Self {
            namespace: namespace.map_or(0, |metadata| metadata.ino()),
            pid: std::process::id(),
            rank: rank as u32,
        }
    }
}

/// The other ranks of this machine.
pub(crate) struct Watch(Vec<(Process, OwnedFd)>);

impl Watch {
    /// Watches all of `local` that are in the namespace of this process, while they are alive.
    pub(crate) fn new(this: &Process, local: impl Iterator<Item = Process>) -> Self {
        let others =
            local.filter(|other| other.rank != this.rank && other.namespace == this.namespace);
        Self(others.filter_map(|it| Some((it, open(it.pid)?))).collect())
    }

    /// The lowest rank whose process has ended.
    pub(crate) fn lost(&self) -> Option<Process> {
        let polled = self.0.iter();
        let polled = polled.map(|(_, process)| PollFd::new(process, PollFlags::IN));
        let mut polled: Vec<PollFd> = polled.collect();
        // An interrupted poll is repeated at the next look.
        poll(&mut polled, Some(&Timespec::default())).ok()?;
        let ended = polled.iter().position(|one| !one.revents().is_empty())?;
        Some(self.0[ended].0)
    }
}

/// A descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
fn open(pid: u32) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open(_: u32) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_namespace_is_not_watched() {
        let this = Process::this(0);
        let other = Process {
            rank: 1,
            namespace: this.namespace + 1,
            ..this
        };
        assert!(Watch::new(&this, [other].into_iter()).0.is_empty());
    }
}
