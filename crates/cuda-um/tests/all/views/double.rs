//! A kernel with an input and an output.

use cuda_um::{Device, Kernel, LaunchConfig, Module, Result, Stream, kernel::KernelArgs};

/// `output[i] = 2 * input[i]`
pub struct Double(Kernel);

impl Double {
    pub fn load(device: &Device) -> Self {
        let module = Module::load(device, include_str!("../../support/double.ptx")).unwrap();
        Self(module.kernel("double_elements").unwrap())
    }

    /// Launches it on (input, output, count: u32).
    pub fn launch(&self, stream: &Stream, count: usize, arguments: impl KernelArgs) -> Result<()> {
        // SAFETY: the tests pass an input and an output of at least `count` u32, disjoint or the same, and `count` again.
        #[allow(unsafe_code, reason = "launches the kernel of double.ptx")]
        unsafe {
            self.0
                .launch(stream, LaunchConfig::linear(count, 128), arguments)
        }
    }
}
