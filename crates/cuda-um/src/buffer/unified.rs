//! Unified buffers: one pointer for the CPU and the GPU.

use crate::DeviceCopy;
use crate::buffer::any::allocate_in;
use crate::context::capture;
use crate::context::device::Device;
use crate::error::Result;
use crate::fork;
use crate::label::{Label, Name};
use crate::resource::again::Again;
use crate::resource::allocation::Allocation;
use crate::resource::kind::{MemoryKind, Oversubscription};
use crate::resource::managed::ManagedMemory;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::placement::{AccessPattern, Chosen, Placed, Placement};
use crate::resource::pool::default::DefaultMemory;
use crate::scalar::constant;
use crate::{element, range};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::Location;

/// Memory with one pointer for the CPU and the device. By default it is managed memory
/// ([`cudaMallocManaged`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html)), which every device of the runtime can
/// use and whose pages migrate to the processor that uses them. An [`AccessPattern`] or a [`Placement`] can select pinned memory that is
/// mapped for the buffer's device, or memory of the operating system; a vector or a file can be the buffer itself
/// ([`from_vec`](Self::from_vec), [`map_file`](Self::map_file)).
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
/// data.copy_within_on(..512, 512, &stream)?;
/// assert_eq!(data.host()?[0], 2.0);
/// # pollster::block_on(async {
/// data.host_mut_async().await?[0] = 3.0; // other tasks run while it waits
/// data.copy_from_host_async(&[4.0; 1024]).await?;
/// # Ok::<(), cuda_um::Error>(())
/// # })?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// A buffer tracks the work that still uses it: host guards wait only for that work, work on another stream is ordered after it, and the
/// drop of a buffer in use neither waits nor frees too early. A closed buffer cannot be used:
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// let data = cuda_um::UnifiedBuffer::<f32>::zeroed(&device, 4).unwrap();
/// data.close().unwrap();
/// data.host().unwrap();
/// ```
#[doc(alias = "cudaMallocManaged")]
pub struct UnifiedBuffer<T> {
    pub(crate) raw: Allocation,
    _elements: PhantomData<T>,
}

/// Options for the allocation of a unified buffer.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{AccessPattern, Advice, UnifiedBuffer, UnifiedOptions};
///
/// let weights = UnifiedOptions::default().pattern(AccessPattern::ReadMostly);
/// let weights = UnifiedBuffer::from_slice_with(&device, &[0.5f32; 1000], weights)?;
/// assert_eq!(weights.placement().advice, Some(Advice::SetReadMostly));
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnifiedOptions {
    oversubscription: Oversubscription,
    pub(super) placement: Placement,
    pub(super) pattern: AccessPattern,
    pub(super) name: Option<&'static str>,
}

impl UnifiedOptions {
    /// Sets whether the memory may exceed the device's memory. The default is [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.oversubscription = oversubscription;
        self
    }

    /// Sets the buffer's name for traces; the default is its type and length. [`UnifiedBuffer::set_name`] sets it later.
    #[must_use]
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
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

