//! Unified buffers: one pointer for the CPU and the GPU.

use crate::DeviceCopy;
use crate::buffer::kind::{Owned, Unified};
use crate::buffer::memory::Memory;
use crate::context::device::Device;
use crate::context::op::Op;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use crate::range;
use crate::resource::kind::{MemoryKind, Oversubscription};
use crate::resource::memory_resource::MemoryResource;
use crate::resource::placement::{AccessPattern, Chosen, Placed, Placement, Why};
use crate::resource::pool::default;
use crate::resource::separate::ManagedMemory;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Memory with one pointer for the CPU and the device: managed memory
/// ([`cudaMallocManaged`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)), whose pages migrate to the processor that
/// uses them, or what an [`AccessPattern`] or a [`Placement`] selects; a vector or a file can be the buffer itself
/// ([`from_vec`](UnifiedBuffer::from_vec), [`map_file`](UnifiedBuffer::map_file)).
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Location, UnifiedBuffer};
///
/// let stream = device.create_stream()?;
/// let mut data = UnifiedBuffer::<f32>::zeroed(&device, 1024)?;
/// data.host_mut()?[0] = 1.0; // waits for the GPU, then the CPU writes in place
/// data.prefetch_on(Location::from(&device), &stream)?; // on the stream, before a kernel that reads it
/// data.fill_on(2.0, &stream)?;
/// assert_eq!(data.host()?[0], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// A buffer tracks the work that still uses it ([ordering](crate#ordering)).
#[doc(alias = "cudaMallocManaged")]
pub type UnifiedBuffer<T> = Memory<T, Unified>;

/// Options for the allocation of a unified buffer ([example](AccessPattern)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnifiedOptions {
    oversubscription: Oversubscription,
    pub(super) placement: Placement,
    pub(super) pattern: AccessPattern,
}

impl UnifiedOptions {
    /// Sets whether the memory may exceed the device's memory. The default is [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.oversubscription = oversubscription;
        self
    }

    /// Sets the kind of memory. The default is [`Placement::Auto`].
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// States the expected use of the buffer. The default is [`AccessPattern::General`].
    #[must_use]
    pub fn pattern(mut self, pattern: AccessPattern) -> Self {
        self.pattern = pattern;
        self
    }
}

impl Owned for Unified {
    const KIND: MemoryKind = MemoryKind::Managed;

    fn needed(offered: MemoryKind) -> MemoryKind {
        match offered {
            MemoryKind::System => MemoryKind::System,
            _ => MemoryKind::Managed,
        }
    }

    #[track_caller]
    fn allocate<T>(device: &Device, len: usize) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::allocate(device, len, UnifiedOptions::default())
    }
}

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Allocates `len` zeros, with options.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn zeroed_with(device: &Device, len: usize, options: UnifiedOptions) -> Result<Self> {
        let mut buffer = Self::allocate(device, len, options)?;
        buffer.write_zeros()?;
        Ok(buffer)
    }

    /// Allocates a copy of a slice, with options.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice_with(
        device: &Device,
        elements: &[T],
        options: UnifiedOptions,
    ) -> Result<Self> {
        let mut buffer = Self::allocate(device, elements.len(), options)?;
        buffer.write_elements(elements)?;
        Ok(buffer)
    }

    /// Gives the memory of a buffer of a [`DriverPool`](crate::resource::DriverPool) to another owner, and returns its address. The owner frees it in
    /// stream order, with `cudaFreeAsync`, on `stream` or on a stream that is ordered after it.
    ///
    /// # Ordering
    ///
    /// Work that is enqueued on `stream` after the call runs after all earlier work on the buffer.
    ///
    /// # Errors
    ///
    /// The buffer comes back with the error: [`Error::NotSupported`] if the memory is not of a [`DriverPool`](crate::resource::DriverPool), and for a
    /// buffer without elements; [`Error::RuntimeMismatch`]; and the errors of `cudaStreamWaitEvent`.
    #[doc(alias = "cudaFreeAsync")]
    #[allow(clippy::result_large_err, reason = "the buffer comes back")]
    pub fn into_raw(self, stream: &Stream) -> Result<NonNull<T>, (Self, Error)> {
        if !self.raw.traits().can_give {
            let error = Error::NotSupported {
                what: format!("giving the memory of buffer {} to another owner", self.id()),
                needs: "a buffer with elements in memory of a DriverPool".to_owned(),
                have: self.raw.traits().name.to_owned() + " memory",
            };
            return Err((self, error));
        }
        let part = [self.as_view().part(Access::Write)];
        match stream.submit(&Op::with_host(self.device(), &part), |_| Ok(())) {
            Ok(()) => Ok(self.raw.give().cast()),
            Err(error) => Err((self, error)),
        }
    }

    /// Allocates `len` [uninitialised](Self::uninit) elements, with options.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit_with(
        device: &Device,
        len: usize,
        options: UnifiedOptions,
    ) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        let buffer = Self::allocate(device, len, options)?;
        buffer.advise_as_chosen()?;
        Ok(Memory::of_raw(buffer.raw))
    }
}

impl<T> UnifiedBuffer<T> {
    #[track_caller]
    fn allocate(device: &Device, len: usize, options: UnifiedOptions) -> Result<Self> {
        let bytes = range::size_bytes::<T>(len)?;
        let UnifiedOptions {
            oversubscription,
            placement,
            pattern,
        } = options;
        let chosen = Chosen::new(device, bytes, placement, pattern)?;
        let (oversubscribes, kind) = (oversubscription == Oversubscription::Allowed, chosen.kind);
        let mut made = Self::made(device, len, |bytes| match kind {
            MemoryKind::Managed if oversubscribes => ManagedMemory::new(device)
                .oversubscription(oversubscription)
                .allocate(bytes),
            _ => default::allocate(device, kind, bytes),
        });
        if let Ok(buffer) = &mut made {
            buffer.raw.chosen = Some(chosen);
        }
        made
    }

    fn chosen(&self) -> Chosen {
        // A buffer without elements has another kind.
        self.raw.chosen.unwrap_or(Chosen {
            pattern: AccessPattern::General,
            kind: Unified::needed(self.raw.kind()),
            why: Why::Resource,
        })
    }

    /// Returns the kind of memory that the buffer has, and the reason.
    pub fn placement(&self) -> Placed {
        self.chosen().in_words(self.device())
    }

    /// Returns true if the buffer has managed memory: not for system memory, although its pages may migrate as well.
    pub fn is_managed(&self) -> bool {
        self.chosen().kind == MemoryKind::Managed
    }
}
