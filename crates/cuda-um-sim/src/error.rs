//! The error of building a simulator.

use std::io;

/// Devices that one simulator can have.
pub(crate) const MAX_DEVICES: usize = 8;

/// The reason for which no simulator was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A simulator has one to eight devices.
    #[error("{devices} devices: a simulator has 1 to {MAX_DEVICES}")]
    Devices {
        /// The requested number.
        devices: usize,
    },
    /// A device has memory.
    #[error("0 bytes of memory: a device has some")]
    NoMemory,
    /// All slots for simulators of this process stayed in use.
    #[error(
        "{slots} simulators exist in this process already, and none ended during the wait: drop one first"
    )]
    NoFreeSlot {
        /// Simulators that can exist at the same time.
        slots: usize,
    },
    /// The cost model holds an impossible value.
    #[error("the cost model holds an impossible value")]
    Cost(#[from] cuda_um_cost::CostError),
    /// The kernel refused the simulator's address space.
    #[error("the kernel refused address space for simulated memory")]
    AddressSpace(#[source] io::Error),
    /// The table of functions could not be made.
    #[error("the simulated runtime lacks a symbol that its version should have")]
    Table(#[source] cuda_um_sys::LoadError),
    /// An environment variable holds a value that its documentation does not list.
    #[error("{name}={value}: expected {expected}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: &'static str,
    },
}
