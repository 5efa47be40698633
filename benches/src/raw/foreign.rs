//! Raw memory and a raw stream as buffers and a stream of cuda-um: work of another library.

use super::{Kind, Memory, Raw};
use anyhow::{Context, Result};
use cuda_um::{Device, Stream, UnifiedBuffer};
use std::ptr::NonNull;
use std::rc::Rc;

/// Two managed buffers of raw CUDA, imported, and the stream of raw CUDA, adopted.
pub struct Imported {
    stream: Stream,
    input: UnifiedBuffer<f32>,
    output: UnifiedBuffer<f32>,
    /// Dropped after the buffers.
    raw_input: Memory,
    raw_output: Memory,
    raw: Rc<Raw>,
}

impl Imported {
    /// Allocates both with `cudaMallocManaged`, and imports them.
    pub fn new(raw: &Rc<Raw>, device: &Device, len: usize) -> Result<Self> {
        let [raw_input, raw_output] = [
            raw.allocate(Kind::Managed, len)?,
            raw.allocate(Kind::Managed, len)?,
        ];
        let import = |memory: &Memory| {
            let pointer = NonNull::new(memory.pointer).context("no address")?;
            // SAFETY: the memory is freed after the buffer is dropped; raw CUDA uses it only in `enqueue_foreign`, and while the buffer is idle.
            anyhow::Ok(unsafe { UnifiedBuffer::from_foreign(device, pointer, len, ()) }?)
        };
        Ok(Self {
            // SAFETY: raw CUDA keeps the stream longer.
            stream: unsafe { device.adopt_stream(raw.stream, ()) }?,
            input: import(&raw_input)?,
            output: import(&raw_output)?,
            raw_input,
            raw_output,
            raw: Rc::clone(raw),
        })
    }

    /// Fills the input, and makes both resident on the device.
    pub fn begin(&mut self, source: &[f32]) -> Result<()> {
        self.raw.copy_from_slice(&mut self.raw_input, source)?;
        self.raw.prefetch(&self.raw_input, true)?;
        self.raw.prefetch(&self.raw_output, true)?;
        self.raw.wait_for_all()
    }

    /// Enqueues the kernel of raw CUDA through `Stream::enqueue_foreign`.
    pub fn scale(&mut self, factor: f32) -> Result<()> {
        let (raw, input, output) = (&self.raw, &self.raw_input, &mut self.raw_output);
        // SAFETY: the kernel reads the one memory and writes the other, on the adopted stream.
        unsafe {
            self.stream
                .enqueue_foreign((&self.input, &mut self.output), |_| {
                    raw.scale(input, output, factor)
                })
        }?
    }

    /// Waits for the kernels, and copies the output.
    pub fn end(&self, target: &mut [f32]) -> Result<()> {
        self.raw.synchronize()?;
        self.raw.copy_to_slice(&self.raw_output, target)
    }
}
