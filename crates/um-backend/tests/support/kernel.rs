//! A kernel that doubles each element.

use cuda_um::{Kernel, LaunchConfig, Module, kernel::KernelArgs};
use um_backend::{Buffer, CudaDevice, CudaError};

#[derive(Clone)]
pub struct Double(Kernel);

impl Double {
    pub fn load(device: &CudaDevice) -> Self {
        let module = Module::load(device, include_str!("double.ptx")).unwrap();
        Self(module.kernel("um_backend_double").unwrap())
    }

    /// Doubles all of a buffer, on the device's own stream; it is only enqueued.
    pub fn launch(
        &self,
        device: &CudaDevice,
        buffer: &mut dyn Buffer<f32>,
    ) -> Result<(), CudaError> {
        let count = buffer.len();
        self.launch_on(device, count, (buffer, count as u32))
    }

    /// Doubles `count` elements; the arguments are what holds them, and `count` as `u32`.
    pub fn launch_on(
        &self,
        device: &CudaDevice,
        count: usize,
        arguments: impl KernelArgs,
    ) -> Result<(), CudaError> {
        let shape = LaunchConfig::linear(count, 256);
        // SAFETY: the tests pass a buffer of at least `count` f32, and `count` again.
        #[allow(unsafe_code, reason = "launches the kernel of double.ptx")]
        unsafe {
            self.0.launch(device.stream(), shape, arguments)
        }
    }
}
