//! Launch configurations of kernels that process an array.

use cuda_um::{Device, LaunchConfig};

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;

/// Blocks for `count` elements with one thread each, but not more than fill the device: the kernels stride over the remaining
/// elements.
pub(crate) fn strided(device: &Device, count: usize) -> LaunchConfig {
    let most = device.capabilities().multiprocessors as usize * 32;
    let blocks = count.div_ceil(BLOCK as usize).clamp(1, most.max(1));
    LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
    }
}
