//! What a finding says.

use super::{Finding, FindingKind};
use crate::units;

impl Finding {
    /// The observation, without advice: ``412 faults on `targets` during `cosine` ``.
    pub fn observation(&self) -> String {
        let name = &self.name;
        let size = |bytes: &u64| units::bytes(*bytes);
        let count = |number: &u64, what| units::count(*number, what);
        use FindingKind as K;
        match &self.kind {
            K::DeviceFaults {
                during,
                runs,
                faults,
                bytes,
                ..
            } => {
                let what = match (faults, bytes) {
                    (0, bytes) => format!("{} moved by faults for", size(bytes)),
                    (_, 0) => format!("{} on fresh memory of", count(faults, "fault")),
                    _ => format!("{} on", count(faults, "fault")),
                };
                match runs {
                    1 => format!("{what} `{name}` during {during}"),
                    _ => format!("{what} `{name}` during {runs} runs of {during}"),
                }
            }
            K::HostFaults {
                times,
                faults,
                bytes,
                ..
            } => format!(
                "{} of the host on `{name}` in {} ({} moved back)",
                count(faults, "fault"),
                count(times, "access").replace("accesss", "accesses"),
                size(bytes)
            ),
            K::PrefetchedTwice { to, times } => format!(
                "`{name}` was prefetched to {} {} more with nothing in between",
                to.words(),
                count(times, "time")
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
                size(bytes)
            ),
            K::EvictedBeforeUse {
                device,
                times,
                bytes,
            } => format!(
                "`{name}` was prefetched to device {device} {}, and evicted before its use there ({} in vain)",
                count(times, "time"),
                size(bytes)
            ),
            K::LeftOut { times, faults } => format!(
                "a prefetch of `{name}` was left out {} although pages had left the device ({})",
                count(times, "time"),
                count(faults, "fault")
            ),
            K::ReadMostlyCollapsed { times } => {
                format!("read-mostly `{name}` was collapsed by a write {times} times")
            }
            K::PingPong {
                alternations,
                bytes,
            } => format!(
                "host and device move `{name}` to and fro by faults: {alternations} changes of direction, {}",
                size(bytes)
            ),
            K::ReadByBoth { bytes } => format!(
                "`{name}` moved to and fro without a write ({} in vain)",
                size(bytes)
            ),
            K::Thrashing {
                times, throttled, ..
            } => format!(
                "the driver detected thrashing of `{name}` {}, and throttled processors {}",
                count(times, "time"),
                count(throttled, "time")
            ),
            K::RemoteMaps { times, bytes } => format!(
                "{} of `{name}` were mapped over the link and did not move, {}",
                size(bytes),
                count(times, "time")
            ),
            K::Evicted { bytes } => format!(
                "{} of `{name}` were evicted from the full device",
                size(bytes)
            ),
        }
    }

    /// The suggested change.
    pub fn advice(&self) -> &'static str {
        use FindingKind as K;
        match &self.kind {
            K::DeviceFaults { during, .. } => match during.starts_with('`') {
                true => "prefetch it before the launch",
                false => "prefetch it before the call",
            },
            K::HostFaults { writes: false, .. } => {
                "prefetch it to the host first, or allocate memory for read-back"
            }
            K::HostFaults { writes: true, .. } => {
                "prefetch it to the host first; if everything is replaced, a copy moves nothing back"
            }
            K::PrefetchedTwice { .. } => "remove the later call",
            K::PrefetchUnused { .. } => {
                "remove the prefetch, or call it after the last use on the host"
            }
            K::EvictedBeforeUse { .. } => "the device is full: prefetch it later, or less at once",
            K::LeftOut { .. } => {
                "another program or library takes the device's memory: leave it more, or allow oversubscription"
            }
            K::ReadMostlyCollapsed { .. } => {
                "unset read-mostly, because the buffer is written too often"
            }
            K::PingPong { .. } => "use mapped memory, which does not migrate",
            K::ReadByBoth { .. } => "set read-mostly, so that each side keeps a copy",
            K::Thrashing { .. } => {
                "let host and device use the whole buffer in turn, or set a preferred location"
            }
            K::RemoteMaps { .. } => {
                "advice or a full device causes this; kernels access it at the speed of the link"
            }
            K::Evicted { .. } => {
                "the device is oversubscribed: use less managed memory at once, or prefetch unused data to the host"
            }
        }
    }
}
