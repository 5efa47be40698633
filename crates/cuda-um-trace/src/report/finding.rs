//! A finding: what was seen, what to change, and what that saves.

use super::traffic::ns;
use crate::Place;
use crate::units;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// Something to change, or to know.
///
/// Display gives it as a sentence: ``412 faults on `targets` during `cosine`: prefetch it before the launch (saves about 640 us)``.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The buffer's number in the trace.
    pub buffer: Option<u64>,
    /// The buffer's name.
    pub name: String,
    /// What was seen.
    #[serde(flatten)]
    pub kind: FindingKind,
    /// What would go away, by the cost model.
    pub saves: Saving,
    /// Another way to the savings of other findings: not counted in sums.
    pub alternative: bool,
}

/// What a change saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saving {
    /// Bytes that need not move.
    pub bytes: u64,
    /// Faults of either side that need not happen.
    pub faults: u64,
    /// Time by the cost model: as it was, less what the change costs.
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

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A kernel, fill or copy faulted on memory that a prefetch would have brought, or populated.
    DeviceFaults {
        /// What ran: `"cosine"`.
        during: String,
        /// How many times.
        runs: u64,
        /// GPU faults.
        faults: u64,
        /// Bytes that they brought; 0: the memory was fresh.
        bytes: u64,
    },
    /// The host faulted on memory that a device had.
    HostFaults {
        /// Guards and copies that faulted.
        times: u64,
        /// CPU faults.
        faults: u64,
        /// Bytes that they brought.
        bytes: u64,
        /// Whether every one of them may have written.
        writes: bool,
    },
    /// It was prefetched to where it had just been prefetched to.
    PrefetchedTwice {
        /// Where to.
        to: Place,
        /// How many calls too many.
        times: u64,
    },
    /// It was prefetched to a device, which never used it before it moved back.
    PrefetchUnused {
        /// The device.
        device: u32,
        /// How many calls.
        times: u64,
        /// Bytes, there and back.
        bytes: u64,
    },
    /// Its read-only copies were given up by a write, again and again.
    ReadMostlyCollapsed {
        /// How many times.
        times: u64,
    },
    /// Host and device fault it away from each other.
    PingPong {
        /// How many times a part of it changed its direction.
        alternations: u64,
        /// Bytes both ways.
        bytes: u64,
    },
    /// It moved there and back again though nobody wrote it.
    ReadByBoth {
        /// Bytes that moved in vain.
        bytes: u64,
    },
    /// The driver saw host and devices fight for it.
    Thrashing {
        /// How many times.
        times: u64,
        /// How many times a processor had to wait because of it.
        throttled: u64,
    },
    /// Parts of it were mapped over the link instead of moved.
    RemoteMaps {
        /// How many times.
        times: u64,
        /// Bytes that were mapped.
        bytes: u64,
    },
    /// It had to leave a device that had no room.
    Evicted {
        /// Bytes that left.
        bytes: u64,
    },
}

