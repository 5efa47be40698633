//! Loads the modules of the kernels.

use crate::error::Result;
use cuda_um::{Device, Module};

/// Loads a module and gets its kernels.
pub(crate) fn load<K>(
    device: &Device,
    ptx: &str,
    kernels: impl FnOnce(&Module) -> Result<K>,
) -> Result<K> {
    kernels(&Module::load(device, ptx)?)
}
