//! Sees that another rank of this machine is gone.
//!
//! MPI itself has no such function: a collective whose other side died waits for ever. The launcher kills the other ranks after a crash, but not
//! always, and not after a rank that exits early.

use crate::MpiError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

/// One rank, as it introduces itself to the others of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) rank: usize,
    pub(crate) pid: u32,
    /// The namespace of `pid`, 0 if it is unknown.
    namespace: u64,
}

impl Process {
    pub(crate) fn this(rank: usize) -> Self {
        use std::os::unix::fs::MetadataExt;
        let namespace = std::fs::metadata("/proc/self/ns/pid");
        Self {
            rank,
            pid: std::process::id(),
            namespace: namespace.map_or(0, |metadata| metadata.ino()),
        }
    }

    pub(crate) fn to_bytes(&self) -> [u8; 24] {
        let words = [self.rank as u64, u64::from(self.pid), self.namespace];
        let mut bytes = [0; 24];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"))
        };
        Self {
            rank: word(0) as usize,
            pid: word(1) as u32,
            namespace: word(2),
        }
    }
}

/// The other ranks of this machine.
pub(crate) struct Watch {
    size: usize,
    host: String,
    others: Vec<(Process, OwnedFd)>,
}

impl Watch {
    /// Watches all of `local` that are in the namespace of this process, while they are alive.
    pub(crate) fn new(this: &Process, local: &[Process], size: usize, host: String) -> Self {
        let others = local
            .iter()
            .filter(|other| other.rank != this.rank && other.namespace == this.namespace);
        let others = others.filter_map(|other| Some((other.clone(), open(other.pid)?)));
        Self {
            size,
            host,
            others: others.collect(),
        }
    }

    /// The lowest rank whose process has ended.
    pub(crate) fn lost(&self) -> Option<MpiError> {
        let mut polled: Vec<PollFd> = self
            .others
            .iter()
            .map(|(_, process)| PollFd::new(process, PollFlags::IN))
            .collect();
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // An interrupted poll is repeated at the next look.
        poll(&mut polled, Some(&at_once)).ok()?;
        let ended = polled.iter().position(|one| !one.revents().is_empty())?;
        let process = &self.others[ended].0;
        Some(MpiError::RankLost {
            rank: process.rank,
            size: self.size,
            pid: process.pid,
            host: self.host.clone(),
        })
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
    fn a_process_that_ends_is_lost() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let this = Process::this(0);
        let other = Process {
            rank: 3,
            pid: child.id(),
            ..this.clone()
        };
        assert_eq!(Process::from_bytes(&other.to_bytes()), other);
        let watch = Watch::new(&this, &[this.clone(), other], 4, "here".to_owned());
        assert_eq!(watch.lost(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let (rank, size, pid) = (3, 4, child.id());
        let host = "here".to_owned();
        let lost = MpiError::RankLost {
            rank,
            size,
            pid,
            host,
        };
        assert_eq!(watch.lost(), Some(lost));
    }

    #[test]
    fn a_process_of_another_namespace_is_not_watched() {
        let this = Process::this(0);
        let other = Process {
            rank: 1,
            namespace: this.namespace + 1,
            ..this.clone()
        };
        assert!(
            Watch::new(&this, &[other], 2, String::new())
                .others
                .is_empty()
        );
    }
}
