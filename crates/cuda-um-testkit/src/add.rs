//! A kernel for tests.

use cuda_um::kernel::{KernelArg, KernelArgs};
use cuda_um::{Device, Kernel, LaunchConfig, Module, Stream};

/// The kernel `add`. It is in a folder of `cuda-um`, because that crate's unit tests and documentation use it, too.
pub const ADD_PTX: &str = include_str!("../../cuda-um/tests/support/add.ptx");

/// A kernel that adds 1 to each element, `rounds` times; on a GPU a round takes about half a microsecond.
pub struct Add(pub Kernel);

impl Add {
    pub fn load(device: &Device) -> Self {
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

    /// Adds a number to the first `count` elements.
    pub fn run(&self, stream: &Stream, buffer: impl KernelArg, count: usize, number: u32) {
        self.try_run(stream, buffer, count, number).unwrap();
    }

    pub fn try_run(
        &self,
        stream: &Stream,
        buffer: impl KernelArg,
        count: usize,
        number: u32,
    ) -> cuda_um::Result<()> {
        self.launch(stream, count, (buffer, count as u32, number))
    }
}
