//! Buffers of every kind of memory.
#![allow(unsafe_code, reason = "initialises elements")]

use crate::DeviceCopy;
use crate::buffer::fill::fill_on_host;
use crate::buffer::kind::{Kind, Owned};
use crate::buffer::view::{View, ViewMut};
use crate::context::capture;
use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::fork;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::placement::Chosen;
use crate::scalar::constant;
use crate::{element, range};
use std::any::type_name;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Range, RangeBounds};
use std::panic::Location;
use std::sync::Arc;

/// A buffer: elements in memory of one kind. Its names are [`UnifiedBuffer`](crate::UnifiedBuffer), [`DeviceBuffer`](crate::DeviceBuffer),
/// [`PinnedBuffer`](crate::PinnedBuffer) and [`RegisteredBuffer`](crate::RegisteredBuffer).
pub struct Memory<T, K: Kind> {
    pub(crate) raw: Allocation,
    _elements: PhantomData<(T, K)>,
}

impl<T, K: Kind> Memory<T, K> {
    pub(crate) fn of_raw(raw: Allocation) -> Self {
        Self {
            raw,
            _elements: PhantomData,
        }
    }

    #[track_caller]
    #[inline(always)]
    pub(super) fn made(
        device: &Device,
        len: usize,
        allocate: impl FnOnce(usize) -> Result<Allocation>,
    ) -> Result<Self> {
        const { element::assert_element::<T>() };
        let bytes = range::size_bytes::<T>(len)?;
        // A block of a pool takes no call of CUDA, which would ask.
        fork::check("allocation")?;
        let mut made = match bytes {
            0 => Ok(Allocation::empty::<T>(device)),
            bytes => allocate(bytes),
        };
        // An allocation is large: each step that converts its result copies it.
        if let Ok(raw) = &mut made {
            raw.set_label(Self::label());
        }
        made.map(Self::of_raw)
    }

    #[track_caller]
    pub(super) fn label() -> Label {
        let of = || (K::NAME, type_name::<T>(), size_of::<T>());
        Label::new(of, Location::caller())
    }

    /// Returns the buffer's identifier, which errors and traces use. No two buffers of the process have the same one.
    pub fn id(&self) -> u64 {
        self.raw.id()
    }

    /// Sets the buffer's name for traces; the default is its type and length.
    pub fn set_name(&mut self, name: impl Into<Arc<str>>) {
        self.raw.set_name(name.into());
    }

    /// Returns the name that was set.
    pub fn name(&self) -> Option<&str> {
        self.raw.name()
    }

    /// Returns a view of a range of elements, for a kernel to read.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T>> {
        self.as_view().slice(range)
    }

    /// Returns a view of a range of elements, for a kernel to read and write.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`].
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.as_view_mut().slice(range)
    }

    /// Returns a view of all elements, to be read.
    pub fn as_view(&self) -> View<'_, T> {
        View::whole(&self.raw)
    }

    /// Returns a view of all elements, to be read and written.
    pub fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::whole(&mut self.raw)
    }

    /// Returns the same address as [`as_ptr`](Self::as_ptr), to write through.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.raw.pointer().as_ptr().cast()
    }
}

impl<T: DeviceCopy, K: Kind> Memory<T, K> {
    /// Returns the elements as a vector: the vector that the buffer was made of, or a copy of other memory. Waits for all work that uses the buffer.
    ///
    /// # Errors
    ///
    /// The errors of that work, and of [`to_vec`](Self::to_vec). Such a vector is then leaked, because a device may still use it.
    ///
    /// # Panics
    ///
    /// Never: the type of the vector was checked.
    pub fn into_vec(self) -> Result<Vec<T>> {
        if !self.raw.holds::<Vec<T>>() {
            let copy = self.to_vec()?;
            return self.raw.close().map(|_| copy);
        }
        let vector = self.raw.close()?.and_then(|held| held.downcast().ok());
        Ok(*vector.expect("the owner holds the vector of from_vec"))
    }
}

