//! Why there is no simulator.

use std::io;

/// Devices that one simulator can have.
pub(crate) const MAX_DEVICES: usize = 8;

/// Why no simulator was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A simulator has one to eight devices.
    #[error("{devices} devices: a simulator has 1 to {MAX_DEVICES}")]
    Devices {
        /// The number asked for.
        devices: usize,
    },
    /// All slots for simulators of this process stayed taken.
    #[error(
        "{slots} simulators live in this process already, and none ended while waiting: drop one first"
    )]
    NoFreeSlot {
        /// Simulators that can live at one time.
        slots: usize,
    },
    /// The prices of the clock are none that a machine can have.
    #[error("no clock runs on this cost model")]
    Cost(#[from] cuda_um_cost::CostError),
    /// The kernel refused the simulator's address space.
    #[error("no address space for simulated memory")]
    AddressSpace(#[source] io::Error),
    /// The table of functions could not be made.
    #[error("the simulated runtime lacks a symbol that its version should have")]
    Table(#[source] cuda_um_sys::LoadError),
    /// An environment variable holds something else than its documentation lists.
    #[error("{name}={value}: expected {expected}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },
}
