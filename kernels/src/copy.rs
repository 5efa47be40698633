//! Copy kernels with two access patterns: coalesced and strided.

use crate::error::{argument, length, value};
use crate::grid;
use cuda_um::{
    Device, Kernel, Module, Result, Stream, constant,
    kernel::{ReadArg, WriteArg},
};

/// The kernels `copy_coalesced_f32` and `copy_strided_f32`, loaded on a device. Both copy all elements. They differ only in the
/// order in which adjacent threads copy elements, and therefore in the used share of each memory transaction.
#[derive(Debug)]
pub struct CopyKernels {
    device: Device,
    coalesced: Kernel,
    strided: Kernel,
}

impl CopyKernels {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        let module = Module::load(device, include_str!("../ptx/copy.ptx"))?;
        Ok(Self {
            device: device.clone(),
            coalesced: module.kernel("copy_coalesced_f32")?,
            strided: module.kernel("copy_strided_f32")?,
        })
    }

    /// Enqueues `output[i] = input[i]` for `input [n]` and `output [n]`. Adjacent threads copy adjacent elements.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// The buffers differ in length, or the launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn coalesced(
        &self,
        stream: &Stream,
        input: impl ReadArg<f32>,
        output: impl WriteArg<f32>,
    ) -> Result<()> {
        let (input, output) = (
            argument("copy", "input", input.into_view())?,
            argument("copy", "output", output.into_view_mut())?,
        );
        let count = input.len();
        length("copy", "output", count, output.len())?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the arguments are those of the kernel in cuda/copy.cu, which touches `count` elements of each buffer.
        unsafe {
            self.coalesced.launch(
                stream,
                grid::strided(&self.device, count),
                (input, output, constant(count as u64)),
            )
        }
    }

    /// Enqueues `output[i] = input[i]` for `input [n]` and `output [n]`. Adjacent threads copy elements that are `stride`
    /// apart.
    ///
    /// # Ordering
    /// As for [`coalesced`](Self::coalesced).
    ///
    /// # Errors
    /// The buffers differ in length, `stride` does not divide the length, or the launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn strided(
        &self,
        stream: &Stream,
        input: impl ReadArg<f32>,
        output: impl WriteArg<f32>,
        stride: usize,
    ) -> Result<()> {
        let (input, output) = (
            argument("copy", "input", input.into_view())?,
            argument("copy", "output", output.into_view_mut())?,
        );
        let count = input.len();
        length("copy", "output", count, output.len())?;
        if stride == 0 || count % stride != 0 {
            let allowed = format!("a divisor of the length, {count}");
            return Err(value("copy", "stride", stride, &allowed));
        }
        if count == 0 {
            return Ok(());
        }
        let config = grid::strided(&self.device, count);
        // SAFETY: as above; `stride` divides `count`, so the kernel copies each of the `count` elements once.
        unsafe {
            self.strided.launch(
                stream,
                config,
                (
                    input,
                    output,
                    constant(count as u64),
                    constant(stride as u64),
                ),
            )
        }
    }
}
