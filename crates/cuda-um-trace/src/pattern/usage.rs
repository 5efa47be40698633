//! The use of a buffer: which side reads it, which side writes it, and in which order.

use crate::Place;
use crate::report::{ALTERNATIONS, Context, alternations};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The use of a buffer. The first variant that fits counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Usage {
    /// No operation used it, and it has no records.
    Untouched,
    /// Host and device moved it to and fro, three times or more.
    PingPong,
    /// All accesses were reads.
    ReadOnly,
    /// It was written once, and then only read.
    WriteOnce,
    /// Only devices used it.
    DeviceOnly,
    /// Only the host used it.
    HostOnly,
    /// Both used it, in another order.
    Shared,
    /// No operation in the trace names it.
    Unknown,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untouched => "untouched",
            Self::PingPong => "ping-pong",
            Self::ReadOnly => "read-only",
            Self::WriteOnce => "write-once",
            Self::DeviceOnly => "by devices only",
            Self::HostOnly => "by the host only",
            Self::Shared => "by host and device",
            Self::Unknown => "not known",
        })
    }
}

/// A pattern by its name in `cuda_um::AccessPattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SuggestedPattern {
    /// Written seldom, and read repeatedly by host and device.
    ReadMostly,
    /// Almost always used by the device.
    DeviceResident,
    /// Written by a kernel, and then read by the host.
    ReadBack,
    /// Written by the host once, and read by a kernel once.
    StreamOnce,
}

impl fmt::Display for SuggestedPattern {
    /// As Rust code: `"AccessPattern::ReadBack"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessPattern::{self:?}")
    }
}

pub(super) fn of(context: &Context, buffer: usize) -> (Usage, Option<SuggestedPattern>) {
    let uses = &context.uses[buffer];
    let count = |host: bool, write: bool| {
        let these = uses.iter();
        these
            .filter(|one| (one.by == Place::Host) == host && one.write == write)
            .count()
    };
    let (host_reads, host_writes) = (count(true, false), count(true, true));
    let (device_reads, device_writes) = (count(false, false), count(false, true));
    let writes = host_writes + device_writes;
    let ping_pong = alternations(context, buffer, |_| true).0 >= ALTERNATIONS;
    let written_first = uses.first().is_some_and(|one| one.write);
    let usage = match (uses.len(), context.parts[buffer].len()) {
        (0, 0) => Usage::Untouched,
        (0, _) if ping_pong => Usage::PingPong,
        (0, _) => Usage::Unknown,
        _ if ping_pong => Usage::PingPong,
        _ if writes == 0 => Usage::ReadOnly,
        (2.., _) if writes == 1 && written_first => Usage::WriteOnce,
        _ if host_reads + host_writes == 0 => Usage::DeviceOnly,
        _ if device_reads + device_writes == 0 => Usage::HostOnly,
        _ => Usage::Shared,
    };
    use SuggestedPattern as S;
    let device_uses = device_reads + device_writes;
    // There are few writes compared with the reads of either side.
    let read_by_both = host_reads > 0 && device_reads > 0 && device_writes == 0;
    let suggests = if read_by_both && writes * 4 <= host_reads + device_reads && device_reads > 1 {
        Some(S::ReadMostly)
    } else if device_writes > 0 && device_reads == 0 && host_writes == 0 && host_reads > 0 {
        Some(S::ReadBack)
    } else if host_writes == 1 && device_reads == 1 && device_writes == 0 && host_reads == 0 {
        Some(S::StreamOnce)
    } else if device_uses >= 2 && host_reads == 0 && host_writes <= 1 {
        Some(S::DeviceResident)
    } else {
        None
    };
    (usage, suggests)
}
