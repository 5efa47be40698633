//! Tests of the reclaim thread: waits for it, and panics that must not end it. `tests/loom` tries every interleaving of threads.

use crate::context::reclaim::{Deferred, Reclaim};
use crate::error::Result;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use watchdog::watch;

// cuda-um-testkit has the same file, but is in no package.
#[allow(dead_code, reason = "these tests use one function of it")]
#[path = "../../tests/support/watchdog.rs"]
mod watchdog;

fn entry(release: impl FnOnce() -> Result<()> + Send + 'static) -> Deferred {
    Deferred {
        uses: Default::default(),
        what: "of a test".to_owned(),
        release: Box::new(release),
    }
}

fn reclaim() -> Arc<Reclaim> {
    Arc::new(Reclaim::default())
}

#[test]
fn flush_does_not_wait_for_what_is_added_meanwhile() {
    let _watchdog = watch();
    // Each entry adds the next one before it is released, so one is always pending until the flush has returned.
    fn add(reclaim: &Arc<Reclaim>, is_over: &Arc<AtomicBool>) {
        let (its, over) = (Arc::clone(reclaim), Arc::clone(is_over));
        reclaim.defer(entry(move || {
            if !over.load(Ordering::Acquire) {
                add(&its, &over);
            }
            Ok(())
        }));
    }
    let (reclaim, is_over) = (reclaim(), Arc::default());
    add(&reclaim, &is_over);
    reclaim.flush();
    assert!(reclaim.released() > 0);
    is_over.store(true, Ordering::Release);
    reclaim.flush();
}

#[test]
fn flush_waits_for_all_that_was_pending() {
    let _watchdog = watch();
    let (reclaim, released) = (reclaim(), Arc::new(AtomicUsize::new(0)));
    for round in 1..=200 {
        for _ in 0..round % 5 {
            let released = Arc::clone(&released);
            reclaim.defer(entry(move || {
                std::thread::yield_now();
                released.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }));
        }
        reclaim.flush();
        let deferred = (1..=round).map(|round| round % 5).sum::<usize>();
        assert_eq!(released.load(Ordering::Acquire), deferred);
    }
}

#[test]
fn no_panic_ends_the_thread_or_leaves_a_count_behind() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor, on purpose");
        }
    }
    let _watchdog = watch();
    let (reclaim, freed) = (reclaim(), Arc::new(AtomicUsize::new(0)));
    for round in 1..=3 {
        reclaim.defer(entry(|| panic!("on purpose")));
        // The handler that catches this panic must not drop its payload.
        reclaim.defer(entry(|| panic_any(Bomb)));
        // The released resource panics when it is dropped.
        let bomb = Bomb;
        reclaim.defer(entry(move || {
            let _bomb = bomb;
            Ok(())
        }));
        let its = Arc::clone(&freed);
        reclaim.defer(entry(move || {
            its.fetch_add(1, Ordering::AcqRel);
            Ok(())
        }));
        reclaim.flush();
        assert_eq!(freed.load(Ordering::Acquire), round);
        assert_eq!(reclaim.released(), 4 * round as u64);
        let error = reclaim.take_error().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("panic")));
    }
}

#[test]
fn the_thread_does_not_wait_for_itself() {
    let _watchdog = watch();
    let reclaim = reclaim();
    let its = Arc::downgrade(&reclaim);
    reclaim.defer(entry(move || {
        // A subscriber may do the same if it allocates and the allocation is refused.
        its.upgrade().iter().for_each(|reclaim| _ = reclaim.flush());
        Ok(())
    }));
    reclaim.flush();
    assert_eq!(reclaim.released(), 1);
}

#[test]
fn others_give_way_to_a_wait_for_a_moment_only() {
    let _watchdog = watch();
    let reclaim = reclaim();
    let (sender, receiver) = std::sync::mpsc::channel();
    let its = Arc::downgrade(&reclaim);
    reclaim.defer(entry(move || {
        receiver.recv().unwrap();
        // The reclaim thread gives way to no thread, because all wait for it.
        its.upgrade().iter().for_each(|reclaim| reclaim.give_way());
        Ok(())
    }));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| reclaim.flush());
        let start = Instant::now();
        // Longer than a flush takes before other threads give way to it. This loop ends although that flush does not.
        while start.elapsed() < Duration::from_millis(200) {
            reclaim.give_way();
        }
        assert!(!waits.is_finished());
        sender.send(()).unwrap();
    });
    assert_eq!(reclaim.released(), 1);
}
