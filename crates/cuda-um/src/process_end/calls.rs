//! Counts, for each thread, the calls of CUDA that it is in.
//!
//! Every call counts, so the count must cost next to nothing: a thread writes only its own slot, without a fence. The thread that ends the
//! process pays instead: after it has marked the end, `membarrier` makes all threads pass a fence. A thread that read the mark too early
//! has written its count by then.

use super::may_call_beside;
use crate::error::Result;
use crate::fork;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence, fence};

/// The calls of one thread. A slot is never freed: when its thread ends, a later one takes it.
struct Slot {
    /// Twice the number of [`Calls`] that the thread holds, and [`LATE`]. Only the thread writes it.
    // The thread's own loads are relaxed. So is the store of a greater number, which `membarrier` publishes; every other store releases what the
    // calls have done.
    held: AtomicUsize,
    is_taken: AtomicBool,
    // Relaxed: written before the exchange that publishes the slot, and not after it. A later slot's exchange continues the release sequence.
    next: AtomicPtr<Slot>,
}

/// Set if the destructors of the thread's thread-locals run: the thread gives its slot back when it holds no [`Calls`].
const LATE: usize = 1;

/// All slots. Slots are only added, at the front.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());

thread_local!(
    /// The slot of this thread. It has no destructor, so that it works in the destructors of other thread-locals.
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    /// Gives the slot back when the thread ends.
    static LEAVE: Leave = const { Leave };
);

struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(slot) = SLOT.get() else { return };
        let held = slot.held.load(Ordering::Relaxed) | LATE;
        slot.held.store(held, Ordering::Release);
        slot.give_back_unused(held);
    }
}

impl Slot {
    /// Gives the slot of this thread back, if its thread ends and holds no [`Calls`].
    #[inline]
    fn give_back_unused(&self, held: usize) {
        if held == LATE {
            SLOT.set(None);
            self.held.store(0, Ordering::Release);
            self.is_taken.store(false, Ordering::Release);
        }
    }
}

/// While it lives, this thread may call CUDA and use its memory, and the end of the process waits for it.
#[must_use]
pub struct Calls {
    slot: &'static Slot,
    _on_this_thread: PhantomData<*const ()>,
}

impl Calls {
    /// Returns `None` if the process ends: then the thread must not call CUDA, and must not drop what calls CUDA in its drop. The thread that
    /// runs the exit handlers may.
    #[must_use]
    pub fn begin() -> Option<Self> {
        let begun = Self::count();
        // Either this sees the end, or the end sees the count.
        may_call_beside(1).then_some(begun)
    }

    /// Like [`fork::check`], for one call.
    ///
    /// # Errors
    ///
    /// The errors of [`fork::check`].
    #[inline]
    pub fn of(call: &'static str) -> Result<Self> {
        let begun = Self::count();
        match fork::may_call() {
            true => Ok(begun),
            false => begun.refused(call),
        }
    }

    #[cold]
    fn refused(self, call: &'static str) -> Result<Self> {
        drop(self);
        fork::check(call)?;
        Ok(Self::count())
    }

    #[inline]
    fn count() -> Self {
        let slot = SLOT.get().unwrap_or_else(take);
        slot.held
            .store(slot.held.load(Ordering::Relaxed) + 2, Ordering::Relaxed);
        // The count is written before the mark is read. The processor's part is that of `membarrier`.
        compiler_fence(Ordering::SeqCst);
        Self {
            slot,
            _on_this_thread: PhantomData,
        }
    }
}

impl Drop for Calls {
    #[inline]
    fn drop(&mut self) {
        // What the thread did with CUDA's memory is done before the count says so.
        let held = self.slot.held.load(Ordering::Relaxed) - 2;
        self.slot.held.store(held, Ordering::Release);
        self.slot.give_back_unused(held);
    }
}

/// The number of [`Calls`] that this thread holds.
pub(super) fn held() -> usize {
    SLOT.get()
        .map_or(0, |slot| slot.held.load(Ordering::Relaxed) / 2)
}

/// Takes a slot for this thread.
#[cold]
fn take() -> &'static Slot {
    // Registers the destructor; fails if it has run.
    let is_late = LEAVE.try_with(|_| ()).is_err();
    let slot = slots().find(|slot| !slot.is_taken.swap(true, Ordering::SeqCst));
    let slot = slot.unwrap_or_else(add);
    slot.held
        .store(LATE * usize::from(is_late), Ordering::Release);
    SLOT.set(Some(slot));
    // The slot is taken before the mark is read: `are_other_threads`.
    fence(Ordering::SeqCst);
    slot
}

/// Adds a slot, which is taken.
fn add() -> &'static Slot {
    let slot: &'static Slot = Box::leak(Box::new(Slot {
        held: AtomicUsize::new(0),
        is_taken: AtomicBool::new(true),
        next: AtomicPtr::new(SLOTS.load(Ordering::SeqCst)),
    }));
    let address = std::ptr::from_ref(slot).cast_mut();
    while let Err(first) = {
        let next = slot.next.load(Ordering::Relaxed);
        SLOTS.compare_exchange(next, address, Ordering::SeqCst, Ordering::SeqCst)
    } {
        slot.next.store(first, Ordering::Relaxed);
    }
    slot
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: each pointer is null or a slot, and slots are never freed.
    let slot = |pointer: *mut Slot| unsafe { pointer.as_ref() };
    std::iter::successors(slot(SLOTS.load(Ordering::SeqCst)), move |before| {
        slot(before.next.load(Ordering::Relaxed))
    })
}

fn slots_of_others() -> impl Iterator<Item = &'static Slot> {
    let own = SLOT.get();
    slots().filter(move |slot| !own.is_some_and(|own| std::ptr::eq(own, *slot)))
}

/// Returns true if another thread has called CUDA and lives.
#[cfg(not(miri))]
pub(super) fn are_other_threads() -> bool {
    slots_of_others().any(|slot| slot.is_taken.load(Ordering::SeqCst))
}

/// Returns true if another thread holds [`Calls`].
#[cfg(not(miri))]
pub(super) fn are_others_held() -> bool {
    slots_of_others().any(|slot| slot.held.load(Ordering::Acquire) > LATE)
}

/// A child made by `fork` has only the thread that called `fork`. Runs in the child before any other code, so it only writes atomics,
/// which may be relaxed.
#[cfg(all(unix, not(miri)))]
pub(crate) fn in_child() {
    for slot in slots_of_others() {
        slot.held.store(0, Ordering::Relaxed);
        slot.is_taken.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(cuda_um_loom), not(miri)))]
mod tests {
    use super::*;

    /// Calls CUDA in a destructor of a thread-local, before or after the thread gives its slot back.
    struct Late;

    impl Drop for Late {
        fn drop(&mut self) {
            assert!(Calls::begin().is_some());
        }
    }

    thread_local!(
        static BEFORE: Late = const { Late };
        static AFTER: Late = const { Late };
    );

    #[test]
    fn threads_that_end_give_their_slots_back() {
        const THREADS: usize = 200;
        let before = slots().count();
        for _ in 0..THREADS {
            let thread = std::thread::spawn(|| {
                BEFORE.with(|_| ());
                let outer = Calls::begin();
                drop(Calls::begin());
                assert_eq!(held(), 1);
                drop(outer);
                AFTER.with(|_| ());
            });
            thread.join().unwrap();
        }
        // Other tests have threads, too.
        assert!(slots().count() < before + THREADS / 2);
    }
}
