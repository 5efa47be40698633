//! Kernels with effects that depend on their order: `kernels.ptx`.
#![allow(unsafe_code, reason = "launches the kernels of kernels.ptx")]

use cuda_um::{
    Device, Kernel, LaunchConfig, Module, Result, Scalar, Stream, View, ViewMut, constant,
    kernel::KernelArg,
};

/// The kernels of one device.
#[derive(Clone)]
pub struct Kernels {
    store: Kernel,
    step: Kernel,
    mix: Kernel,
}

fn shape(count: usize) -> LaunchConfig {
    LaunchConfig::linear(count, 128)
}

impl Kernels {
    pub fn load(device: &Device) -> Self {
        let module = Module::load(device, include_str!("kernels.ptx")).unwrap();
        let kernel = |name| module.kernel(name).unwrap();
        Self {
            store: kernel("model_store"),
            step: kernel("model_step"),
            mix: kernel("model_mix"),
        }
    }

    /// Writes the numbers of a seed to a whole buffer, initialised or not.
    ///
    /// # Safety
    ///
    /// `target` is a buffer of `count` elements of four bytes.
    pub unsafe fn store(
        &self,
        stream: &Stream,
        target: impl KernelArg,
        count: usize,
        seed: u32,
    ) -> Result<()> {
        // SAFETY: required of the caller.
        unsafe {
            self.store
                .launch(stream, shape(count), (target, count as u32, seed))
        }
    }

    /// One step of each element: `model::step`.
    pub fn step(
        &self,
        stream: &Stream,
        view: ViewMut<'_, u32>,
        number: impl Into<Scalar<u32>>,
    ) -> Result<()> {
        let (count, number) = (view.len(), number.into());
        // SAFETY: the view has `count` elements.
        unsafe {
            self.step
                .launch(stream, shape(count), (view, constant(count as u32), number))
        }
    }

    /// Mixes three buffers of equal length: `model::mix`.
    pub fn mix(
        &self,
        stream: &Stream,
        (x, y, from): (ViewMut<'_, u32>, ViewMut<'_, u32>, View<'_, u32>),
        number: impl Into<Scalar<u32>>,
    ) -> Result<()> {
        let (count, number) = (x.len(), number.into());
        assert!(y.len() == count && from.len() == count);
        // SAFETY: all three have `count` elements.
        unsafe {
            self.mix.launch(
                stream,
                shape(count),
                (x, y, from, constant(count as u32), number),
            )
        }
    }
}
