//! Errors.

use cuda_core::DriverError;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of cuda-um.
    #[error(transparent)]
    Um(#[from] cuda_um::Error),
    /// An error of cuda-core.
    #[error("cuda-core: {0}")]
    CudaCore(#[from] DriverError),
    /// A context that is not the primary one of its device.
    #[error(
        "the context of cuda-core on device {ordinal} is not the primary context, which cuda-um uses: make it with `Context::new({ordinal})`"
    )]
    NotPrimary {
        /// The device's ordinal.
        ordinal: usize,
    },
    /// The libraries use different drivers: a GPU and the simulator, for example.
    #[error(
        "device {ordinal} is `{cuda_core}` for cuda-core and `{cuda_um}` for cuda-um: open both over the same driver"
    )]
    OtherDriver {
        /// The device's ordinal.
        ordinal: usize,
        /// The device's name and size for cuda-core.
        cuda_core: String,
        /// The device's name and size for cuda-um.
        cuda_um: String,
    },
    /// An object of another context than the shared one.
    #[error(
        "{what} is of another context of cuda-core, on device {found}; the shared context is of device {expected}: use objects of the shared one"
    )]
    OtherContext {
        /// The object.
        what: &'static str,
        /// The ordinal of the shared context's device.
        expected: usize,
        /// The ordinal of the object's device.
        found: usize,
    },
    /// An access that is not over when the context has no more work: a host guard of other code, or an operation that is not submitted.
    #[error(
        "the buffer at {address:#x} is in use after all work of device {ordinal}: drop its host guards and pending operations first"
    )]
    Busy {
        /// The buffer's address.
        address: u64,
        /// The device's ordinal.
        ordinal: usize,
    },
}
