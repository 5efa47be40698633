//! `out = in × factor`.

use crate::grid;

cuda_um::kernel! {
    /// The kernel `scale_f32`, loaded on a device.
    pub struct Scale in include_str!("../ptx/scale.ptx");

    /// Enqueues `output[i] = input[i] * factor` for `input [n]` and `output [n]`.
    ///
    /// In a capture, `factor` is a [`constant`](cuda_um::constant), or has a name ([`Recording::scalar`](cuda_um::graph::Recording::scalar)).
    // SAFETY: `scale_f32` in cuda/scale.cu has these parameters, and touches `count` elements of each array.
    pub unsafe fn launch = "scale_f32"(input: &[f32], output: &mut [f32], factor: f32, count as u64) with grid::strided;
}
