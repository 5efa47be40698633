//! Launches, with typed arguments that borrow the buffers.
#![allow(unsafe_code, reason = "passes the arguments of kernels to the driver")]

use crate::context::device::Device;
use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::error::{Error, Result};
use crate::kernel::argument::KernelArgs;
use crate::kernel::arguments::Arguments;
use crate::kernel::module::Kernel;

/// The grid, block and shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The number of blocks in each dimension, x first.
    pub grid: [u32; 3],
    /// The number of threads of a block in each dimension, x first.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes, in addition to the shared memory that the source declares.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// Returns a launch of at least `count` threads in one dimension, in blocks of `block` threads (one block if `count` is 0).
    ///
    /// # Panics
    ///
    /// If `block` is 0. A grid that is too large is an error of the launch.
    #[inline]
    pub fn linear(count: usize, block: u32) -> Self {
        assert!(
            block > 0,
            "the block size of a launch is 0, and a block has at least one thread"
        );
        let blocks = u32::try_from(count.div_ceil(block as usize))
            .unwrap_or(u32::MAX)
            .max(1);
        Self {
            grid: [blocks, 1, 1],
            block: [block, 1, 1],
            shared_bytes: 0,
        }
    }
}

impl Kernel {
    /// Enqueues the kernel on a stream ([`cuLaunchKernel`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html)).
    ///
    /// `arguments` is a tuple of up to 16 [`KernelArg`](crate::kernel::KernelArg)s: `&buffer` if the kernel only reads the buffer, `&mut buffer` if
    /// it may write it, and values; or [`Arguments`], a list.
    ///
    /// # Ordering
    ///
    /// The kernel is enqueued on the stream when this returns, after earlier uses of the buffers on any stream that it must not overlap.
    /// Host guards, later work and the drops of the buffers are ordered after it.
    ///
    /// # Errors
    ///
    /// - [`Error::Arguments`] for arguments that do not fit the kernel's parameters, which the driver tells from CUDA 12.4 on
    ///   (`cuFuncGetParamInfo`).
    /// - [`Error::DeviceMismatch`] for a stream of another device, or device memory of another device without [`enable_peer_access`](crate::Devices::enable_peer_access).
    /// - [`Error::NotSupported`] for pinned memory that the device cannot map.
    /// - [`Error::LimitExceeded`] and [`Error::InvalidArgument`] for a grid, block or shared memory that the device cannot run.
    /// - [`Error::Busy`] on a device without concurrent managed access while host guards of managed memory live, whatever memory the kernel
    ///   uses ([`NonConcurrentAccess`](crate::NonConcurrentAccess)).
    /// - [`Error::Capture`] in a capture for a value that is neither constant nor has a name.
    /// - [`Error::RuntimeMismatch`], and the errors of `cuLaunchKernel`. A later call reports a failure inside the kernel, as [`Error::Sticky`].
    ///
    /// # Safety
    ///
    /// - The number, types and order of the arguments are those of the kernel's parameters; a buffer is the address of its first element.
    /// - With these arguments and this configuration the kernel stays within the buffers, and writes only those that are passed by `&mut`.
    /// - The kernel does not use the buffers after it ends: it stores no address for later.
    /// - In a capture ([`Stream::capture`]) all of this holds for each launch of the graph.
    /// - All copies of an [`InPlace`](crate::buffer::InPlace) are arguments of one launch, and each thread of the kernel uses only elements of it that no
    ///   other thread writes.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let kernel = cuda_um::Module::load(&device, "")?.kernel("add")?;
    /// use cuda_um::{LaunchConfig, UnifiedBuffer};
    ///
    /// let stream = device.create_stream()?;
    /// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000)?;
    /// let count = data.len() as u32;
    /// // SAFETY: the kernel takes an address, a count and a number, and touches `count` elements, one a thread.
    /// unsafe { kernel.launch(&stream, LaunchConfig::linear(1000, 256), (&mut data, count, 1u32))? };
    /// assert_eq!(data.host()?[999], 1);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cudaLaunchKernel")]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        arguments: impl KernelArgs,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        arguments.collect(|arguments| unsafe { self.launch_list(stream, &config, arguments) })
    }

    /// # Safety
    ///
    /// As for [`launch`](Self::launch).
    unsafe fn launch_list(
        &self,
        stream: &Stream,
        config: &LaunchConfig,
        arguments: &mut Arguments<'_>,
    ) -> Result<()> {
        let (device, state) = (self.device(), stream.inner().device());
        if state.identity() != device.state().identity() {
            return Err(elsewhere(stream, device));
        }
        let shape = (&config.grid, &config.block, config.shared_bytes);
        state.capabilities.check_launch(shape)?;
        if let Some(parameters) = &self.parameters {
            arguments.check_sizes(&self.name, parameters)?;
        }
        arguments.with_addresses(|arguments, addresses| {
            let what = What::Launch {
                kernel: &self.name,
                grid: shape.0,
                block: shape.1,
            };
            let node = || arguments.captured(self, *config);
            let mut op = Op::new(what, device, arguments.parts());
            op.module = Some(&self.module.in_flight);
            op.node = Some(&node);
            stream.submit(&op, |on| {
                // SAFETY: the caller promises the kernel's side; the buffers track this use, so they are neither freed nor used by the host
                // in conflict with it before it is complete; the module tracks it as well, so it stays loaded. In a capture nothing runs: each
                // launch of the graph gets the buffers and tracks its use of them, and the graph keeps the module.
                unsafe {
                    state.api.launch(
                        state.ordinal,
                        self.function.0,
                        &self.name,
                        shape,
                        on,
                        addresses,
                        || arguments.declared(),
                    )
                }
            })
        })
    }
}

#[cold]
pub(crate) fn elsewhere(stream: &Stream, device: &Device) -> Error {
    match stream.check_runtime(device, "the stream") {
        Err(error) => error,
        Ok(()) => Error::DeviceMismatch {
            what: "the stream",
            expected: device.ordinal(),
            found: stream.inner().ordinal(),
        },
    }
}
