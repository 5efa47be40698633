//! Loads the modules of the kernels.

use crate::error::Result;
use cuda_um::{Device, Module};

/// Loads a module and gets its kernels. With the feature `sim` their CPU references are registered first.
pub(crate) fn load<K>(
    device: &Device,
    ptx: &str,
    kernels: impl FnOnce(&Module) -> Result<K>,
) -> Result<K> {
    #[cfg(feature = "sim")]
    crate::sim::register();
    kernels(&Module::load(device, ptx)?)
}
