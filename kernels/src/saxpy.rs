//! `y = a × x + y`.

use crate::error::{Result, argument, length};
use crate::grid;
use cuda_um::{
    Device, Kernel, Module, Scalar, Stream, constant,
    kernel::{ReadArg, WriteArg},
};

/// The kernel `saxpy_f32`, loaded on a device.
#[derive(Debug)]
pub struct Saxpy {
    device: Device,
    kernel: Kernel,
}

impl Saxpy {
    /// Loads the kernel.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        crate::load::load(
            device,
            include_str!("../ptx/saxpy.ptx"),
            |module: &Module| {
                Ok(Self {
                    device: device.clone(),
                    kernel: module.kernel("saxpy_f32")?,
                })
            },
        )
    }

    /// Enqueues `y[i] = a * x[i] + y[i]`, rounded once, for `x [n]` and `y [n]`.
    ///
    /// In a capture, `a` is a [`constant`], or has a name ([`Recording::scalar`](cuda_um::graph::Recording::scalar)).
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// The buffers differ in length, or the launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn launch(
        &self,
        stream: &Stream,
        a: impl Into<Scalar<f32>>,
        x: impl ReadArg<f32>,
        y: impl WriteArg<f32>,
    ) -> Result<()> {
        let (x, y) = (
            argument("saxpy", "x", x.into_view())?,
            argument("saxpy", "y", y.into_view_mut())?,
        );
        let count = x.len();
        length("saxpy", "y", count, y.len())?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the arguments are those of `saxpy_f32` in cuda/saxpy.cu, which touches `count` elements of each buffer.
        unsafe {
            self.kernel.launch(
                stream,
                grid::strided(&self.device, count),
                (a.into(), x, y, constant(count as u64)),
            )?
        };
        Ok(())
    }
}
