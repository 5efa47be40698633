//! What runs the models: loom, which tries the orders of their threads. Miri cannot run loom, so under Miri the models have the threads and the
//! locks of the standard library, and each runs once, in one order for each of Miri's seeds: Miri sees undefined behaviour in what the threads do.

#[cfg(not(miri))]
pub(crate) use loom::cell;

use crate::models::engine::{Engine, engine};

/// Tries every order.
pub(crate) fn model(model: impl Fn() + Sync + Send + 'static) {
    #[cfg(not(miri))]
    loom::model(move || once(&model));
    #[cfg(miri)]
    once(&model);
}

/// Tries every order in which a thread is preempted at most so many times in all, for a model with too many orders.
#[cfg(not(miri))]
pub(crate) fn preempted(times: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(times);
    builder.check(move || once(&model));
}

#[cfg(miri)]
pub(crate) fn preempted(_: usize, model: impl Fn() + Sync + Send + 'static) {
    once(&model);
}

fn once(model: &impl Fn()) {
    model();
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
