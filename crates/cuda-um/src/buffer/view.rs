//! Views: parts of buffers.
#![allow(unsafe_code, reason = "divides exclusive borrows")]

use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::{DeviceCopy, element, range};
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};

/// A range of a buffer's elements, to be read: an argument of kernels, the source of copies, a slice for the host.
///
/// It has the methods of the buffers that read; index 0 is its first element. The view is `Copy`.
pub struct View<'a, T> {
    // Covariant in `'a` and `T`, as `&'a [T]`.
    pub(crate) raw: &'a Allocation,
    /// The first byte in the buffer.
    pub(super) start: usize,
    pub(super) len: usize,
    _elements: PhantomData<&'a [T]>,
}

/// A range of a buffer's elements, to be read and written.
///
/// It has the methods of the buffers; index 0 is its first element. Disjoint parts of one buffer can be used at the same time, on several threads
/// or in one launch. Their work is a use of the whole buffer: host guards, copies and work on another stream wait for work on other parts, too.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::UnifiedBuffer;
///
/// let stream = device.create_stream()?;
/// let mut storage = UnifiedBuffer::<f32>::zeroed(&device, 100)?;
/// let (mut weights, mut bias) = storage.as_view_mut().split_at(90)?;
/// weights.fill_on(0.5, &stream)?;
/// bias.copy_from_host(&[1.0; 10])?;
/// stream.copy(&weights.as_view().slice(..10)?, &mut bias)?;
/// assert_eq!(*bias.host()?, [0.5; 10]);
/// # Ok::<(), cuda_um::Error>(())
/// ```
pub struct ViewMut<'a, T> {
    // Covariant in `'a` and invariant in `T`, as `&'a mut [T]`.
    pub(crate) raw: &'a Allocation,
    /// The first byte in the buffer.
    start: usize,
    len: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<'a, T> View<'a, T> {
    #[inline]
    pub(crate) fn whole(raw: &'a Allocation) -> Self {
        Self::of_part(raw, 0, raw.bytes() / size_of::<T>())
    }

    /// Returns the view itself.
    pub fn as_view(&self) -> Self {
        *self
    }
}

impl<'a, T> ViewMut<'a, T> {
    #[inline]
    pub(crate) fn whole(raw: &'a mut Allocation) -> Self {
        Self::of_part(raw, 0, raw.bytes() / size_of::<T>())
    }

    /// Returns a view that only reads, while this view is borrowed.
    pub fn as_view(&self) -> View<'_, T> {
        View::of_part(self.raw, self.start, self.len)
    }

    /// Converts the view to one that only reads.
    pub fn into_view(self) -> View<'a, T> {
        View::of_part(self.raw, self.start, self.len)
    }

    /// Returns the same view, while this one is borrowed.
    pub fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::of_part(self.raw, self.start, self.len)
    }

    /// Returns a part of the view, while the view is borrowed.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        self.as_view_mut().slice(range)
    }

    /// Returns an argument that one launch may take several times: elements that the kernel reads as its input and writes as its output.
    ///
    /// It is for kernels in which a thread reads an element before it writes the same one, and no other thread uses that element.
    ///
    /// ```no_run
    /// # let device = cuda_um::Runtime::open()?.device(0)?;
    /// # let square = cuda_um::Module::load(&device, "")?.kernel("square")?;
    /// use cuda_um::{LaunchConfig, UnifiedBuffer};
    ///
    /// let mut data = UnifiedBuffer::<f32>::zeroed(&device, 1000)?;
    /// let both = data.as_view_mut().in_place();
    /// // SAFETY: the kernel takes an input, an output and a count; thread i reads element i of the input, then writes element i of the output.
    /// unsafe { square.launch(&device.create_stream()?, LaunchConfig::linear(1000, 256), (both, both, 1000u32))? };
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    pub fn in_place(self) -> InPlace<'a, T> {
        InPlace {
            view: self.into_view(),
            _on_this_thread: PhantomData,
        }
    }

    /// Returns the address of the first element, for the host and, if the memory is mapped there, for the device.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.address().cast()
    }
}

/// Elements that one launch may take as several arguments, which it reads and writes: [`ViewMut::in_place`].
///
/// All copies of it are arguments of one launch. It stays on its thread, so that no other launch begins meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct InPlace<'a, T> {
    // Covariant in `'a` and `T`: it gives no element out, and comes only from a `ViewMut`.
    /// Not given out: code that only reads must not use it.
    view: View<'a, T>,
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a, T> InPlace<'a, T> {
    /// The buffer, the range of its bytes, and their use: beside that by other arguments of the launch, which may be the same elements.
    pub(crate) fn raw_part(&self) -> (&'a Allocation, Range<usize>, Access) {
        (self.view.raw, self.view.bytes(), Access::WritePart)
    }
}

