//! Tells calls of the simulator apart from the program.

use std::cell::Cell;

thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });

/// A call, until this is dropped.
pub(super) struct InCall(());

/// A call of the simulator begins on this thread.
pub(super) fn begin() -> InCall {
    // A thread that ends has no count.
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    InCall(())
}

impl Drop for InCall {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
    }
}

/// Whether this thread is inside a CUDA function of the simulator.
///
/// A global allocator that counts the allocations of a program uses it to leave out those of the simulator: it takes no lock and allocates
/// nothing.
pub fn is_in_call() -> bool {
    DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0)
}
