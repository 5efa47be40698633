//! The link between host and device, and the budget.

use crate::{BufferSpec, PlanError, SLOT_BYTES};
use serde::{Deserialize, Serialize};

/// The link between the homes of the buffers and the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Link {
    /// The speed to the device.
    pub in_bytes_per_second: f64,
    /// The speed from the device.
    pub out_bytes_per_second: f64,
    /// The time of a transfer in addition to that of its bytes.
    pub latency_seconds: f64,
    /// The part of its speed that each direction keeps while both directions work: 1 for full duplex, 0.5 for half duplex.
    pub both_ways: f64,
    /// The part of its speed to the device that the link keeps while a kernel reads in place: 1 if the kernel is as fast as a copy.
    #[serde(default = "whole")]
    pub in_place: f64,
    /// The transfers of buffers with [`in_file`](BufferSpec::in_file). Without it, a plan counts their bytes as those of other homes.
    #[serde(default)]
    pub file: Option<FileLink>,
}

/// The transfers between a file and the device. The thread of the steps reads and writes the file, and enqueues no step meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileLink {
    /// The speed to the device.
    pub in_bytes_per_second: f64,
    /// The speed from the device.
    pub out_bytes_per_second: f64,
    /// The time of a transfer in addition to that of its bytes.
    pub latency_seconds: f64,
    /// The part of a transfer to the device for which the thread reads the file. The rest is a copy that needs no thread.
    pub busy: f64,
}

impl FileLink {
    /// Files that are as fast as the memory of the host, and whose transfers keep their thread busy all the time.
    pub fn of(link: &Link) -> Self {
        Self {
            in_bytes_per_second: link.in_bytes_per_second,
            out_bytes_per_second: link.out_bytes_per_second,
            latency_seconds: link.latency_seconds,
            busy: 1.0,
        }
    }
}

fn whole() -> f64 {
    1.0
}

impl Link {
    /// The link of an H100 with PCIe 5: copies from and to pinned memory, and a kernel that reads pinned memory
    /// (`docs/results/h100-cuda-13.0`).
    pub fn pcie5() -> Self {
        Self {
            in_bytes_per_second: 55.5e9,
            out_bytes_per_second: 48e9,
            latency_seconds: 5e-6,
            both_ways: 0.87,
            in_place: 0.95,
            file: None,
        }
    }

    /// The link of a buffer's transfers.
    pub(crate) fn of(&self, spec: &BufferSpec) -> Self {
        match self.file {
            Some(file) if spec.in_file => Self {
                in_bytes_per_second: file.in_bytes_per_second,
                out_bytes_per_second: file.out_bytes_per_second,
                latency_seconds: file.latency_seconds,
                ..*self
            },
            _ => *self,
        }
    }

    /// Whether the thread of the steps does a buffer's transfers.
    pub(crate) fn needs_thread(&self, spec: &BufferSpec) -> bool {
        spec.in_file && self.file.is_some()
    }

    /// The time of a transfer to the device, in seconds, unless the home is a file.
    pub fn in_seconds(&self, bytes: u64) -> f64 {
        self.latency_seconds + bytes as f64 / self.in_bytes_per_second
    }

    /// The time to read a buffer in place, in seconds.
    pub fn in_place_seconds(&self, bytes: u64) -> f64 {
        self.latency_seconds + bytes as f64 / (self.in_bytes_per_second * self.in_place)
    }

    /// The time of a transfer from the device, in seconds, unless the home is a file.
    pub fn out_seconds(&self, bytes: u64) -> f64 {
        self.latency_seconds + bytes as f64 / self.out_bytes_per_second
    }

    /// Checks that times are finite: speeds from 1 to 10^15 bytes a second, latencies up to one second, and factors from 0.01
    /// to 1.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] with the first value that is not allowed.
    pub fn check(&self) -> Result<(), PlanError> {
        let (speeds, latencies) = ((1.0..=1e15, "1 to 1e15"), (0.0..=1.0, "0 to 1"));
        // Those of the link, if it has none of files.
        let file = self.file.unwrap_or(FileLink::of(self));
        let (file_in, file_out) = (file.in_bytes_per_second, file.out_bytes_per_second);
        let rules = [
            ("in_bytes_per_second", self.in_bytes_per_second, &speeds),
            ("out_bytes_per_second", self.out_bytes_per_second, &speeds),
            ("latency_seconds", self.latency_seconds, &latencies),
            ("file.in_bytes_per_second", file_in, &speeds),
            ("file.out_bytes_per_second", file_out, &speeds),
            ("file.latency_seconds", file.latency_seconds, &latencies),
            ("file.busy", file.busy, &(0.0..=1.0, "0 to 1")),
            ("both_ways", self.both_ways, &(0.01..=1.0, "0.01 to 1")),
            ("in_place", self.in_place, &(0.01..=1.0, "0.01 to 1")),
        ];
        for (field, value, (range, allowed)) in rules {
            if !range.contains(&value) {
                return Err(PlanError::invalid(format!("link.{field}"), value, allowed));
            }
        }
        Ok(())
    }
}

/// The device memory of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanBudget {
    /// The number of bytes. A plan uses whole slots of [`SLOT_BYTES`].
    pub bytes: u64,
}

impl PlanBudget {
    /// A budget of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes }
    }

    /// The number of whole slots.
    pub fn slots(self) -> u64 {
        self.bytes / SLOT_BYTES
    }
}
