//! `y = a × x + y`.

use crate::grid;

cuda_um::kernel! {
    /// The kernel `saxpy_f32`, loaded on a device.
    pub struct Saxpy in include_str!("../ptx/saxpy.ptx");

    /// Enqueues `y[i] = a * x[i] + y[i]`, rounded once, for `x [n]` and `y [n]`.
    ///
    /// In a capture, `a` is a [`constant`](cuda_um::constant), or has a name ([`Recording::scalar`](cuda_um::graph::Recording::scalar)).
    // SAFETY: `saxpy_f32` in cuda/saxpy.cu has these parameters, and touches `count` elements of each array.
    pub unsafe fn launch = "saxpy_f32"(a: f32, x: &[f32], y: &mut [f32], count as u64) with grid::strided;
}
