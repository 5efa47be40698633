//! Conditions: work of a graph that runs if, or as long as, a value on the device is not 0.
#![allow(unsafe_code, reason = "launches the kernel that sets a condition")]

use crate::buffer::any::Memory;
use crate::error::Result;
use crate::graph::Recording;
use crate::kernel::launch::LaunchConfig;
use crate::kernel::module::{Kernel, Module};
use crate::range::same_length;

/// Copies the value of a buffer to a condition. The driver has the function, from CUDA 12.3 on; NVIDIA's compiler calls it in the same way.
const PTX: &str = "\
.version 6.4
.target sm_50
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);

.visible .entry cuda_um_set_condition(.param .u64 buffer, .param .u64 condition)
{
    .reg .b32 %value;
    .reg .b64 %buffer, %condition;
    ld.param.u64 %buffer, [buffer];
    ld.param.u64 %condition, [condition];
    cvta.to.global.u64 %buffer, %buffer;
    ld.global.u32 %value, [%buffer];
    {
        .param .b64 to;
        .param .b32 set;
        st.param.b64 [to], %condition;
        st.param.b32 [set], %value;
        call.uni cudaGraphSetConditional, (to, set);
    }
    ret;
}
";

impl Recording<'_> {
    /// Records work that runs only if `condition`, a buffer or view of one number, is not 0 when a launch of the graph comes to it.
    ///
    /// `body` records as the closure of the capture does: on the streams of the capture, with [`fork`](Self::fork) for more. Its prefetches and
    /// advice are steps before the launch of the graph, whether or not the body runs. CUDA allows launches of kernels, and fills and copies of
    /// device memory and pinned memory; other work is an error of [`Graph::instantiate`](crate::graph::Graph::instantiate), or before.
    ///
    /// # Ordering
    ///
    /// The number is read, and the body runs, after all work that is recorded by now, on all streams of the capture, and before later work
    /// on its first stream. Later work on other streams is concurrent, unless memory is shared.
    ///
    /// # Errors
    ///
    /// The error of `body`: return it from the closure of the capture, which then fails in any case.
    /// [`Error::NotSupported`](crate::Error::NotSupported) before CUDA 12.3, [`Error::LengthMismatch`](crate::Error::LengthMismatch) for another
    /// length than 1, [`Error::Capture`](crate::Error::Capture) in `body` for parameters of the graph and for events of outside, and errors of
    /// `cudaGraphConditionalHandleCreate`, `cudaGraphAddNode`, `cudaStreamUpdateCaptureDependencies`, `cudaStreamBeginCaptureToGraph`,
    /// `cudaStreamEndCapture` and `cuModuleLoadDataEx`.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{DeviceBuffer, UnifiedBuffer};
    ///
    /// let stream = device.create_stream()?;
    /// let mut is_large = UnifiedBuffer::from_slice(&device, &[0u32])?; // a kernel sets it in a real program
    /// let mut data = DeviceBuffer::<f32>::zeroed(&device, 1000)?;
    /// # let version = device.runtime().version();
    /// # if (version.major, version.minor) < (12, 3) { return Ok(()); }
    /// let graph = stream.capture(|recording| recording.if_on(&is_large, || data.fill_on(0.5, &stream)))?;
    /// let mut exec = graph.instantiate()?;
    /// exec.launch(&stream, (&is_large, &mut data))?;
    /// assert_eq!(data.to_vec()?[999], 0.0);
    /// is_large.host_mut()?[0] = 1;
    /// exec.launch(&stream, (&is_large, &mut data))?;
    /// assert_eq!(data.to_vec()?[999], 0.5);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    #[doc(alias = "cudaGraphConditionalHandleCreate")]
    #[doc(alias = "cudaGraphSetConditional")]
    pub fn if_on(
        &self,
        condition: &impl Memory<u32>,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let set = self.condition(condition)?;
        set.record(self, condition)?;
        self.capture.condition(false, set.handle, body)
    }

    /// Records work that runs again and again, as long as `condition`, a buffer or view of one number, is not 0: the number is read before
    /// each round. `body` gets the buffer, because a body that never writes it never ends. The rest is as for [`if_on`](Self::if_on).
    ///
    /// # Ordering
    ///
    /// As for [`if_on`](Self::if_on); the next round is after all work of a round.
    ///
    /// # Errors
    ///
    /// As for [`if_on`](Self::if_on).
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let kernel = cuda_um::Module::load(&device, "")?.kernel("refine")?;
    /// use cuda_um::{DeviceBuffer, LaunchConfig};
    ///
    /// let stream = device.create_stream()?;
    /// let mut goes_on = DeviceBuffer::from_slice(&device, &[1u32])?;
    /// let mut data = DeviceBuffer::<f32>::zeroed(&device, 1000)?;
    /// let graph = stream.capture(|recording| {
    ///     goes_on.fill_on(1, &stream)?;
    ///     recording.while_on(&mut goes_on, |goes_on| {
    ///         // SAFETY: the kernel takes two addresses, and writes 1000 elements and one; it writes 0 when the elements are good enough.
    ///         unsafe { kernel.launch(&stream, LaunchConfig::linear(1000, 256), (&mut data, goes_on)) }
    ///     })
    /// })?;
    /// graph.instantiate()?.launch(&stream, (&mut goes_on, &mut data))?;
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    #[doc(alias = "cudaGraphCondTypeWhile")]
    pub fn while_on<M: Memory<u32>>(
        &self,
        condition: &mut M,
        body: impl FnOnce(&mut M) -> Result<()>,
    ) -> Result<()> {
        let set = self.condition(condition)?;
        set.record(self, condition)?;
        self.capture.condition(true, set.handle, || {
            body(condition)?;
            set.record(self, condition)
        })
    }

    /// Makes a condition.
    fn condition(&self, value: &impl Memory<u32>) -> Result<Set> {
        same_length("the condition of a graph", 1, value.to_view().len())?;
        let handle = self.capture.new_condition()?;
        let module = Module::load(&self.stream.device(), PTX)?;
        let kernel = module.kernel("cuda_um_set_condition")?;
        Ok(Set { handle, kernel })
    }
}

/// Sets a condition.
struct Set {
    handle: u64,
    kernel: Kernel,
}

impl Set {
    /// Records the work.
    fn record(&self, recording: &Recording<'_>, value: &impl Memory<u32>) -> Result<()> {
        // Of the part of another buffer, if the body has put one in its place.
        same_length("the condition of a graph", 1, value.to_view().len())?;
        let arguments = (value.to_view(), self.handle);
        let once = LaunchConfig::linear(1, 1);
        // SAFETY: the kernel takes an address and a handle, and reads one number at the address; the handle is one of this graph.
        unsafe { self.kernel.launch(recording.stream, once, arguments) }
    }
}
