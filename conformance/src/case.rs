//! A case: its data, and a script that checks the rule.

use crate::{Cuda, Facts};
use cuda_um_sys::RuntimeVersion;
use std::time::Duration;

/// A requirement of a case on the machine. Without it the case is skipped, and this name is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `cudaDevAttrManagedMemory`.
    Managed,
    /// `cudaDevAttrConcurrentManagedAccess` on every device: page faults, prefetch, advice.
    Concurrent,
    /// A device without concurrent managed access.
    NoConcurrent,
    /// Page faults of kernels migrate memory: the devices have concurrent access, and are not coherent with the host's page
    /// tables.
    Migration,
    /// `cudaDevAttrPageableMemoryAccess`: devices access memory that was not allocated with CUDA.
    Pageable,
    /// The same, and it migrates by page faults: the devices do not use the host's page tables.
    PageableMigration,
    /// The same without migrations: `cudaDevAttrPageableMemoryAccessUsesHostPageTables`.
    HostPageTables,
    /// The host cannot reach device memory through its page tables, and the device cannot reach the host's.
    NoPageableAccess,
    /// `cudaDevAttrMemoryPoolsSupported`.
    Pools,
    /// A device without memory pools.
    NoPools,
    /// At least this many devices.
    Devices(usize),
    /// Devices that can access each other's memory.
    Peers,
    /// The runtime is this version or newer.
    Since(u32, u32),
    /// The runtime is older than this version.
    Before(u32, u32),
    /// Migrations can be counted; on a GPU this needs CUPTI.
    Counters,
    /// Mapped host memory: `cudaDevAttrCanMapHostMemory`.
    MappedHost,
    /// `cudaDevAttrHostRegisterSupported`.
    HostRegister,
    /// The simulator. A GPU ends the process and does not report the error.
    Simulator,
}

impl Need {
    /// True if a machine has it.
    pub(crate) fn is_met(self, facts: &Facts) -> bool {
        let version = |major, minor| RuntimeVersion::new(major, minor);
        match self {
            Need::Managed => facts.managed,
            Need::Concurrent => facts.managed && facts.concurrent,
            Need::NoConcurrent => facts.managed && !facts.concurrent,
            Need::Migration => facts.concurrent && !facts.coherent,
            Need::Pageable => facts.pageable,
            Need::PageableMigration => facts.pageable && !facts.coherent,
            Need::HostPageTables => facts.pageable && facts.coherent,
            Need::NoPageableAccess => !facts.pageable && !facts.coherent,
            Need::Pools => facts.pools,
            Need::NoPools => !facts.pools,
            Need::Devices(count) => facts.devices >= count,
            Need::Peers => facts.peers,
            Need::Since(major, minor) => facts.version >= version(major, minor),
            Need::Before(major, minor) => facts.version < version(major, minor),
            Need::Counters => facts.counters,
            Need::MappedHost => facts.mapped_host,
            Need::HostRegister => facts.host_register,
            Need::Simulator => facts.simulated,
        }
    }
}

/// Time limit of a case: far more than any case needs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// One rule, and its check.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group.subject`, unique.
    pub name: &'static str,
    /// The rule, in one sentence.
    pub rule: &'static str,
    /// The source of the rule: NVIDIA's documentation, or a record of a GPU.
    pub source: &'static str,
    /// The functions of the table that the rule is about. The case must call every one of them; the simulator's log is checked.
    pub calls: &'static [&'static str],
    /// The requirements on the machine.
    pub needs: &'static [Need],
    /// True if the case may break the context, or needs an unused one. It runs in a separate process.
    pub alone: bool,
    /// True if the simulator must report misuse.
    pub misuse: bool,
    /// The check; it panics if the rule does not hold.
    pub check: fn(&Cuda<'_>),
}

impl Case {
    /// The first need that the machine does not meet.
    pub(crate) fn unmet(&self, facts: &Facts) -> Option<Need> {
        self.needs.iter().copied().find(|need| !need.is_met(facts))
    }
}
