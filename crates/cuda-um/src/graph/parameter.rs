//! The parameters of graphs.

use crate::context::capture;
use crate::error::{Error, Result};
use crate::kernel::argument::KernelArg;
use crate::kernel::arguments::Arguments;
use bytemuck::NoUninit;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// What a graph's launches take in place of a recorded value: a number (`GraphParameter<f32>`), which is an argument of recorded launches, or a
/// buffer (`GraphParameter<[f32]>`).
///
/// ```no_run
/// # let device = cuda_um::Runtime::open()?.device(0)?;
/// # let kernel = cuda_um::Module::load(&device, "")?.kernel("add")?;
/// use cuda_um::{LaunchConfig, UnifiedBuffer};
///
/// let stream = device.create_stream()?;
/// let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000)?;
/// let mut other = UnifiedBuffer::<u32>::zeroed(&device, 1000)?;
/// let mut parameters = None;
/// let graph = stream.capture(|recording| {
///     let (number, _) = *parameters.insert((recording.parameter(1u32), recording.buffer(&data)));
///     // SAFETY: the kernel takes an address, a count and a number, and touches `count` elements, one a thread.
///     unsafe { kernel.launch(&stream, LaunchConfig::linear(1000, 256), (&mut data, 1000u32, number)) }
/// })?;
/// let mut exec = graph.instantiate()?;
/// if let Some((number, buffer)) = parameters {
///     exec.set(number, 5)?; // for all launches from now on
///     exec.set_buffer(buffer, &other)?;
/// }
/// exec.launch(&stream, (&mut other,))?;
/// assert_eq!(other.host()?[999], 5);
/// # Ok::<(), cuda_um::Error>(())
/// ```
pub struct GraphParameter<T: ?Sized> {
    /// The capture that made it.
    pub(super) capture: u64,
    /// The number of the value's parameter, or of the buffer's slot.
    pub(super) index: u32,
    /// The recorded bytes of the buffer.
    pub(super) start: usize,
    pub(super) bytes: usize,
    /// Not `T`: the value is in the capture.
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> GraphParameter<T> {
    pub(super) fn new(capture: u64, index: u32, bytes: Range<usize>) -> Self {
        Self {
            capture,
            index,
            start: bytes.start,
            bytes: bytes.len(),
            of: PhantomData,
        }
    }

    /// Refuses a parameter of another capture.
    pub(super) fn check(&self, capture: u64) -> Result<()> {
        match self.capture == capture {
            true => Ok(()),
            false => Err(Error::InvalidArgument {
                what: "the parameter of a graph",
                value: format!("one of capture {}", self.capture),
                reason: format!(
                    "the graph is of capture {capture}: use the parameters that its recording made"
                ),
            }),
        }
    }
}

impl<T: NoUninit> KernelArg for GraphParameter<T> {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> Result<()>
    where
        Self: 'a,
    {
        let current = capture::current().filter(|capture| capture.id() == self.capture);
        let Some(capture) = current else {
            return Err(capture::refused(
                "a launch with a parameter of a graph",
                "the parameter belongs to a capture that this thread does not record: pass the value itself",
            ));
        };
        if capture.is_in_body() {
            return Err(capture::refused(
                "a parameter of a graph in the body of a condition",
                "CUDA changes no kernels there: let the kernel read the number from a buffer",
            ));
        }
        capture.with_parameter(self.index, |bytes| {
            arguments.push_parameter(bytes, self.index)
        });
        Ok(())
    }
}

impl<T: ?Sized> Clone for GraphParameter<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for GraphParameter<T> {}

impl<T: ?Sized> fmt::Debug for GraphParameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphParameter")
            .field("capture", &self.capture)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
