//! Sets all elements to one value.

use crate::error::argument;
use crate::grid;
use cuda_um::{
    Device, DeviceCopy, Kernel, Module, Result, Scalar, Stream, constant, kernel::WriteArg,
};

/// The kernels `fill_u8` to `fill_u64`, loaded on a device.
#[derive(Debug)]
pub struct Fill {
    device: Device,
    u8: Kernel,
    u16: Kernel,
    u32: Kernel,
    u64: Kernel,
}

impl Fill {
    /// Loads the kernels.
    ///
    /// # Errors
    /// The device refuses the module.
    pub fn load(device: &Device) -> Result<Self> {
        let module = Module::load(device, include_str!("../ptx/fill.ptx"))?;
        Ok(Self {
            device: device.clone(),
            u8: module.kernel("fill_u8")?,
            u16: module.kernel("fill_u16")?,
            u32: module.kernel("fill_u32")?,
            u64: module.kernel("fill_u64")?,
        })
    }

    /// Enqueues `output[i] = value` for every element of `output [n]`: plain data of 1, 2, 4 or 8 bytes.
    ///
    /// If an element type has an alignment smaller than its size, `output` may begin at any address. If the address is not a
    /// multiple of the element's size, elements are stored byte by byte, which is slower.
    ///
    /// In a capture, `value` is a [`constant`], or has a name ([`Recording::scalar`](cuda_um::graph::Recording::scalar)).
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the buffer on any stream.
    ///
    /// # Errors
    /// The launch fails.
    #[allow(unsafe_code, reason = "launches a kernel of this crate")]
    pub fn launch<T: DeviceCopy>(
        &self,
        stream: &Stream,
        output: impl WriteArg<T>,
        value: impl Into<Scalar<T>>,
    ) -> Result<()> {
        const {
            assert!(
                matches!(size_of::<T>(), 1 | 2 | 4 | 8),
                "elements of 1, 2, 4 or 8 bytes"
            )
        };
        let output = argument("fill", "output", output.into_view_mut())?;
        let count = output.len();
        if count == 0 {
            return Ok(());
        }
        let config = grid::strided(&self.device, count);
        let (value, count) = (value.into(), constant(count as u64));
        // SAFETY: the arguments are those of the kernel for this element size in cuda/fill.cu. It writes `count` elements, for
        // any alignment of the first one.
        unsafe {
            match size_of::<T>() {
                1 => self
                    .u8
                    .launch(stream, config, (output, value.cast::<u8>(), count)),
                2 => self
                    .u16
                    .launch(stream, config, (output, value.cast::<u16>(), count)),
                4 => self
                    .u32
                    .launch(stream, config, (output, value.cast::<u32>(), count)),
                _ => self
                    .u64
                    .launch(stream, config, (output, value.cast::<u64>(), count)),
            }
        }
    }
}
