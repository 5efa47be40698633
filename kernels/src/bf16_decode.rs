//! bf16 from compressed streams.

use crate::error::{KernelError, Result};
use crate::grid::BLOCK as THREADS;
use cuda_um::{Device, Kernel, LaunchConfig, Module, ReadArg, Stream, WriteArg};
use cuda_um_codec::{BLOCK, table_words};
use half::bf16;

/// The kernel `bf16_decode`, loaded on a device: decodes what [`cuda_um_codec::compress`] made.
#[derive(Debug)]
pub struct Bf16Decode {
    device: Device,
    kernel: Kernel,
}

impl Bf16Decode {
    /// Loads the kernel.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        crate::load::load(
            device,
            include_str!("../ptx/bf16_decode.ptx"),
            |module: &Module| {
                Ok(Self {
                    device: device.clone(),
                    kernel: module.kernel("bf16_decode")?,
                })
            },
        )
    }

    /// Enqueues `output[i] = element i` of the stream in `words`: those of [`cuda_um_codec::Compressed::words`], copied to the device.
    /// `output [n]` has the number of elements of the stream.
    ///
    /// The kernel does not check the stream. If its words are damaged, or of another length, it writes arbitrary elements and touches no
    /// other memory; [`cuda_um_codec::Compressed`] is how the host checks them.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffers on any stream.
    ///
    /// # Errors
    /// [`KernelError::Length`] if the words are fewer than those of a table for `output`; or the launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn launch(
        &self,
        stream: &Stream,
        words: impl ReadArg<u32>,
        output: impl WriteArg<bf16>,
    ) -> Result<()> {
        let (words, output) = (words.into_view()?, output.into_view_mut()?);
        let (len, count) = (words.len(), output.len());
        if len < table_words(count) {
            return Err(KernelError::Length {
                kernel: "bf16_decode",
                buffer: "words",
                expected: table_words(count),
                found: len,
            });
        }
        if count == 0 {
            return Ok(());
        }
        let most = self.device.capabilities().multiprocessors as usize * 8;
        let config = LaunchConfig {
            grid: [count.div_ceil(BLOCK).clamp(1, most.max(1)) as u32, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
        };
        // SAFETY: the arguments are those of `bf16_decode` in cuda/bf16_decode.cu, which reads words below `len`, of which those of the table
        // are there, and writes `count` elements.
        unsafe {
            self.kernel
                .launch(stream, config, (words, len as u64, output, count as u64))?
        };
        Ok(())
    }
}
