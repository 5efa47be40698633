//! Launches, with typed arguments that borrow the buffers.
#![allow(unsafe_code, reason = "gives the driver the arguments of kernels")]

use crate::context::observer::{Started, What};
use crate::context::stream::Stream;
use crate::error::{Error, Result};
use crate::kernel::argument::{KernelArgs, Parameters};
use crate::kernel::module::Kernel;
use smallvec::SmallVec;
use std::ffi::c_void;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in each dimension, x first.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension, x first.
    pub block: [u32; 3],
    /// Shared memory of a block beyond what the source declares, in bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// At least `count` threads in one dimension, in blocks of `block` threads (one block where `count` is 0).
    ///
    /// # Panics
    ///
    /// If `block` is 0. A grid that is too large is an error of the launch.
    pub fn linear(count: usize, block: u32) -> Self {
        assert!(block > 0, "a block has at least one thread");
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
    /// Enqueues the kernel on a stream.
    ///
    /// `arguments` is a tuple of up to 16 [`KernelArg`]s: `&buffer` (or a [`View`](crate::View)) for what the kernel reads,
    /// `&mut buffer` (or a [`ViewMut`](crate::ViewMut)) for what it may write, and numbers; or [`Arguments`], where how many there are
    /// is known at run time only.
    ///
    /// # Ordering
    ///
    /// Enqueued when this returns, after whatever used the buffers before on any stream in a way that it must not overlap. Host
    /// guards, later work and the buffers' drops wait for it.
    ///
    /// # Errors
    ///
    /// - [`Error::DeviceMismatch`] for a stream of another device, or device memory of another device.
    /// - [`Error::NotSupported`] for pinned memory that the device cannot map.
    /// - [`Error::LimitExceeded`], [`Error::InvalidArgument`] for a shape that the device cannot run.
    /// - [`Error::Busy`] on a device without concurrent managed access while host guards of managed memory live.
    /// - [`Error::RuntimeMismatch`], and what `cuLaunchKernel` reports.
    ///
    /// What goes wrong in the kernel itself is reported by a later call, as [`Error::Sticky`].
    ///
    /// # Safety
    ///
    /// - The arguments are as many, and of the types, that the kernel takes, in its order; a buffer is the address of its first
    ///   element.
    /// - With these arguments and this shape the kernel stays inside the buffers, and writes only those that are given by `&mut`.
    /// - It is done with them when it ends: it keeps no address for later.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let kernel = cuda_um::Module::load(&device, "")?.kernel("add")?;
    /// use cuda_um::{LaunchConfig, UnifiedBuffer};
    ///
    /// let stream = device.stream()?;
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
        let (device, inner) = (self.device(), stream.inner());
        if !stream.runtime().is_same(device.runtime()) {
            return Err(Error::RuntimeMismatch { what: "the stream" });
        }
        if inner.ordinal() != device.ordinal() {
            return Err(Error::DeviceMismatch {
                what: "the stream",
                expected: device.ordinal(),
                found: inner.ordinal(),
            });
        }
        let shape = (config.grid, config.block, config.shared_bytes);
        device.capabilities().check_launch(shape)?;
        let started = Started::now(device);
        let _span =
            crate::telemetry::span!("launch", kernel = &*self.name, device = device.ordinal());
        let mut parameters = Parameters::default();
        arguments.pass(&mut parameters);
        parameters.check(device)?;
        let mut addresses: SmallVec<[*mut c_void; 16]> =
            parameters.values().map(|value| value.cast()).collect();
        let used = (device, Some(&self.module.in_flight));
        started.enqueue(
            What::Launch(&self.name),
            used,
            stream,
            parameters.parts(),
            || {
                // SAFETY: the kernel's side is the caller's promise; the buffers note this use, so they are neither freed nor used by
                // the host in its way before it is done; the module stays loaded, for it notes the use as well.
                unsafe {
                    device.api().launch(
                        device.ordinal(),
                        self.function.0,
                        &self.name,
                        shape,
                        stream.as_raw(),
                        &mut addresses,
                    )
                }
            },
        )?;
        crate::telemetry::debug!(kernel = &*self.name, grid = ?config.grid, block = ?config.block, "launch");
        Ok(())
    }
}