macro_rules! view {
    ($view:ident) => {
        impl<'a, T> $view<'a, T> {
            #[inline]
            fn of_part(raw: &'a Allocation, start: usize, len: usize) -> Self {
                Self {
                    raw,
                    start,
                    len,
                    _elements: PhantomData,
                }
            }

            /// Makes a second view of the same elements.
            ///
            /// # Safety
            ///
            /// The caller uses only one of the two at a time, or only disjoint parts of them.
            pub(crate) unsafe fn duplicate<'b>(&self) -> $view<'b, T>
            where
                'a: 'b,
            {
                $view::of_part(self.raw, self.start, self.len)
            }

            /// Divides the view in two disjoint parts, before element `mid`. Both parts can be arguments of one launch.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`] if `mid` exceeds the length.
            pub fn split_at(self, mid: usize) -> Result<(Self, Self)> {
                // SAFETY: the two parts are disjoint, and the view itself ends here.
                let first = unsafe { self.duplicate() };
                Ok((first.slice(..mid)?, self.slice(mid..)?))
            }

            /// Returns the kind of the buffer's memory: [`MemoryKind::Pinned`] also for registered memory and without elements.
            pub fn kind(&self) -> MemoryKind {
                self.raw.kind()
            }

            /// Returns the kind of the buffer's memory in words, with the reason if the library selected it: for errors.
            pub fn kind_in_words(&self) -> String {
                self.raw.kind_in_words()
            }

            /// Returns the buffer's identifier, which errors and traces use.
            pub fn buffer_id(&self) -> u64 {
                self.raw.id()
            }

            /// Returns a part of the view. Index 0 is the view's first element.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`].
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let part = range::check(range, self.len)?;
                Ok(self.part_of_checked(&part))
            }

            #[inline]
            pub(crate) fn slice_at(self, offset: usize, count: usize) -> Result<Self> {
                let part = range::check_at(offset, count, self.len)?;
                Ok(self.part_of_checked(&part))
            }

            #[inline]
            fn part_of_checked(self, part: &Range<usize>) -> Self {
                let start = self.start + range::to_bytes::<T>(part).start;
                Self::of_part(self.raw, start, part.len())
            }

            pub(crate) fn address(&self) -> *mut u8 {
                self.raw.pointer().as_ptr().wrapping_add(self.start)
            }

            pub(crate) fn bytes(&self) -> Range<usize> {
                self.start..self.start + self.size_bytes()
            }

            pub(crate) fn part(&self, access: Access) -> Part<'a> {
                self.raw.part_of(self.bytes(), access)
            }
        }

        impl<'a, T: DeviceCopy> $view<'a, T> {
            /// Returns the same bytes as elements of another type. Every bit pattern is a value of every [`DeviceCopy`].
            ///
            /// # Errors
            ///
            /// [`Error::InvalidArgument`] if the view's size is no multiple of the element size, or if its address is not aligned for the
            /// type.
            #[doc(alias = "reinterpret")]
            #[doc(alias = "bitcast")]
            pub fn cast<U: DeviceCopy>(self) -> Result<$view<'a, U>> {
                check_cast::<T, U>(self.as_view())?;
                let len = self.size_bytes() / size_of::<U>();
                Ok($view::of_part(self.raw, self.start, len))
            }

            pub(crate) fn into_bytes(self) -> $view<'a, u8> {
                $view::of_part(self.raw, self.start, self.size_bytes())
            }
        }

        debug!([T] $view<'_, T>, stringify!($view), |it| buffer: it.raw.id(), bytes: it.bytes(), len: it.len);
    };
}
view!(View);
view!(ViewMut);

fn check_cast<T: DeviceCopy, U: DeviceCopy>(view: View<'_, T>) -> Result<()> {
    const { element::assert_element::<U>() };
    let (bytes, width, alignment) = (view.size_bytes(), size_of::<U>(), align_of::<U>());
    let reason = if !bytes.is_multiple_of(width) {
        format!("the view has {bytes} bytes, which is no multiple of {width}")
    } else if bytes > 0 && !view.address().addr().is_multiple_of(alignment) {
        format!(
            "the view begins at byte {} of buffer {}, at address {:p}, and the alignment is {alignment}",
            view.start,
            view.raw.id(),
            view.address()
        )
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument {
        what: "the element type of a view",
        value: std::any::type_name::<U>().to_owned(),
        reason,
    })
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}
