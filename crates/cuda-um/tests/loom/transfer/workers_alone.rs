//! The threads that stage copies: no thread works when the call has returned.

use crate::buffer::transfer::workers::Workers;
use crate::models::checker::cell::UnsafeCell;
use crate::models::checker::model;

/// Memory of the caller's, which is its own again when `run` has returned.
struct Lent(UnsafeCell<usize>);

#[allow(unsafe_code, reason = "loom looks whether it is used at a time")]
// SAFETY: loom ends the model if it is not so.
unsafe impl Sync for Lent {}

#[test]
fn nobody_is_at_it_when_the_work_has_returned() {
    model(|| {
        let workers = Workers::default();
        for _ in 0..2 {
            let lent = [Lent(UnsafeCell::new(0)), Lent(UnsafeCell::new(0))];
            #[allow(unsafe_code, reason = "loom checks these")]
            workers.run(2, &|number| {
                // SAFETY: each number is given out once; loom ends the model if not.
                lent[number].0.with_mut(|times| unsafe { *times += 1 });
            });
            #[allow(unsafe_code, reason = "loom checks these")]
            let times = lent.map(|lent| {
                // SAFETY: the threads have ended their uses. Loom reports a use that has not ended.
                lent.0.with_mut(|times| unsafe { *times })
            });
            assert!(times[0] == 1 && times[1] <= 1, "{times:?}");
        }
    });
}
