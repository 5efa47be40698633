//! The list of a launch's arguments.

use crate::context::device::Device;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// The arguments of a launch, in order, as a list: for kernels whose parameters are known only at run time.
///
/// A tuple does the same. Neither allocates for up to 16 arguments with at most 512 bytes of values and addresses.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Arguments, UnifiedBuffer};
///
/// let mut outputs = vec![UnifiedBuffer::<f32>::zeroed(&device, 8)?, UnifiedBuffer::zeroed(&device, 8)?];
/// let mut arguments = Arguments::new();
/// outputs.iter_mut().for_each(|output| arguments.push(output)); // borrowed until the list is launched or dropped
/// arguments.push(8u32);
/// assert_eq!(arguments.len(), 3);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Default)]
pub struct Arguments<'a> {
    /// The values and addresses. Each begins a word, so that a parameter of up to 8 bytes never reads past its value.
    words: SmallVec<[u64; 64]>,
    /// The size of each value in bytes.
    sizes: SmallVec<[u32; 16]>,
    /// The buffers, and the range of bytes of each that the kernel gets.
    buffers: SmallVec<[(&'a Allocation, Range<usize>, Access); 16]>,
    /// The error of the first argument that could not be passed.
    pub(super) error: Option<Error>,
    /// As an [`InPlace`](crate::InPlace) that is in the list.
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a> Arguments<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns true if there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    pub(super) fn push_value(&mut self, bytes: &[u8]) {
        let start = self.words.len();
        self.words.resize(start + words(bytes.len()), 0);
        let place = bytemuck::cast_slice_mut::<u64, u8>(&mut self.words[start..]);
        place[..bytes.len()].copy_from_slice(bytes);
        self.sizes
            .push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn push_buffer(&mut self, raw: &'a Allocation, bytes: Range<usize>, access: Access) {
        let start = raw.device_pointer().unwrap_or(raw.pointer()).as_ptr() as usize;
        self.words.push((start + bytes.start) as u64);
        self.sizes.push(size_of::<u64>() as u32);
        self.buffers.push((raw, bytes, access));
    }

    /// Returns the address of each value. The driver only reads them.
    pub(super) fn addresses(&mut self) -> SmallVec<[*mut c_void; 16]> {
        let first = self.words.as_mut_ptr();
        let mut at = 0;
        let address = |bytes: &u32| {
            let address = first.wrapping_add(at).cast();
            at += words(*bytes as usize);
            address
        };
        self.sizes.iter().map(address).collect()
    }

    /// Returns the parts of buffers that the kernel gets.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'a>> + Clone {
        let parts = self.buffers.iter();
        parts.map(|(raw, bytes, access)| raw.part_of(bytes.clone(), *access))
    }

    /// Returns the address of each buffer's first element for kernels, or for the host if kernels cannot use it.
    pub(super) fn buffer_addresses(&self) -> SmallVec<[*mut c_void; 16]> {
        let address = |(raw, bytes, _): &(&Allocation, Range<usize>, Access)| {
            let start = raw.device_pointer().unwrap_or(raw.pointer()).as_ptr();
            start.wrapping_add(bytes.start).cast()
        };
        self.buffers.iter().map(address).collect()
    }

    /// Returns the device of the first buffer.
    pub(super) fn first_device(&self) -> Option<&'a Device> {
        self.buffers.first().map(|(raw, ..)| raw.device())
    }

    /// Refuses arguments that do not fit the kernel's parameters.
    pub(super) fn check_sizes(&self, kernel: &str, expected: &[u32]) -> Result<()> {
        if self.sizes[..] == *expected {
            return Ok(());
        }
        let mut pairs = self.sizes.iter().zip(expected).enumerate();
        Err(
            match pairs.find(|(_, (found, expected))| found != expected) {
                Some((index, (found, expected_bytes))) if self.sizes.len() == expected.len() => {
                    Error::ArgumentSize {
                        kernel: kernel.to_owned(),
                        index,
                        expected_bytes: *expected_bytes,
                        found_bytes: *found,
                    }
                }
                _ => Error::ArgumentCount {
                    kernel: kernel.to_owned(),
                    expected_bytes: expected.to_vec(),
                    found_bytes: self.sizes.to_vec(),
                },
            },
        )
    }

    /// Refuses buffers that a kernel on the device cannot reach.
    pub(super) fn check(&self, device: &Device) -> Result<()> {
        for (raw, _, access) in &self.buffers {
            if access.is_write() {
                raw.check_write()?;
            }
            if !device.runtime().is_same(raw.device().runtime()) {
                return Err(Error::RuntimeMismatch { what: "the buffer" });
            }
            if raw.is_host_memory() && raw.bytes() > 0 && raw.device_pointer().is_none() {
                return Err(Error::NotSupported {
                    what: format!(
                        "a kernel's use of {} memory (buffer {})",
                        raw.name_of_kind(),
                        raw.id()
                    ),
                    needs: "a device that maps host memory".to_owned(),
                    have: format!("device {} ({})", device.ordinal(), device.name()),
                });
            }
            let (expected, found) = (device.ordinal(), raw.device().ordinal());
            if !raw.is_for_all_devices() && expected != found {
                return Err(Error::DeviceMismatch {
                    what: "a buffer of the launch",
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }
}

/// The number of words of a value: at least one, so that each has an address.
fn words(bytes: usize) -> usize {
    bytes.div_ceil(size_of::<u64>()).max(1)
}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("len", &self.len())
            .finish()
    }
}
