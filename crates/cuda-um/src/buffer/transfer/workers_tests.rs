//! Tests of the helper threads in one real order; `tests/loom` checks every order.

use crate::buffer::transfer::workers::Workers;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_number_runs_at_most_once_and_nobody_stays() {
    let workers = Workers::new();
    for round in 0..crate::cases::cases(500).max(6) as usize {
        let count = round % 6;
        let seen: Vec<AtomicUsize> = (0..count.max(1)).map(|_| AtomicUsize::new(0)).collect();
        let pieces = AtomicUsize::new(0);
        workers.run(count, &|number| {
            seen[number].fetch_add(1, Ordering::Relaxed);
            while pieces.fetch_add(1, Ordering::Relaxed) < 50 {
                std::hint::spin_loop();
            }
        });
        assert_eq!(seen[0].load(Ordering::Relaxed), 1);
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) <= 1));
        assert_eq!(workers.running(), 0);
    }
}

#[test]
fn helpers_really_help() {
    let workers = Workers::new();
    let joined = AtomicUsize::new(0);
    // Returns only if another thread comes.
    workers.run(3, &|_| {
        joined.fetch_add(1, Ordering::AcqRel);
        while joined.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
    });
    assert_eq!(joined.into_inner(), 3);
}

#[test]
fn a_panic_comes_out_when_all_have_left() {
    let workers = Workers::new();
    for worker in 0..2 {
        let here = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            workers.run(2, &|number| {
                here.fetch_add(1, Ordering::AcqRel);
                while here.load(Ordering::Acquire) < 2 {
                    std::thread::yield_now();
                }
                assert_ne!(number, worker, "on purpose");
            });
        }));
        assert!(outcome.is_err());
        workers.run(2, &|_| {});
    }
}
