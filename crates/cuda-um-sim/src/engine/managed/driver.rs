//! The driver of managed memory, as NVIDIA's UVM driver: it serves page faults, and migrates and evicts pages.

use super::table::ManagedMemory;
use crate::engine::device::Devices;
use crate::engine::machine::Machine;
use crate::engine::records::Records;

/// The driver of managed memory. It borrows the parts of the state that a migration changes.
pub(crate) struct UvmDriver<'s> {
    pub(crate) machine: &'s Machine,
    pub(crate) managed: &'s mut ManagedMemory,
    pub(crate) devices: &'s mut Devices,
    pub(crate) records: &'s mut Records,
}
