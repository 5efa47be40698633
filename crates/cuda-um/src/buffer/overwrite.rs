//! Replacing elements from the host without reading the old ones.
#![allow(
    unsafe_code,
    reason = "makes slices of chunks and buffers, and passes addresses to CUDA"
)]

use crate::DeviceCopy;
use crate::buffer::transfer::{Direction, Job, Piece, Staged, Transfers};
use crate::buffer::view::ViewMut;
use crate::context::op::{Op, What};
use crate::context::tracker::Access;
use crate::error::Result;
use crate::sync::assert_no_lock_held;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements that the closure of a buffer's `host_overwrite` must write, all of them and each once.
///
/// Their old values cannot be read. Both methods return the proof that all are written; a closure that does not return it does not compile:
///
/// ```compile_fail
/// # let device = cuda_um::Runtime::open().unwrap().device(0).unwrap();
/// let mut buffer = cuda_um::UnifiedBuffer::<u8>::zeroed(&device, 4).unwrap();
/// buffer.host_overwrite(.., |_, slots| drop(slots)).unwrap();
/// ```
pub struct Slots<'c, T> {
    slots: &'c mut [MaybeUninit<T>],
    _this: Brand<'c>,
}

/// The proof that all [`Slots`] of the same `'c` are written.
#[derive(Debug)]
pub struct Filled<'c> {
    _this: Brand<'c>,
}

/// Invariant, so that the proof of other slots does not fit.
type Brand<'c> = PhantomData<fn(&'c ()) -> &'c ()>;

impl<'c, T: Copy> Slots<'c, T> {
    /// Returns the number of elements to write.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if there are no elements to write.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Writes `make(0)`, `make(1)`, ….
    pub fn fill_with(self, mut make: impl FnMut(usize) -> T) -> Filled<'c> {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.write(make(index));
        }
        Filled { _this: PhantomData }
    }

    /// Writes a copy of `elements`.
    ///
    /// # Panics
    ///
    /// If `elements` has another length than the slots.
    pub fn copy_from_slice(self, elements: &[T]) -> Filled<'c> {
        assert_eq!(
            self.slots.len(),
            elements.len(),
            "as many elements as slots"
        );
        for (slot, element) in self.slots.iter_mut().zip(elements) {
            slot.write(*element);
        }
        Filled { _this: PhantomData }
    }
}

impl<T> std::fmt::Debug for Slots<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots")
            .field("len", &self.slots.len())
            .finish()
    }
}

/// Writes the elements of a view, which `make` counts from `first` on, in pieces on several threads. All closure calls have returned when this
/// returns; a copy to the device may still run.
pub(super) fn overwrite<T: DeviceCopy>(
    target: ViewMut<'_, T>,
    first: usize,
    make: impl for<'c> Fn(usize, Slots<'c, T>) -> Filled<'c> + Sync,
) -> Result<()> {
    target.raw.check_write()?;
    if target.is_empty() {
        return Ok(());
    }
    let fill = |piece: &Piece, into: &mut [u8]| {
        assert_no_lock_held("a closure of host_overwrite");
        let to = into.as_mut_ptr().cast::<MaybeUninit<T>>();
        // `to` points into a chunk of the ring, a vector, or the buffer.
        assert!(to.is_aligned(), "a piece is aligned for its elements");
        // SAFETY: the bytes, which are whole elements and borrowed exclusively.
        let slots = unsafe { std::slice::from_raw_parts_mut(to, into.len() / size_of::<T>()) };
        let _this = PhantomData;
        make(first + piece.at / size_of::<T>(), Slots { slots, _this });
        Ok(())
    };
    let view = target.into_view().into_bytes();
    let part = [view.part(Access::Write)];
    Op::new(What::Copy, view.device(), &part).run(("host_overwrite", true), |_| {
        let copy = Staged::new(Direction::ToDevice, std::ptr::null_mut(), &view);
        let options = Transfers::of(view.device().state()).options();
        let (threads, pieces) = options.pieces(&copy, size_of::<T>());
        let job = Job::new((copy.direction, copy.kind), &pieces, copy.bytes, &fill);
        // SAFETY: the pieces are of the view, which is borrowed exclusively.
        unsafe { job.run(&[view], false, threads) }
    })
}
