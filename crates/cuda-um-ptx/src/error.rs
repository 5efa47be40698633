//! What is wrong with a module, before anything runs.

use thiserror::Error;

/// The text is not PTX.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: found {found}, expected {expected}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The text found there.
    pub found: String,
    /// What the grammar wants there.
    pub expected: &'static str,
}

/// A kernel that this device or this machine cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The driver is older than the module's `.version`: `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
    #[error("PTX {}.{} is newer than what the driver knows (PTX {}.{})", .module.0, .module.1, .driver.0, .driver.1)]
    Version {
        /// `.version` of the module.
        module: (u32, u32),
        /// The newest version of the driver.
        driver: (u32, u32),
    },
    /// The module is for other devices: `CUDA_ERROR_NO_BINARY_FOR_GPU`.
    #[error("the module is for {target}, the device has compute capability {}.{}", .compute.0, .compute.1)]
    Target {
        /// `.target` of the module.
        target: String,
        /// The device's compute capability.
        compute: (u32, u32),
    },
    /// The kernel uses an instruction, operand or directive that the machine does not implement.
    #[error("line {line}: not implemented: {what}: `{text}`")]
    Unsupported {
        /// The line, from 1.
        line: u32,
        /// The line's text.
        text: String,
        /// What is missing.
        what: String,
    },
    /// The kernel is not valid: `CUDA_ERROR_INVALID_PTX`.
    #[error("line {line}: {what}: `{text}`")]
    Invalid {
        /// The line, from 1.
        line: u32,
        /// The line's text.
        text: String,
        /// The rule that it breaks.
        what: String,
    },
}