impl<T: DeviceCopy, K: Owned> Memory<T, K> {
    /// Allocates `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), where managed pages are first resident, after work that
    /// still uses memory of a pool; later uses of the buffer are ordered after them. The host writes those of a
    /// [`PinnedBuffer`](crate::PinnedBuffer), after a wait for such work, and of managed memory while host guards live and the device has no
    /// concurrent managed access.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] (see [`Oversubscription`](crate::Oversubscription)); [`Error::NotSupported`] if the device lacks the requested
    /// memory; [`Error::TooLarge`]; and the errors of the CUDA functions.
    #[track_caller]
    pub fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let mut buffer = K::allocate(device, len)?;
        buffer.write_zeros()?;
        Ok(buffer)
    }

    /// Allocates `len` zeros, as [`zeroed`](Self::zeroed) does, in the same kind of memory, from the same resource and with the same access
    /// pattern. A buffer of another library's memory, and one without elements, gives default memory of the kind.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn zeroed_like(&self, len: usize) -> Result<Self> {
        let mut like = self.uninit_like(len)?;
        like.write_zeros()?;
        Ok(like)
    }

    /// Allocates a copy: the same elements and name, in memory as of [`zeroed_like`](Self::zeroed_like).
    ///
    /// # Ordering
    ///
    /// The copy is enqueued on the library's stream of the device, after earlier writes of the buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed) and of [`Stream::copy`](crate::Stream::copy).
    #[doc(alias = "clone")]
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        let mut clone = self.uninit_like(self.len())?;
        if let Some(name) = self.name() {
            clone.set_name(name);
        }
        capture::also_now(|| {
            clone.populate()?;
            self.device().own_stream()?.copy(self, &mut clone)
        })?;
        clone.advise_as_chosen()?;
        Ok(clone)
    }

    #[track_caller]
    fn uninit_like(&self, len: usize) -> Result<Self> {
        let chosen = self.raw.chosen;
        let kind = chosen.map_or_else(|| K::needed(self.raw.kind()), |chosen| chosen.kind);
        let again = |bytes| self.raw.allocate_again(kind, bytes);
        let mut like = Self::made(self.device(), len, again)?;
        like.raw.chosen = chosen.map(Chosen::again);
        Ok(like)
    }

    /// Allocates a copy of a slice, which may be reused when this returns. Later uses of the buffer are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self> {
        let mut buffer = K::allocate(device, elements.len())?;
        buffer.write_elements(elements)?;
        Ok(buffer)
    }

    /// Allocates `len` uninitialised elements, for kernels and copies to write. No managed page is resident on any processor yet.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let kernel = cuda_um::Module::load(&device, "")?.kernel("score")?;
    /// use cuda_um::{DeviceBuffer, LaunchConfig};
    ///
    /// let stream = device.create_stream()?;
    /// let mut scores = DeviceBuffer::<f32>::uninit(&device, 1000)?;
    /// // SAFETY: the kernel takes an address, and writes 1000 elements there, one a thread.
    /// unsafe { kernel.launch(&stream, LaunchConfig::linear(1000, 256), (&mut scores,))? };
    /// // SAFETY: the kernel writes every element.
    /// let scores = unsafe { scores.assume_init() };
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn uninit(device: &Device, len: usize) -> Result<Memory<MaybeUninit<T>, K>> {
        K::allocate(device, len)
    }

    /// Does the same as [`zeroed`](Self::zeroed) in memory of a resource.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit_in`](Self::uninit_in), and of former work on the memory if the host waits for it.
    #[track_caller]
    pub fn zeroed_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, len)?;
        buffer.write_zeros()?;
        Ok(buffer)
    }

    /// Does the same as [`from_slice`](Self::from_slice) in memory of a resource.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    #[track_caller]
    pub fn from_slice_in(resource: &dyn MemoryResource, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate_in(resource, elements.len())?;
        buffer.write_elements(elements)?;
        Ok(buffer)
    }

    /// Allocates `len` [uninitialised](Self::uninit) elements in memory of a resource. Makes no CUDA call if the resource is a pool that has
    /// a free block.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed), and [`Error::InvalidArgument`] for a resource of another kind of memory: a unified buffer needs
    /// [`MemoryKind::Managed`] or [`MemoryKind::System`].
    #[track_caller]
    pub fn uninit_in(
        resource: &dyn MemoryResource,
        len: usize,
    ) -> Result<Memory<MaybeUninit<T>, K>> {
        Memory::allocate_in(resource, len)
    }

    // By reference: a buffer is large, and each step that returns it copies it.
    pub(super) fn write_zeros(&mut self) -> Result<()> {
        match self.raw.kind() {
            _ if self.is_empty() => {}
            // System memory has zeros, and no page belongs anywhere before its first touch.
            MemoryKind::System => {}
            MemoryKind::Pinned if K::KIND == MemoryKind::Pinned => {
                fill_on_host(&mut self.as_view_mut().into_bytes(), &[0], "zeroed")?;
            }
            _ => capture::also_now(|| {
                self.populate()?;
                self.fill(constant(T::zeroed()))
            })?,
        }
        self.advise_as_chosen()
    }

    pub(super) fn write_elements(&mut self, elements: &[T]) -> Result<()> {
        self.populate()?;
        self.copy_from_host(elements)?;
        self.advise_as_chosen()
    }

    /// Makes managed pages resident on the device with one prefetch: a memset or copy would fault them in one by one.
    fn populate(&self) -> Result<()> {
        let device = self.device();
        if !device.capabilities().concurrent_managed_access
            || !self.raw.is_managed()
            // A block of a pool whose former buffer left its pages there.
            || !self.raw.may_be_away()
        {
            return Ok(());
        }
        self.as_view().prefetch(device)?.require()
    }

    /// Gives the advice of the access pattern, after the contents are written: a write to read-mostly memory that the host has as well, as
    /// the former buffer of a pool's block may have left it, faults on each page.
    pub(super) fn advise_as_chosen(&self) -> Result<()> {
        let chosen = self.raw.chosen;
        match chosen.and_then(|chosen| chosen.advice(self.device())) {
            Some(advice) => self.as_view().advise(advice)?.require(),
            None => Ok(()),
        }
    }
}

