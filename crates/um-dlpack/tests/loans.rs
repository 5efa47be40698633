//! Every order in which threads export, end exports, and wait for them: `src/loans.rs` with loom's atomics.
#![allow(missing_docs, reason = "a test")]

use loom::sync::Arc;
use loom::thread;

mod atomic {
    pub(crate) use loom::sync::atomic::*;
}
#[path = "../src/loans.rs"]
mod loans;

use atomic::{AtomicUsize, Ordering::SeqCst};
use loans::Loans;

/// A storage, and the work of a consumer: pieces that are enqueued, and those that are done.
#[derive(Default)]
struct Storage {
    loans: Loans,
    enqueued: AtomicUsize,
    done: AtomicUsize,
}

impl Storage {
    fn enqueue(&self) {
        self.enqueued.fetch_add(1, SeqCst);
    }

    /// Before the host reads. The device does all work as late as it may.
    fn settle(&self) {
        let wait = || {
            let enqueued = self.enqueued.load(SeqCst);
            self.done.fetch_max(enqueued, SeqCst);
            Ok::<(), ()>(())
        };
        self.loans.settle(wait).unwrap();
    }

    fn done(&self) -> usize {
        self.done.load(SeqCst)
    }
}

#[test]
fn each_of_two_readers_waits() {
    loom::model(|| {
        let storage = Arc::new(Storage::default());
        storage.loans.begin();
        storage.enqueue();
        storage.loans.end();
        let other = Arc::clone(&storage);
        let reader = thread::spawn(move || {
            other.settle();
            assert_eq!(other.done(), 1, "a read beside the consumer's work");
        });
        storage.settle();
        assert_eq!(storage.done(), 1, "a read beside the consumer's work");
        reader.join().unwrap();
        assert!(!storage.loans.is_unsettled());
    });
}

#[test]
fn work_that_is_enqueued_during_a_wait_is_waited_for_later() {
    loom::model(|| {
        let storage = Arc::new(Storage::default());
        storage.loans.begin();
        let consumer = Arc::clone(&storage);
        let consumer = thread::spawn(move || {
            consumer.enqueue();
            consumer.loans.end();
        });
        storage.settle();
        consumer.join().unwrap();
        assert!(!storage.loans.is_live());
        storage.settle();
        assert_eq!(storage.done(), 1, "a read beside the consumer's work");
    });
}

#[test]
fn a_new_export_is_unsettled_whatever_runs_beside_it() {
    loom::model(|| {
        let storage = Arc::new(Storage::default());
        storage.loans.begin();
        storage.loans.end();
        let exporter = Arc::clone(&storage);
        let exporter = thread::spawn(move || {
            exporter.loans.begin();
            exporter.enqueue();
            exporter.loans.end();
        });
        storage.settle();
        exporter.join().unwrap();
        storage.settle();
        assert_eq!(storage.done(), 1, "a read beside the consumer's work");
    });
}

#[test]
fn while_an_export_lives_each_use_waits() {
    loom::model(|| {
        let storage = Storage::default();
        storage.loans.begin();
        for piece in 1..=2 {
            storage.enqueue();
            storage.settle();
            assert_eq!(storage.done(), piece);
            assert!(storage.loans.is_unsettled());
        }
    });
}
