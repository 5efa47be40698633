//! A finding: an observation, a change, and the saving of the change.

mod words;

use super::traffic::ns;
use crate::Place;
use crate::units;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// A suggested change, or a fact.
///
/// `Display` prints a sentence: ``412 faults on `targets` during `cosine`: prefetch it before the launch (saves about 640
/// us)``.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The buffer's number in the trace.
    pub buffer: Option<u64>,
    /// The buffer's name.
    pub name: String,
    /// The observation.
    #[serde(flatten)]
    pub kind: FindingKind,
    /// The saving by the cost model.
    pub saves: Saving,
    /// Another way to the savings of other findings; not counted in sums.
    pub alternative: bool,
    /// The line of code that reports print: the [call](Self::call) in Rust, unless the program replaces it by its own language.
    #[serde(default)]
    pub code: Option<String>,
}

/// A call that makes a suggested change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// A prefetch of the buffer.
    Prefetch {
        /// The location.
        to: Place,
    },
    /// Advice: the buffer is mostly read.
    SetReadMostly,
    /// Takes this advice back.
    UnsetReadMostly,
    /// Advice: the preferred location.
    PreferLocation {
        /// The location.
        at: Place,
    },
    /// The buffer is allocated in mapped memory.
    MapMemory,
}

/// The saving of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Saving {
    /// Bytes that would not move.
    pub bytes: u64,
    /// Faults of either side that would not happen.
    pub faults: u64,
    /// Time by the cost model: the old cost minus the cost of the change.
    #[serde(rename = "time_ns", with = "ns")]
    pub time: Duration,
}

impl AddAssign for Saving {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.faults += other.faults;
        self.time += other.time;
    }
}

/// The observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A kernel, fill or copy faulted on memory. A prefetch would have moved or populated it.
    DeviceFaults {
        /// The work that ran: `"cosine"`.
        during: String,
        /// The device.
        #[serde(default)]
        device: u32,
        /// The number of runs.
        runs: u64,
        /// GPU faults.
        faults: u64,
        /// Bytes that moved; 0 if the memory was fresh.
        bytes: u64,
    },
    /// The host faulted on memory that was on a device.
    HostFaults {
        /// Number of guards and copies that faulted.
        times: u64,
        /// CPU faults.
        faults: u64,
        /// Bytes that moved.
        bytes: u64,
        /// True if every one of them may have written.
        writes: bool,
    },
    /// The buffer was prefetched twice to the same location.
    PrefetchedTwice {
        /// The location.
        to: Place,
        /// Number of unnecessary calls.
        times: u64,
    },
    /// The buffer was prefetched to a device, and moved back before the device used it.
    PrefetchUnused {
        /// The device.
        device: u32,
        /// Number of calls.
        times: u64,
        /// Bytes in both directions.
        bytes: u64,
    },
    /// The buffer was prefetched to a device, and evicted before the device used it.
    EvictedBeforeUse {
        /// The device.
        device: u32,
        /// Number of calls.
        times: u64,
        /// Bytes in both directions.
        bytes: u64,
    },
    /// The library left out prefetches to a device, which then faulted on the buffer: its pages had left without a call of the library.
    LeftOut {
        /// Number of prefetches.
        times: u64,
        /// GPU faults.
        faults: u64,
    },
    /// Writes collapsed its read-only copies repeatedly.
    ReadMostlyCollapsed {
        /// Number of collapses.
        times: u64,
    },
    /// Host and device move it to and fro by faults.
    PingPong {
        /// Number of changes of direction of one part.
        alternations: u64,
        /// Bytes in both directions.
        bytes: u64,
    },
    /// It moved to and fro without a write.
    ReadByBoth {
        /// Bytes that moved without need.
        bytes: u64,
    },
    /// The driver detected thrashing between host and devices.
    Thrashing {
        /// The device of the buffer.
        #[serde(default)]
        device: u32,
        /// Number of records.
        times: u64,
        /// Number of times that a processor was throttled because of it.
        throttled: u64,
    },
    /// Parts of it were mapped over the link and did not move.
    RemoteMaps {
        /// Number of records.
        times: u64,
        /// Bytes that were mapped.
        bytes: u64,
    },
    /// It was evicted from a full device.
    Evicted {
        /// Bytes that were evicted.
        bytes: u64,
    },
}

