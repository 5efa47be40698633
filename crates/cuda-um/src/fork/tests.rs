//! Tests of objects that a child made by `fork` inherits from its parent: they take no lock, make no CUDA call, and leave no trace when
//! they are dropped.
//!
//! The tests only simulate the child (`as_child`), so that they detect a lock even if no thread holds it. `tests/fork.rs` forks processes.

mod drops;
mod functions;

use crate::fork::as_child;
use crate::{Device, Runtime, Stream};
use cuda_um_sim::{Gpu, Sim};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::{Event, Metadata, span};

/// Returns a simulated device of this generation, and a stream on it.
fn simulated(gpu: Gpu) -> (Sim, Device, Stream) {
    let sim = Sim::builder().gpu(gpu).build().unwrap();
    let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
    let stream = device.create_stream().unwrap();
    (sim, device, stream)
}

/// Runs `body` as a child would, and checks that it makes no CUDA call.
fn without_cuda<R>(sim: &Sim, body: impl FnOnce() -> R) -> R {
    let before = sim.trace().len();
    let result = as_child(body);
    assert_eq!(&sim.trace()[before..], &[], "a child calls CUDA");
    result
}

/// Drops a value as a child would, and checks that it makes no CUDA call and sends no event: a refused call would send one.
fn gone_without_a_trace(sim: &Sim, what: impl Sized) {
    let said = Said::default();
    tracing::subscriber::with_default(said.clone(), || without_cuda(sim, || drop(what)));
    assert_eq!(said.0.load(Ordering::Relaxed), 0, "events of a drop");
}

/// Counts events.
#[derive(Clone, Default)]
struct Said(Arc<AtomicUsize>);

impl tracing::Subscriber for Said {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
