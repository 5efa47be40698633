//! The in-flight tracker: enqueued work comes after all work that it must not overlap.

use crate::context::op::Op;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::models::checker::{model, preempted};
use crate::models::machine::{comes_after, device_of, work};
use crate::resource::allocation::Allocation;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::separate::DeviceMemory;
use crate::sync::thread;
use std::sync::Arc;

/// Three streams, and buffers.
struct Machine {
    memory: DeviceMemory,
    streams: [Stream; 3],
}

impl Machine {
    fn new() -> Self {
        let device = device_of(1 << 10);
        Self {
            memory: DeviceMemory::new(&device),
            streams: [(); 3].map(|()| device.create_stream().unwrap()),
        }
    }

    fn buffer(&self) -> Allocation {
        self.memory.allocate(1).unwrap()
    }

    /// All work is done, so buffers that are dropped are freed at once.
    fn ends(&self) {
        self.streams[0].device().synchronize().unwrap();
    }
}

/// Enqueues the work with this number, which uses the buffer.
fn enqueue(buffer: &Allocation, stream: &Stream, access: Access, number: usize) {
    let part = [buffer.part_of(0..buffer.bytes(), access)];
    let op = Op::with_host(buffer.device(), &part);
    stream.submit(&op, |_| work(stream, number)).unwrap();
}

/// claim 2
#[test]
fn a_write_comes_after_reads_that_threads_enqueued_at_a_time() {
    preempted(3, || {
        let machine = Machine::new();
        let [first, second, third] = machine.streams.clone();
        let buffer = Arc::new(machine.buffer());
        enqueue(&buffer, &third, Access::Write, 1);
        let (its, on) = (Arc::clone(&buffer), second.clone());
        let reader = thread::spawn(move || {
            enqueue(&its, &on, Access::Read, 2);
            let is_ordered = comes_after(&on, 1);
            // The device may come to its end meanwhile, and the host prune what is done.
            on.synchronize().unwrap();
            its.in_flight.prune();
            is_ordered
        });
        enqueue(&buffer, &first, Access::Read, 3);
        assert!(comes_after(&first, 1), "a read beside the write before");
        assert!(reader.join().unwrap(), "a read beside the write before");
        // `&mut`: no other thread has the buffer.
        enqueue(&buffer, &third, Access::Write, 4);
        assert!(comes_after(&third, 2), "a read beside the write");
        assert!(comes_after(&third, 3), "a read beside the write");
        machine.ends();
    });
}

/// claim 2
#[test]
fn a_write_comes_after_a_read_that_was_repeated_beside_another() {
    model(|| {
        let machine = Machine::new();
        let [first, second, third] = machine.streams.clone();
        let buffer = Arc::new(machine.buffer());
        enqueue(&buffer, &first, Access::Read, 1);
        let its = Arc::clone(&buffer);
        let reader = thread::spawn(move || enqueue(&its, &second, Access::Read, 2));
        enqueue(&buffer, &first, Access::Read, 3);
        reader.join().unwrap();
        enqueue(&buffer, &third, Access::Write, 4);
        assert!(comes_after(&third, 2), "a read beside the write");
        assert!(comes_after(&third, 3), "a repeated read beside the write");
        machine.ends();
    });
}

/// claim 2
#[test]
fn writes_of_two_parts_by_threads_are_both_tracked() {
    model(|| {
        let machine = Machine::new();
        let [first, second, third] = machine.streams.clone();
        let buffer = Arc::new(machine.buffer());
        enqueue(&buffer, &third, Access::Write, 1);
        let (its, on) = (Arc::clone(&buffer), second.clone());
        let writer = thread::spawn(move || {
            enqueue(&its, &on, Access::WritePart, 2);
            comes_after(&on, 1)
        });
        enqueue(&buffer, &first, Access::WritePart, 3);
        assert!(comes_after(&first, 1), "the write before");
        assert!(writer.join().unwrap(), "the write before");
        enqueue(&buffer, &third, Access::Read, 4);
        assert!(comes_after(&third, 2), "the write of one part");
        assert!(comes_after(&third, 3), "the write of the other part");
        machine.ends();
    });
}

#[test]
fn a_read_comes_after_a_move_of_another_thread() {
    model(|| {
        let machine = Machine::new();
        let [first, second, third] = machine.streams.clone();
        let buffer = Arc::new(machine.buffer());
        let (its, on) = (Arc::clone(&buffer), first.clone());
        // One stream, two threads: the later number must stay.
        let mover = thread::spawn(move || enqueue(&its, &on, Access::Move, 1));
        enqueue(&buffer, &first, Access::Read, 2);
        mover.join().unwrap();
        enqueue(&buffer, &second, Access::Read, 3);
        assert!(comes_after(&second, 1), "a read beside the move");
        enqueue(&buffer, &third, Access::Write, 4);
        for number in 1..4 {
            assert!(comes_after(&third, number), "{number} may not be over");
        }
        let left = buffer.in_flight.before(Access::Write);
        assert_eq!(left.len(), 1, "the write alone");
        machine.ends();
    });
}

#[test]
fn reads_that_threads_enqueue_on_one_stream_come_after_the_write() {
    preempted(3, || {
        let machine = Machine::new();
        let [first, second, _] = machine.streams.clone();
        let buffer = Arc::new(machine.buffer());
        enqueue(&buffer, &first, Access::Write, 1);
        let read = {
            let buffer = Arc::clone(&buffer);
            move |number: usize| {
                let part = [buffer.part_of(0..buffer.bytes(), Access::Read)];
                // The thread that comes second does not wait again.
                second.submit(&Op::with_host(buffer.device(), &part), |_| {
                    assert!(comes_after(&second, 1), "a read beside the write");
                    work(&second, number)
                })
            }
        };
        let its = read.clone();
        let other = thread::spawn(move || its(2).unwrap());
        read(3).unwrap();
        other.join().unwrap();
        enqueue(&buffer, &first, Access::Write, 4);
        assert!(
            comes_after(&first, 2) && comes_after(&first, 3),
            "a read beside the next write"
        );
        machine.ends();
    });
}

/// claim 2
#[test]
fn the_next_owner_of_memory_comes_after_the_former_ones_work() {
    model(|| {
        let machine = Machine::new();
        let [first, second, third] = machine.streams.clone();
        let mut buffer = machine.buffer();
        enqueue(&buffer, &first, Access::Write, 1);
        enqueue(&buffer, &second, Access::Read, 2);
        // The device goes on while the block changes hands.
        let device = thread::spawn(move || first.synchronize().unwrap());
        buffer.in_flight.retire();
        enqueue(&buffer, &third, Access::Write, 3);
        assert!(comes_after(&third, 1) && comes_after(&third, 2));
        device.join().unwrap();
        machine.ends();
    });
}