impl Finding {
    /// The call that makes the change; `None` if a call must be removed, or no call helps.
    pub fn call(&self) -> Option<Call> {
        use FindingKind as K;
        Some(match self.kind {
            K::DeviceFaults { device, .. } => Call::Prefetch {
                to: Place::Device(device),
            },
            K::HostFaults { .. } | K::Evicted { .. } => Call::Prefetch { to: Place::Host },
            K::ReadMostlyCollapsed { .. } => Call::UnsetReadMostly,
            K::ReadByBoth { .. } => Call::SetReadMostly,
            K::PingPong { .. } => Call::MapMemory,
            K::Thrashing { device, .. } => Call::PreferLocation {
                at: Place::Device(device),
            },
            K::PrefetchedTwice { .. }
            | K::PrefetchUnused { .. }
            | K::EvictedBeforeUse { .. }
            | K::LeftOut { .. }
            | K::RemoteMaps { .. } => return None,
        })
    }

    /// Where the [call](Self::call) belongs: ``before `cosine` ``; "" if the call itself tells it.
    pub fn when(&self) -> String {
        use FindingKind as K;
        match &self.kind {
            K::DeviceFaults { during, .. } => format!("before {during}"),
            K::HostFaults { .. } => "before the host reads or writes it".to_owned(),
            K::ReadByBoth { .. } => "before the first kernel".to_owned(),
            K::Thrashing { .. } => "the device that uses it most".to_owned(),
            K::Evicted { .. } => "when its last kernel is done".to_owned(),
            _ => String::new(),
        }
    }

    /// The buffer's name if it can be an expression in Rust and in Python, otherwise "buffer".
    pub fn variable(&self) -> &str {
        match self.is_place() {
            true => &self.name,
            false => "buffer",
        }
    }

    /// The [call](Self::call) in Rust, with the methods that every buffer of cuda-um and um-backend has.
    pub(super) fn rust(&self) -> Option<String> {
        let place = |place| match place {
            Place::Host => "Location::Host".to_owned(),
            Place::Device(device) => format!("Location::Device({device})"),
        };
        let arguments = match self.call()? {
            Call::Prefetch { to } => format!("prefetch({})", place(to)),
            Call::SetReadMostly => "advise(Advice::SetReadMostly)".to_owned(),
            Call::UnsetReadMostly => "advise(Advice::UnsetReadMostly)".to_owned(),
            Call::PreferLocation { at } => {
                format!("advise(Advice::SetPreferredLocation({}))", place(at))
            }
            Call::MapMemory => {
                return Some("UnifiedOptions::default().placement(Placement::Mapped)".to_owned());
            }
        };
        let when = match self.when() {
            when if when.is_empty() => when,
            when => format!(" // {when}"),
        };
        Some(format!("{}.{arguments}?;{when}", self.variable()))
    }

    /// True if the name is a place expression in Rust: `targets`, `self.weights`, `layers[3].bias`.
    fn is_place(&self) -> bool {
        let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        self.name.split('.').all(|part| {
            let (name, index) = match part.split_once('[') {
                Some((name, rest)) => (name, rest.strip_suffix(']')),
                None => (part, Some("0")),
            };
            let number = index.is_some_and(|index| {
                !index.is_empty() && index.chars().all(|letter| letter.is_ascii_digit())
            });
            let begins_well = !name.starts_with(|first: char| first.is_ascii_digit());
            number && begins_well && !name.is_empty() && name.chars().all(letter)
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.observation(), self.advice())?;
        if self.saves.time > Duration::ZERO {
            let time = units::time(self.saves.time);
            let saves = if self.alternative {
                "would save"
            } else {
                "saves"
            };
            write!(f, " ({saves} about {time})")?;
        }
        Ok(())
    }
}