impl<T, K: Owned> Memory<T, K> {
    #[track_caller]
    pub(super) fn allocate_in(resource: &dyn MemoryResource, len: usize) -> Result<Self> {
        let kind = K::needed(resource.kind());
        if resource.kind() != kind {
            return Err(Error::InvalidArgument {
                what: "the memory resource",
                value: resource.kind().name().to_owned(),
                reason: format!("a {} needs {}", K::NAME, kind.name()),
            });
        }
        Self::made(resource.device(), len, |bytes| resource.allocate(bytes))
    }

    /// Makes a buffer of each of these ranges of elements, without a copy: each has an identifier, a name, uses and a lifetime of its own. The memory
    /// goes back when the last one is dropped.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// let buffer = cuda_um::DeviceBuffer::from_slice(&device, &[1.0f32, 2.0, 0.0, 3.0])?;
    /// let mut parts: Vec<_> = buffer.into_parts(&[0..2, 3..4])?.collect();
    /// parts[1].fill(4.0)?;
    /// assert_eq!((parts[0].to_vec()?, parts[1].to_vec()?), (vec![1.0, 2.0], vec![4.0]));
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// Work on a part is ordered after work on the buffer until now, and not after that on other parts.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], and [`Error::InvalidArgument`] for ranges that are not in order or overlap. The buffer is then dropped.
    pub fn into_parts(
        self,
        parts: &[Range<usize>],
    ) -> Result<impl Iterator<Item = Self> + use<T, K>> {
        let mut end = 0;
        let bytes = |part: &Range<usize>| {
            let part = range::check(part.clone(), self.len())?;
            if part.start < end {
                return Err(Error::InvalidArgument {
                    what: "the parts of a buffer",
                    value: format!("{part:?}"),
                    reason: format!("it begins before {end}, the end of the part before"),
                });
            }
            end = part.end;
            Ok(part.start * size_of::<T>()..part.end * size_of::<T>())
        };
        let bytes = parts.iter().map(bytes).collect::<Result<_>>()?;
        Ok(self.raw.into_parts(bytes).map(Self::of_raw))
    }

    /// Waits for the buffer's own work, frees the memory, and returns the error that a drop cannot return.
    ///
    /// # Errors
    ///
    /// The errors of the CUDA functions, including a failure of that work. The memory is then leaked.
    #[doc(alias = "cudaFree")]
    #[doc(alias = "cudaFreeHost")]
    pub fn close(self) -> Result<()> {
        self.raw.close().map(drop)
    }
}

impl<T: DeviceCopy, K: Owned> Memory<MaybeUninit<T>, K> {
    /// Converts the buffer to one whose elements are initialised.
    ///
    /// # Safety
    ///
    /// Every element is written before anything reads it: by the host, or by work that is enqueued before.
    pub unsafe fn assume_init(self) -> Memory<T, K> {
        Memory::of_raw(self.raw)
    }
}
