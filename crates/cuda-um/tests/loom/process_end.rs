//! The end of the process waits for each call that did not see its mark.

#[allow(clippy::duplicate_mod, reason = "here with loom's atomics")]
#[path = "../../src/process_end/count.rs"]
mod count;

use crate::models::checker::{self, cell::UnsafeCell};
use crate::sync::{atomic, thread};
use count::Count;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The mark, the counter of two threads, and what each of them uses in its calls.
struct Process(atomic::AtomicBool, Count, [UnsafeCell<()>; 2]);

#[allow(unsafe_code, reason = "shares cells")]
// SAFETY: loom and Miri find each use of a cell that is not alone.
unsafe impl Sync for Process {}

#[test]
fn the_end_waits_for_each_call_that_did_not_see_it() {
    checker::model(|| {
        let count = Count(atomic::AtomicUsize::new(0));
        let mark = atomic::AtomicBool::new(false);
        // loom has one order only of what was stored `SeqCst`.
        mark.store(false, Ordering::SeqCst);
        count.0.store(0, Ordering::SeqCst);
        let process = Arc::new(Process(mark, count, [(), ()].map(UnsafeCell::new)));
        let threads = [0, 1].map(|caller| {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                let Process(mark, count, used) = &*process;
                count.begin();
                if !mark.load(Ordering::SeqCst) {
                    used[caller].with_mut(|_| ());
                }
                count.end();
            })
        });
        let Process(mark, count, used) = &*process;
        mark.store(true, Ordering::SeqCst);
        while count.is_held() {
            thread::yield_now();
        }
        used.iter().for_each(|used| used.with_mut(|_| ()));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