impl Finding {
    /// What was seen, without advice: ``412 faults on `targets` during `cosine` ``.
    pub fn observation(&self) -> String {
        let name = &self.name;
        use FindingKind as K;
        match &self.kind {
            K::DeviceFaults {
                during,
                runs,
                faults,
                bytes,
            } => {
                let what = match (faults, bytes) {
                    (0, bytes) => format!("{} moved by faults for `{name}`", units::bytes(*bytes)),
                    (_, 0) => format!(
                        "{} on fresh memory of `{name}`",
                        units::count(*faults, "fault")
                    ),
                    _ => format!("{} on `{name}`", units::count(*faults, "fault")),
                };
                match runs {
                    1 => format!("{what} during {during}"),
                    _ => format!("{what} during {runs} runs of {during}"),
                }
            }
            K::HostFaults {
                times,
                faults,
                bytes,
                ..
            } => format!(
                "{} of the host on `{name}` in {} ({} moved back)",
                units::count(*faults, "fault"),
                units::count(*times, "access").replace("accesss", "accesses"),
                units::bytes(*bytes)
            ),
            K::PrefetchedTwice { to, times } => format!(
                "`{name}` was prefetched to {} {} more with nothing in between",
                to.words(),
                units::count(*times, "time")
            ),
            K::PrefetchUnused {
                device,
                times,
                bytes,
            } => format!(
                "`{name}` was prefetched to device {device} {}, which did not use it before it moved back ({} in vain)",
                match times {
                    1 => "once".to_owned(),
                    _ => format!("{times} times"),
                },
                units::bytes(*bytes)
            ),
            K::ReadMostlyCollapsed { times } => {
                format!("read-mostly `{name}` was collapsed by a write {times} times")
            }
            K::PingPong {
                alternations,
                bytes,
            } => format!(
                "host and device fault `{name}` away from each other: {alternations} changes of direction, {}",
                units::bytes(*bytes)
            ),
            K::ReadByBoth { bytes } => format!(
                "`{name}` moved to and fro though nobody wrote it ({} in vain)",
                units::bytes(*bytes)
            ),
            K::Thrashing { times, throttled } => format!(
                "the driver saw `{name}` thrash {}, and made processors wait {}",
                units::count(*times, "time"),
                units::count(*throttled, "time")
            ),
            K::RemoteMaps { times, bytes } => format!(
                "{} of `{name}` were mapped over the link instead of moved, {}",
                units::bytes(*bytes),
                units::count(*times, "time")
            ),
            K::Evicted { bytes } => format!(
                "{} of `{name}` had to leave the device, which had no room",
                units::bytes(*bytes)
            ),
        }
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        use FindingKind as K;
        match &self.kind {
            K::DeviceFaults { during, .. } => match during.starts_with('`') {
                true => "prefetch it before the launch",
                false => "prefetch it before the call",
            },
            K::HostFaults { writes: false, .. } => {
                "prefetch it to the host first, or make it for AccessPattern::ReadBack"
            }
            K::HostFaults { writes: true, .. } => {
                "prefetch it to the host first; if everything is replaced, host_overwrite moves nothing back"
            }
            K::PrefetchedTwice { .. } => "leave the later call out",
            K::PrefetchUnused { .. } => "leave the prefetch out, or do it after the host is done",
            K::ReadMostlyCollapsed { .. } => "unset read-mostly, for it is written too often",
            K::PingPong { .. } => "mapped memory would move nothing",
            K::ReadByBoth { .. } => "set read-mostly, so that each side keeps a copy",
            K::Thrashing { .. } => {
                "let host and device take turns over the whole of it, or pin it down with a preferred location"
            }
            K::RemoteMaps { .. } => {
                "that is what advice or a full device asks for; kernels run at the link's speed there"
            }
            K::Evicted { .. } => {
                "the device is oversubscribed: use less managed memory at once, or prefetch what is done with to the host"
            }
        }
    }

    /// The call to add, as Rust code of `um-backend`; `None` where a call has to go, or nothing can be added.
    pub fn code(&self) -> Option<String> {
        let name = match self.is_place() {
            true => self.name.as_str(),
            false => "buffer",
        };
        use FindingKind as K;
        Some(match &self.kind {
            K::DeviceFaults { during, .. } => {
                format!("{name}.prefetch_to_device(None)?; // before {during}")
            }
            K::HostFaults { .. } => {
                format!("{name}.prefetch_to_host()?; // before {name}.as_slice()")
            }
            K::ReadMostlyCollapsed { .. } => format!("{name}.unset_read_mostly()?;"),
            K::ReadByBoth { .. } => {
                format!("{name}.set_read_mostly()?; // before the first kernel")
            }
            K::PingPong { .. } => {
                "UnifiedOptions::default().placement(Placement::Mapped)".to_owned()
            }
            K::Thrashing { .. } => {
                format!("{name}.set_preferred_location(0)?; // the device that uses it most")
            }
            K::Evicted { .. } => {
                format!("{name}.prefetch_to_host()?; // when its last kernel is done")
            }
            K::PrefetchedTwice { .. } | K::PrefetchUnused { .. } | K::RemoteMaps { .. } => {
                return None;
            }
        })
    }

    /// Whether the name reads as a place in Rust: `targets`, `self.weights`, `layers[3].bias`.
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
