//! The sum of an array: in shared memory, and with a naive kernel.

use crate::cpu::{THREADS, blocks};
use crate::error::{argument, length, value};
use cuda_um::{
    Device, DeviceBuffer, Kernel, LaunchConfig, Module, Result, Stream, constant,
    kernel::{ReadArg, WriteArg},
};

/// The kernels `reduce_sum_f32` and `reduce_sum_naive_f32`, loaded on a device.
#[derive(Debug)]
pub struct Reduce {
    device: Device,
    shared: Kernel,
    naive: Kernel,
}

impl Reduce {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        let module = Module::load(device, include_str!("../ptx/reduce.ptx"))?;
        Ok(Self {
            device: device.clone(),
            shared: module.kernel("reduce_sum_f32")?,
            naive: module.kernel("reduce_sum_naive_f32")?,
        })
    }

    /// Enqueues `output[0]` = the sum of `input`, for `input [n]` and `output [1]`. Each block adds in shared memory, then one
    /// block adds the sums of the blocks. The order of the additions depends only on the length, so every run gives the same
    /// bits as [`reduce_sum_cpu`](crate::reduce_sum_cpu).
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// `output` does not have one element, memory for the sums of the blocks is missing, or a launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn sum(
        &self,
        stream: &Stream,
        input: impl ReadArg<f32>,
        output: impl WriteArg<f32>,
    ) -> Result<()> {
        let (input, output) = (
            argument("reduce", "input", input.into_view())?,
            argument("reduce", "output", output.into_view_mut())?,
        );
        length("reduce", "output", 1, output.len())?;
        let count = input.len();
        let blocks = blocks(count);
        let mut sums = DeviceBuffer::<f32>::uninit(&self.device, blocks)?;
        // SAFETY: the arguments are those of `reduce_sum_f32` in cuda/reduce.cu: it reads `count` elements and writes one for
        // each block.
        unsafe {
            self.shared.launch(
                stream,
                shape(blocks),
                (input, &mut sums, constant(count as u64)),
            )?;
            self.shared
                .launch(stream, shape(1), (&sums, output, constant(blocks as u64)))
        }
    }

    /// Enqueues `output[0] +=` every element of `input`, for `input [n]` and `output [1]`, with one atomic addition for each
    /// element. This is slow, and the order changes from run to run. Set `output` to 0 before.
    ///
    /// # Ordering
    /// As for [`sum`](Self::sum).
    ///
    /// # Errors
    /// `output` does not have one element, `input` is too long for a grid, or the launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn sum_naive(
        &self,
        stream: &Stream,
        input: impl ReadArg<f32>,
        output: impl WriteArg<f32>,
    ) -> Result<()> {
        let (input, output) = (
            argument("reduce", "input", input.into_view())?,
            argument("reduce", "output", output.into_view_mut())?,
        );
        length("reduce", "output", 1, output.len())?;
        let count = input.len();
        if count == 0 {
            return Ok(());
        }
        let blocks = u32::try_from(count.div_ceil(THREADS))
            .ok()
            .filter(|blocks| *blocks <= i32::MAX as u32);
        let blocks = blocks.ok_or_else(|| {
            let allowed = format!("at most {}", i32::MAX as usize * THREADS);
            value("reduce", "the length of `input`", count, &allowed)
        })?;
        // SAFETY: the arguments are those of `reduce_sum_naive_f32`, which reads `count` elements and adds to one.
        unsafe {
            self.naive.launch(
                stream,
                shape(blocks as usize),
                (input, output, constant(count as u64)),
            )
        }
    }
}

fn shape(blocks: usize) -> LaunchConfig {
    LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        shared_bytes: 0,
    }
}
