//! What runs the models: loom, which tries the orders of their threads. Miri cannot run loom, so under Miri the models have the threads and the
//! locks of the standard library, and each runs once, in one order for each of Miri's seeds: Miri sees undefined behaviour in what the threads do.

#[cfg(not(miri))]
pub(crate) use loom::cell;

use crate::models::engine::{Engine, engine};

/// Tries every order.
#[cfg(not(miri))]
pub(crate) fn model(model: impl Fn() + Sync + Send + 'static) {
    check(None, model);
}

/// Tries every order in which a thread is preempted at most so many times in all: without a limit there are millions.
#[cfg(not(miri))]
pub(crate) fn preempted(times: usize, model: impl Fn() + Sync + Send + 'static) {
    check(Some(times), model);
}

#[cfg(not(miri))]
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = count.clone();
    let start = std::time::Instant::now();
    builder.check(move || {
        let n = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if n % 20000 == 19999 {
            eprintln!(
                "{:?} {n} {:?}",
                std::thread::current().name(),
                start.elapsed()
            );
        }
        model();
        assert_eq!(engine(Engine::misuse), None);
    });
    eprintln!(
        "{:?}: {} in {:?}",
        std::thread::current().name(),
        count.load(std::sync::atomic::Ordering::Relaxed),
        start.elapsed()
    );
}

#[cfg(miri)]
pub(crate) fn preempted(_: usize, body: impl Fn() + Sync + Send + 'static) {
    body();
    assert_eq!(engine(Engine::misuse), None);
}

#[cfg(miri)]
pub(crate) fn model(body: impl Fn() + Sync + Send + 'static) {
    body();
    assert_eq!(engine(Engine::misuse), None);
}

/// A cell with loom's interface: Miri itself sees whether two threads are at it.
#[cfg(miri)]
pub(crate) mod cell {
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, body: impl FnOnce(*mut T) -> R) -> R {
            body(self.0.get())
        }
    }
}