buffer_methods!([] UnifiedBuffer);
host_methods!([] UnifiedBuffer);

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// Allocates `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), so the pages are first resident on the device;
    /// later uses of the buffer are ordered after them. While host guards live and the device has no concurrent managed access, the host
    /// writes the zeros.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), also for more than the device has free (see [`Oversubscription`]);
    /// [`Error::NotSupported`](crate::Error::NotSupported) if the device lacks the requested memory (without managed memory,
    /// [`Placement::Auto`] selects mapped memory); [`Error::TooLarge`](crate::Error::TooLarge); and the errors of the CUDA functions.
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        Self::zeroed_with(device, len, UnifiedOptions::default())
    }

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

    /// Allocates `len` zeros in the same kind of memory, from the same resource and with the same access pattern: the pool, the limit, the
    /// options of the allocation. A buffer of another library's memory, and one without elements, gives default memory of the kind.
    ///
    /// # Ordering
    ///
    /// The same as for [`zeroed`](Self::zeroed).
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn zeroed_like(&self, len: usize) -> Result<Self> {
        let kind = self.chosen().kind();
        let resource = Again {
            of: &self.raw,
            kind,
        };
        let mut raw = allocate_in::<T>(&resource, kind, "a UnifiedBuffer", len)?;
        raw.set_chosen(self.chosen().again());
        raw.set_label(Label::of::<T>("UnifiedBuffer", Location::caller()));
        let mut buffer = Self {
            raw,
            _elements: PhantomData,
        };
        buffer.write_zeros()?;
        Ok(buffer)
    }

    /// Allocates a copy of a slice. The slice may be reused when this returns; later uses of the buffer are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        Self::from_slice_with(device, elements, UnifiedOptions::default())
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
        buffer.populate()?;
        buffer.copy_from_host(elements)?;
        buffer.advise_as_chosen()?;
        Ok(buffer)
    }

    /// Allocates `len` uninitialised elements, for kernels to write. No page is resident on any processor yet.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit(
        device: &Device,
        len: usize,
        options: UnifiedOptions,
    ) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        let buffer = Self::allocate(device, len, options)?;
        buffer.advise_as_chosen()?;
        Ok(UnifiedBuffer {
            raw: buffer.raw,
            _elements: PhantomData,
        })
    }

    /// Allocates `len` zeros in managed memory, or system memory, of a resource.
    ///
    /// # Ordering
    ///
    /// The same as for [`zeroed`](Self::zeroed); the zeros are ordered after earlier work that still uses the memory.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit_in`](Self::uninit_in).
    #[track_caller]
    pub fn zeroed_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, len)?;
        buffer.write_zeros()?;
        Ok(buffer)
    }

    /// Allocates a copy of a slice in managed memory of a resource. The slice may be reused when this returns; later uses of the buffer are
    /// ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    #[track_caller]
    pub fn from_slice_in(resource: &dyn MemoryResource, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, elements.len())?;
        buffer.populate()?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Allocates `len` uninitialised elements in managed memory of a resource, for kernels to write. Makes no CUDA call if the resource is
    /// a pool that has a free block.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a resource of another kind than [`MemoryKind::Managed`] and [`MemoryKind::System`];
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), also above the limit of a pool and for more than the device has free (see
    /// [`Oversubscription`]); [`Error::TooLarge`](crate::Error::TooLarge); and the errors of the CUDA functions.
    #[track_caller]
    pub fn uninit_in(
        resource: &dyn MemoryResource,
        len: usize,
    ) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        UnifiedBuffer::allocate_in(resource, len)
    }

    fn write_zeros(&mut self) -> Result<()> {
        // System memory has zeros, and no page belongs anywhere before its first touch.
        if self.raw.kind() != MemoryKind::System {
            capture::also_now(|| {
                self.populate()?;
                self.fill(constant(T::zeroed()))
            })?;
        }
        self.advise_as_chosen()
    }

    /// Makes the pages resident on the device with one prefetch: a memset or copy would fault them in one by one.
    fn populate(&self) -> Result<()> {
        let device = self.device();
        if !device.capabilities().concurrent_managed_access
            || !self.raw.is_managed()
            // A block of a pool whose former buffer left its pages there.
            || !self.raw.may_be_away()
        {
            return Ok(());
        }
        self.prefetch(device)?.require()
    }

    /// Gives the advice of the access pattern, after the contents are written: a write to read-mostly memory that the host has as well, as the
    /// former buffer of a pool's block may have left it, faults on each page.
    pub(super) fn advise_as_chosen(&self) -> Result<()> {
        match self.chosen().advice(self.device()) {
            Some(advice) => self.advise(advice)?.require(),
            None => Ok(()),
        }
    }

    #[track_caller]
    fn allocate(device: &Device, len: usize, options: UnifiedOptions) -> Result<Self> {
        const { element::assert_element::<T>() };
        let bytes = range::size_bytes::<T>(len)?;
        // Check before the placement decision, which reads settings that locks protect.
        fork::check("allocation")?;
        let UnifiedOptions {
            oversubscription,
            placement,
            pattern,
            name,
        } = options;
        let chosen = Chosen::new(device, bytes, placement, pattern)?;
        let mut raw = if bytes == 0 {
            Allocation::empty::<T>(device)
        } else if oversubscription == Oversubscription::Allowed
            && chosen.kind() == MemoryKind::Managed
        {
            let memory = ManagedMemory::new(device).oversubscription(oversubscription);
            memory.allocate(bytes)?
        } else {
            DefaultMemory::new(device, chosen.kind()).allocate(bytes)?
        };
        raw.set_chosen(chosen);
        raw.set_label(Label::of::<T>("UnifiedBuffer", Location::caller()));
        if let Some(name) = name {
            raw.set_name(Name::Static(name));
        }
        Ok(Self {
            raw,
            _elements: PhantomData,
        })
    }
}

#[allow(unsafe_code, reason = "the caller's promise is required")]
impl<T: DeviceCopy> UnifiedBuffer<MaybeUninit<T>> {
    /// Converts the buffer to one whose elements are initialised.
    ///
    /// # Safety
    ///
    /// Work that was enqueued before this call writes every element.
    pub unsafe fn assume_init(self) -> UnifiedBuffer<T> {
        UnifiedBuffer {
            raw: self.raw,
            _elements: PhantomData,
        }
    }
}

impl<T> UnifiedBuffer<T> {
    pub(super) fn of_placed(mut raw: Allocation, chosen: Chosen) -> Self {
        raw.set_chosen(chosen);
        Self {
            raw,
            _elements: PhantomData,
        }
    }

    pub(crate) fn of_raw(raw: Allocation) -> Self {
        let kind = match raw.kind() {
            MemoryKind::System => MemoryKind::System,
            // Of a buffer without elements, too.
            _ => MemoryKind::Managed,
        };
        Self::of_placed(raw, Chosen::of_a_resource(kind))
    }

    #[track_caller]
    pub(crate) fn allocate_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let kind = match resource.kind() {
            MemoryKind::System => MemoryKind::System,
            _ => MemoryKind::Managed,
        };
        let mut raw = allocate_in::<T>(resource, kind, "a UnifiedBuffer", len)?;
        raw.set_label(Label::of::<T>("UnifiedBuffer", Location::caller()));
        Ok(Self::of_raw(raw))
    }

    pub(super) fn chosen(&self) -> Chosen {
        let of_a_resource = || Chosen::of_a_resource(MemoryKind::Managed);
        self.raw.chosen().copied().unwrap_or_else(of_a_resource)
    }

    /// Returns the kind of memory that the buffer has, and the reason.
    pub fn placement(&self) -> Placed {
        self.chosen().in_words(self.device())
    }

    /// Returns true if the buffer has managed memory, whose pages migrate. A pool has only managed memory. System memory is not managed by
    /// CUDA, although its pages migrate as well: [`placement`](Self::placement) tells.
    pub fn is_managed(&self) -> bool {
        self.chosen().kind() == MemoryKind::Managed
    }

    /// Waits for the buffer's own work, frees the memory, and returns the error that a drop cannot return.
    ///
    /// # Errors
    ///
    /// The errors of the CUDA functions, including a failure of that work. The memory is then leaked.
    #[doc(alias = "cudaFree")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}
