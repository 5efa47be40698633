//! `out = in × factor`.

use crate::error::{Result, argument, length};
use crate::grid;
use cuda_um::{
    Device, Kernel, Module, Scalar, Stream, constant,
    kernel::{ReadArg, WriteArg},
};

/// The kernel `scale_f32`, loaded on a device.
#[derive(Debug)]
pub struct Scale {
    device: Device,
    kernel: Kernel,
}

impl Scale {
    /// Loads the kernel.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        crate::load::load(
            device,
            include_str!("../ptx/scale.ptx"),
            |module: &Module| {
                Ok(Self {
                    device: device.clone(),
                    kernel: module.kernel("scale_f32")?,
                })
            },
        )
    }

    /// Enqueues `output[i] = input[i] * factor` for `input [n]` and `output [n]`.
    ///
    /// In a capture, `factor` is a [`constant`], or has a name ([`Recording::scalar`](cuda_um::graph::Recording::scalar)).
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
        input: impl ReadArg<f32>,
        output: impl WriteArg<f32>,
        factor: impl Into<Scalar<f32>>,
    ) -> Result<()> {
        let (input, output) = (
            argument("scale", "input", input.into_view())?,
            argument("scale", "output", output.into_view_mut())?,
        );
        let count = input.len();
        length("scale", "output", count, output.len())?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the arguments are those of `scale_f32` in cuda/scale.cu, which touches `count` elements of each buffer.
        unsafe {
            self.kernel.launch(
                stream,
                grid::strided(&self.device, count),
                (input, output, factor.into(), constant(count as u64)),
            )?
        };
        Ok(())
    }
}
