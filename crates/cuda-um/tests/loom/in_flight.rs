//! The in-flight tracker: enqueued work comes after all work that it must not overlap.

use crate::checker::thread;
use crate::context::stream::StreamInner;
use crate::context::tracker::{Access, InFlight};
use std::sync::Arc;

/// What `memory::access::enqueue` does: order, work, number, note. The number of the work comes out.
fn enqueue(buffer: &InFlight, stream: &Arc<StreamInner>, access: Access) -> u64 {
    buffer.order(stream, access).unwrap();
    let seq = stream.number();
    buffer.record(stream, seq, access);
    seq
}

fn streams() -> [Arc<StreamInner>; 3] {
    Default::default()
}

#[test]
fn a_write_comes_after_reads_that_threads_enqueued_at_a_time() {
    crate::checker::model(|| {
        let [first, second, third] = streams();
        let buffer = Arc::new(InFlight::default());
        let written = enqueue(&buffer, &third, Access::Write);
        let (its, on) = (Arc::clone(&buffer), Arc::clone(&second));
        let reader = thread::spawn(move || {
            let seq = enqueue(&its, &on, Access::Read);
            // The device may come to its end meanwhile, and the host prune what is done.
            on.runs_to(seq);
            its.prune();
            seq
        });
        let here = enqueue(&buffer, &first, Access::Read);
        let there = reader.join().unwrap();
        assert!(first.comes_after(&third, written) && second.comes_after(&third, written));
        // `&mut`: no other thread has the buffer.
        enqueue(&buffer, &third, Access::Write);
        assert!(third.comes_after(&first, here), "a read beside the write");
        assert!(third.comes_after(&second, there), "a read beside the write");
    });
}

#[test]
fn a_read_comes_after_a_move_of_another_thread() {
    crate::checker::model(|| {
        let [first, second, third] = streams();
        let buffer = Arc::new(InFlight::default());
        let (its, on) = (Arc::clone(&buffer), Arc::clone(&first));
        // One stream, two threads: the later number must stay.
        let mover = thread::spawn(move || enqueue(&its, &on, Access::Move));
        let read = enqueue(&buffer, &first, Access::Read);
        let moved = mover.join().unwrap();
        enqueue(&buffer, &second, Access::Read);
        assert!(second.comes_after(&first, moved), "a read beside the move");
        enqueue(&buffer, &third, Access::Write);
        assert!(third.comes_after(&first, read.max(moved)), "both are over");
        assert_eq!(buffer.before(Access::Write).len(), 1, "the write alone");
    });
}

#[test]
fn the_next_owner_of_memory_comes_after_the_former_ones_work() {
    crate::checker::model(|| {
        let [first, second, third] = streams();
        let mut former = InFlight::default();
        let written = enqueue(&former, &first, Access::Write);
        let read = enqueue(&former, &second, Access::Read);
        // The device goes on while the block changes hands.
        let runs = Arc::clone(&first);
        let device = thread::spawn(move || runs.runs_to(written));
        let left = former.take();
        let next = InFlight::default();
        if let Some(left) = left {
            next.inherit(&left);
        }
        enqueue(&next, &third, Access::Write);
        assert!(third.comes_after(&first, written) && third.comes_after(&second, read));
        device.join().unwrap();
    });
}
