//! A kernel for tests.

use cuda_um::{Device, Kernel, LaunchConfig, Module, Stream, kernel::KernelArgs};
use cuda_um_sim::{LaunchContext, ReferenceError, register_kernel};

/// The kernel `add`. It is in a folder of `cuda-um`, because that crate's unit tests and documentation use it, too.
pub const ADD_PTX: &str = include_str!("../../cuda-um/tests/support/add.ptx");

/// A kernel that adds 1 to each element, `rounds` times; on a GPU a round takes about half a microsecond.
pub struct Add(pub Kernel);

impl Add {
    pub fn load(device: &Device) -> Self {
        // SAFETY: `reference` does the same as `add.ptx` on the memory of its parameters.
        #[allow(unsafe_code, reason = "the reference matches its kernel")]
        unsafe {
            register_kernel("add", reference);
        }
        let module = Module::load(device, ADD_PTX).unwrap();
        Self(module.kernel("add").unwrap())
    }

    /// Launches it on (buffer, count: u32, rounds: u32).
    pub fn launch(
        &self,
        stream: &Stream,
        count: usize,
        arguments: impl KernelArgs,
    ) -> cuda_um::Result<()> {
        // SAFETY: the tests pass a buffer of at least `count` u32, `count` again, and a number of rounds.
        #[allow(unsafe_code, reason = "launches the kernel of add.ptx")]
        unsafe {
            self.0
                .launch(stream, LaunchConfig::linear(count, 256), arguments)
        }
    }
}

fn reference(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let (count, rounds) = (launch.value::<u32>(1)?, launch.value::<u32>(2)?);
    launch
        .slice_mut::<u32>(0, count as usize)?
        .iter_mut()
        .for_each(|value| *value = value.wrapping_add(rounds));
    Ok(())
}
