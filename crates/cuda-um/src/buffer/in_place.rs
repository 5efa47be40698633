//! One buffer as input and output of one launch.

use crate::buffer::view::{View, ViewMut};
use crate::context::tracker::Access;
use crate::resource::allocation::Allocation;
use std::marker::PhantomData;
use std::ops::Range;

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

impl<'a, T> ViewMut<'a, T> {
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
}
