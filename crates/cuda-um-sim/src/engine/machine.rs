//! The simulated machine: its properties, which never change.

use std::time::Duration;

use super::address_space::AddressSpace;
use crate::preset::{CudaVersion, Cupti, Profile, Topology};
use cuda_um_cost::{CostModel, at_rate};
use cuda_um_ptx::Checks;

/// The simulated machine.
pub(crate) struct Machine {
    pub(crate) space: AddressSpace,
    pub(crate) profile: Profile,
    pub(crate) cost: CostModel,
    pub(crate) cuda: CudaVersion,
    pub(crate) topology: Topology,
    /// Devices raise page faults on managed memory, so the host and kernels may use it at the same time.
    pub(crate) concurrent: bool,
    /// The host and devices reach each other's memory without a migration.
    pub(crate) coherent: bool,
    /// End the process when the host touches managed memory during a kernel, as hardware does.
    pub(crate) crash_on_misuse: bool,
    pub(crate) cupti: Cupti,
    /// Whether streams can write values to memory.
    pub(crate) stream_writes: bool,
    /// What is checked while kernels run.
    pub(crate) checks: Checks,
    /// How many instructions of warps a launch may execute.
    pub(crate) instructions: u64,
    /// The order of blocks and warps.
    pub(crate) seed: u64,
    pub(crate) host_register: bool,
}

impl Machine {
    /// The time that a kernel takes in addition if it reads or writes so many bytes over the link.
    pub(crate) fn over_link(&self, bytes: u64) -> Duration {
        match bytes {
            0 => Duration::ZERO,
            _ => self.cost.remote + at_rate(bytes, self.cost.remote_rate),
        }
    }

    /// The time for so many instructions of warps, in a launch of so many warps. A multiprocessor begins four in a cycle, one for each
    /// of its parts, and a warp one in four cycles.
    pub(crate) fn computing(&self, instructions: u64, warps: u64) -> Duration {
        const CYCLES_PER_S: f64 = 1.8e9;
        let most = u64::from(self.profile.multiprocessors) * 16;
        let per_cycle = warps.clamp(1, most) as f64 / 4.0;
        Duration::from_secs_f64(instructions as f64 / (per_cycle * CYCLES_PER_S))
    }

    /// Whether the host and the device have one memory, in which no page has another place.
    pub(crate) fn one_memory(&self) -> bool {
        self.coherent && self.profile.integrated
    }

    /// Why a device does not access system memory, and what to do.
    pub(crate) fn no_pageable_access(&self, device: Option<usize>) -> String {
        let device = device.map_or("no device".to_owned(), |device| {
            format!("not device {device}")
        });
        format!(
            "the memory was not allocated with CUDA, and {device} ({}) accesses such memory (pageableMemoryAccess is 0): allocate it with \
             cudaMallocManaged, register it with cudaHostRegister, or copy it",
            self.profile.name
        )
    }

    /// Whether batch prefetch, discard and managed pools are supported: every device must raise page faults.
    pub(crate) fn batch_calls(&self) -> bool {
        self.concurrent
    }
}
