//! Counts the migrations and faults of a piece of work.

use super::*;

/// Numbers of faults depend on how a GPU schedules its blocks: if they are not zero, two machines may differ by this factor.
const FACTOR: u64 = 4;

/// The least and the most that a piece of work moves to the device and to the host, and its faults of the host and of the device.
pub(super) struct Moves([(u64, u64); 4]);

/// Exactly these bytes move, and there are no faults.
pub(super) fn exactly(to_device: usize, to_host: usize) -> Moves {
    let just = |bytes| (bytes as u64, bytes as u64);
    Moves([just(to_device), just(to_host), (0, 0), (0, 0)])
}

impl Moves {
    /// The rule limits the bytes to the device by a minimum and a maximum.
    pub(super) fn moving_to_device(mut self, least: usize, most: usize) -> Self {
        self.0[0] = (least as u64, most as u64);
        self
    }

    /// The host faults, but the GPU does not.
    pub(super) fn host_faults(mut self) -> Self {
        self.0[2] = (1, u64::MAX);
        self
    }

    /// The GPU faults, but the host does not.
    pub(super) fn gpu_faults(mut self) -> Self {
        self.0[3] = (1, u64::MAX);
        self
    }
}

/// Runs a piece of work to its end, records migrations and faults, and checks them.
pub(super) fn counted<R>(
    c: &Cuda<'_>,
    what: impl AsRef<str>,
    expected: Moves,
    work: impl FnOnce() -> R,
) {
    let counts = || {
        c.machine
            .counts()
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    ok(c.synchronize());
    let before = counts();
    work();
    ok(c.synchronize());
    let (after, what) = (counts(), what.as_ref());
    let kinds = [
        "bytes to the device",
        "bytes to the host",
        "CPU faults",
        "GPU fault groups",
    ];
    let seen: [u64; 4] = std::array::from_fn(|kind| after[kind] - before[kind]);
    for (kind, count) in seen.into_iter().enumerate() {
        let value = match kind {
            0 | 1 => Value::Number(count),
            _ => Value::About {
                about: count,
                factor: FACTOR,
            },
        };
        c.note(format!("{what}: {}", kinds[kind]), value);
    }
    for (kind, count) in seen.into_iter().enumerate() {
        let (least, most) = expected.0[kind];
        let holds = (least..=most).contains(&count);
        assert!(
            holds,
            "{what}: {count} {}, expected {least} to {most}",
            kinds[kind]
        );
    }
}
