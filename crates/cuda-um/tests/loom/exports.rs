//! Exports: work of other libraries, and the fences after it.

use crate::context::op::Op;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::{Access, Finished};
use crate::models::checker::model;
use crate::models::machine::{comes_after, device_of, work};
use crate::resource::allocation::Allocation;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::separate::DeviceMemory;
use crate::sync::thread;
use std::sync::Arc;

/// The other library's work.
const THEIRS: usize = 1;

/// A buffer that another library has.
struct Lent {
    buffer: Arc<Allocation>,
    unknown: Arc<StreamInner>,
    ours: Stream,
    theirs: Stream,
}

impl Lent {
    fn new() -> Self {
        let device = device_of(1 << 10);
        let buffer = Arc::new(DeviceMemory::new(&device).allocate(1).unwrap());
        let unknown = StreamInner::unknown(device.state());
        let uses = &buffer.in_flight;
        uses.record(&unknown, u64::MAX, Access::WritePart, &mut Finished::new());
        Self {
            buffer,
            unknown,
            ours: device.create_stream().unwrap(),
            theirs: device.create_stream().unwrap(),
        }
    }

    /// Reads on our stream.
    fn read(&self) {
        let part = [self.buffer.part_of(0..self.buffer.bytes(), Access::Read)];
        let op = Op::with_host(part[0].device(), &part);
        self.ours.submit(&op, |_| work(&self.ours, 2)).unwrap();
    }

    /// All work is done, so the buffer is freed at once.
    fn ends(&self) {
        self.ours.device().synchronize().unwrap();
    }
}

/// Before the end of the export, while it ends, or after it; by a fence, or by a wait for the device.
fn work_comes_after(has_fence: bool) {
    model(move || {
        let lent = Lent::new();
        let (buffer, unknown) = (Arc::clone(&lent.buffer), Arc::clone(&lent.unknown));
        let theirs = lent.theirs.clone();
        let other = thread::spawn(move || {
            work(&theirs, THEIRS).unwrap();
            let fence = if has_fence { theirs.inner() } else { &unknown };
            let fence = (fence, fence.number());
            buffer.in_flight.settle(&unknown, fence, Access::WritePart);
        });
        lent.read();
        other.join().unwrap();
        lent.read();
        assert!(comes_after(&lent.ours, THEIRS), "a read beside their write");
        // A wait was enough.
        assert!(has_fence || lent.unknown.is_known_idle());
        lent.ends();
    });
}

/// claim 13
#[test]
fn work_comes_after_the_fence_of_an_export() {
    work_comes_after(true);
}

/// claim 13
#[test]
fn work_waits_for_the_device_after_an_export_without_a_fence() {
    work_comes_after(false);
}
