//! A kernel with an input and an output.

use cuda_um::{Device, Kernel, LaunchConfig, Module, Result, Stream, kernel::KernelArgs};
use cuda_um_sim::{LaunchContext, ReferenceError, register_kernel};

/// `output[i] = 2 * input[i]`
pub struct Double(Kernel);

impl Double {
    pub fn load(device: &Device) -> Self {
        // SAFETY: `reference` does the same as `double.ptx` on the memory of its parameters.
        #[allow(unsafe_code, reason = "the reference matches its kernel")]
        unsafe {
            register_kernel("double_elements", reference);
        }
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

fn reference(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let count = launch.value::<u32>(2)? as usize;
    if launch.value::<u64>(0)? == launch.value::<u64>(1)? {
        let both = launch.slice_mut::<u32>(1, count)?;
        both.iter_mut().for_each(|element| *element *= 2);
        return Ok(());
    }
    let input = launch.slice::<u32>(0, count)?;
    let output = launch.slice_mut::<u32>(1, count)?;
    for (output, input) in output.iter_mut().zip(input) {
        *output = 2 * input;
    }
    Ok(())
}
