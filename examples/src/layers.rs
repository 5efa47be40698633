//! A stack of layers whose weights exceed a budget, for the example `larger_than_memory`.
//!
//! A pass goes forward and backward over all layers. Each step adds the weights of its layer to an accumulator; more launches on memory of the
//! device, which change nothing, make it take longer.

pub mod arena;
pub mod recipes;

use crate::Failure;
use cuda_um::{DeviceBuffer, Event, PinnedBuffer, Stream, ViewMut, kernel::ReadArg};
use std::time::Duration;
use um_backend::CudaBackend;
use um_kernels::Saxpy;

/// The sizes and the work of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of layers.
    pub layers: usize,
    /// The elements of a layer.
    pub len: usize,
    /// The launches of a step; the first one reads the weights.
    pub launches: usize,
}

impl Shape {
    /// The bytes of a layer.
    #[must_use]
    pub fn layer_bytes(&self) -> usize {
        self.len * size_of::<f32>()
    }

    /// The layers of a pass: forward, then backward.
    pub fn steps(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.layers).chain((0..self.layers).rev())
    }

    /// The weights of a layer; all are the same. Sums of small integers are exact.
    #[must_use]
    pub fn weight(layer: usize) -> f32 {
        (layer % 7 + 1) as f32
    }

    /// Checks an accumulator after some passes.
    ///
    /// # Errors
    /// The first element that differs.
    pub fn check(&self, found: &[f32], passes: usize) -> Result<(), Failure> {
        let sum: f32 = self.steps().map(Self::weight).sum();
        let expected = sum * passes as f32;
        match found.iter().position(|&value| value != expected) {
            None => Ok(()),
            Some(at) => Err(format!(
                "element {at} is {} after {passes} passes, not {expected}",
                found[at]
            )
            .into()),
        }
    }
}

/// A device with the weights in pinned memory, and the kernel.
pub struct Stack<'b> {
    /// The backend.
    pub backend: &'b CudaBackend,
    /// The stream of the kernels.
    pub stream: Stream,
    /// The sizes and the work.
    pub shape: Shape,
    saxpy: Saxpy,
}

impl<'b> Stack<'b> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn new(backend: &'b CudaBackend, shape: Shape) -> Result<Self, Failure> {
        let device = backend.device();
        Ok(Self {
            backend,
            stream: device.create_stream()?,
            shape,
            saxpy: Saxpy::load(device)?,
        })
    }

    /// The weights of a layer in pinned memory.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn weights(&self, layer: usize) -> Result<PinnedBuffer<f32>, Failure> {
        let mut weights = PinnedBuffer::zeroed(self.device(), self.shape.len)?;
        weights.host_mut()?.fill(Shape::weight(layer));
        Ok(weights)
    }

    /// Zeros on the device.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn zeros(&self) -> Result<DeviceBuffer<f32>, Failure> {
        Ok(DeviceBuffer::zeroed(self.device(), self.shape.len)?)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &cuda_um::Device {
        self.backend.device()
    }

    /// A step: the weights are read once, and `idle` by the other launches.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn step(
        &self,
        weights: impl ReadArg<f32>,
        idle: cuda_um::View<'_, f32>,
        mut sum: ViewMut<'_, f32>,
    ) -> Result<(), Failure> {
        let (saxpy, stream) = (&self.saxpy, &self.stream);
        saxpy.launch(stream, 1.0, weights, sum.reborrow())?;
        for _ in 1..self.shape.launches {
            saxpy.launch(stream, 0.0, idle, sum.reborrow())?;
        }
        Ok(())
    }

    /// The time of a launch on memory of the device.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn launch_time(&self) -> Result<Duration, Failure> {
        const LAUNCHES: u32 = 10;
        let (idle, mut sum) = (self.zeros()?, self.zeros()?);
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let begin = Event::timed(&self.stream)?;
            for _ in 0..LAUNCHES {
                self.saxpy.launch(&self.stream, 0.0, &idle, &mut sum)?;
            }
            best = best.min(Event::timed(&self.stream)?.elapsed_since(&begin)?);
        }
        Ok(best / LAUNCHES)
    }

    /// Runs a pass a few times, and returns the device's median time of those after the first two.
    ///
    /// # Errors
    /// Errors of the passes.
    pub fn time(
        &self,
        passes: usize,
        mut pass: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        let mut ends = vec![Event::timed(&self.stream)?];
        for _ in 0..passes {
            pass()?;
            ends.push(Event::timed(&self.stream)?);
        }
        let times = ends.windows(2).map(|pair| pair[1].elapsed_since(&pair[0]));
        let mut times = times
            .collect::<Result<Vec<_>, _>>()?
            .split_off(2.min(passes - 1));
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }
}
