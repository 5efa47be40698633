//! The ring: a chunk is one thread's, and is written again when its copies are done, whichever thread comes and whatever fails half-way.

use crate::buffer::transfer::copies::staged;
use crate::buffer::transfer::options::{PAGE, TransferOptions};
use crate::buffer::transfer::{Direction, Staged};
use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::models::checker::preempted;
use crate::models::engine::{Call, Engine, engine};
use crate::models::machine::device_of;
use crate::sync::thread;
use std::cell::Cell;
use std::sync::Arc;

/// Memory of the host or of the device: each piece of a copy holds a number of its own.
struct Memory(Box<[Cell<u8>]>);

#[allow(unsafe_code, reason = "threads of a model share it")]
// SAFETY: loom runs one thread at a time.
unsafe impl Sync for Memory {}

impl Memory {
    fn zeroed(pieces: usize) -> Self {
        Self((0..pieces * PAGE).map(|_| Cell::new(0)).collect())
    }

    /// With the numbers from `first` on.
    fn of(pieces: usize, first: u8) -> Self {
        let memory = Self::zeroed(pieces);
        for (piece, bytes) in memory.0.chunks(PAGE).enumerate() {
            bytes.iter().for_each(|byte| byte.set(first + piece as u8));
        }
        memory
    }

    /// What the pieces hold; none of them a mixture.
    fn pieces(&self) -> Vec<u8> {
        let piece = |bytes: &[Cell<u8>]| {
            let first = bytes[0].get();
            assert!(bytes.iter().all(|byte| byte.get() == first), "a mixture");
            first
        };
        self.0.chunks(PAGE).map(piece).collect()
    }

    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }
}

/// A device whose ring has two chunks, of one piece each, for each of so many threads.
struct Machine {
    device: Device,
    stream: Stream,
}

impl Machine {
    fn with(threads: usize) -> Self {
        let device = device_of(0);
        device.set_transfer_options(ring(threads));
        Self {
            stream: device.create_stream().unwrap(),
            device,
        }
    }

    /// What `memory::copy` does; the device's memory has to live until the stream is done.
    fn copy(&self, direction: Direction, host: &Memory, device: &Memory) -> Option<Result<()>> {
        let copy = Staged {
            direction,
            host: host.address(),
            device: device.address(),
            bytes: host.0.len(),
            kind: CopyKind::ByAddress,
        };
        #[allow(unsafe_code, reason = "a copy by address")]
        // SAFETY: both are so large, and the models use the device's side after the stream alone.
        unsafe {
            staged(self.device.state(), self.stream.inner(), &copy)
        }
    }
}

fn ring(threads: usize) -> TransferOptions {
    TransferOptions::default()
        .threads(threads)
        .ring_bytes(threads * 2 * PAGE)
}

/// claim 1
#[test]
fn a_chunk_is_filled_again_when_its_copy_is_done() {
    preempted(3, || {
        let machine = Machine::with(2);
        let targets = [Memory::zeroed(3), Memory::zeroed(3)];
        for (first, target) in [1, 4].into_iter().zip(&targets) {
            let source = Memory::of(3, first);
            let outcome = machine.copy(Direction::ToDevice, &source, target);
            assert!(matches!(outcome, Some(Ok(()))));
        }
        machine.stream.synchronize().unwrap();
        assert_eq!(
            targets.map(|target| target.pieces()),
            [[1, 2, 3], [4, 5, 6]]
        );
    });
}

/// claim 1
#[test]
fn what_comes_to_the_host_has_arrived_and_disturbs_nothing() {
    preempted(3, || {
        let machine = Machine::with(2);
        let (source, target) = (Memory::of(2, 1), Memory::zeroed(2));
        let outcome = machine.copy(Direction::ToDevice, &source, &target);
        assert!(matches!(outcome, Some(Ok(()))));
        drop(source);
        // Those copies need not be done, and their chunks are used at once.
        let (there, here) = (Memory::of(4, 3), Memory::zeroed(4));
        let outcome = machine.copy(Direction::ToHost, &here, &there);
        assert!(matches!(outcome, Some(Ok(()))));
        assert_eq!(here.pieces(), [3, 4, 5, 6]);
        machine.stream.synchronize().unwrap();
        assert_eq!(target.pieces(), [1, 2]);
    });
}

/// One call fails, after so many that worked: in the first copy or, where that did not need it, in the second. The one after is whole.
fn fails_once(direction: Direction, call: Call, after: usize) {
    preempted(2, move || {
        let machine = Machine::with(2);
        let numbers = [1, 2, 3];
        let full = Memory::of(numbers.len(), 1);
        engine(|cuda| cuda.fail(call, after));
        let mut failed = false;
        for round in 0.. {
            let empty = Memory::zeroed(numbers.len());
            let (host, device) = match direction {
                Direction::ToDevice => (&full, &empty),
                Direction::ToHost => (&empty, &full),
            };
            let outcome = machine.copy(direction, host, device);
            match outcome.expect("no other thread has the ring") {
                Ok(()) => {
                    machine.stream.synchronize().unwrap();
                    assert_eq!(empty.pieces(), numbers);
                    if failed || round == 1 {
                        break;
                    }
                }
                Err(Error::Incomplete { copied_bytes, .. }) if !failed => {
                    failed = true;
                    assert_eq!(engine(Engine::copies_in_flight), 0, "something goes on");
                    let copied = copied_bytes / PAGE;
                    assert!(copied < numbers.len());
                    assert_eq!(empty.pieces()[..copied], numbers[..copied]);
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_copy_that_fails_half_way_leaves_nothing_going() {
    for (call, to_device, to_host) in [(Call::Copy, 1, 1), (Call::Record, 1, 1), (Call::Wait, 0, 1)]
    {
        fails_once(Direction::ToDevice, call, to_device);
        fails_once(Direction::ToHost, call, to_host);
    }
}

/// claim 3
#[test]
fn the_ring_is_one_callers_and_is_freed_with_its_options_after_its_copies() {
    preempted(3, || {
        let machine = Arc::new(Machine::with(1));
        let sources = Arc::new([Memory::of(2, 1), Memory::of(2, 3)]);
        let targets = Arc::new([Memory::zeroed(2), Memory::zeroed(2)]);
        let caller = |number: usize| {
            let machine = Arc::clone(&machine);
            let (sources, targets) = (Arc::clone(&sources), Arc::clone(&targets));
            // None: the driver copies.
            move || {
                let outcome = machine.copy(Direction::ToDevice, &sources[number], &targets[number]);
                outcome.map(|copied| copied.unwrap())
            }
        };
        let other = thread::spawn(caller(1));
        let options = {
            let machine = Arc::clone(&machine);
            // Of chunks twice as large, for which no copy finds a chunk of before.
            thread::spawn(move || machine.device.set_transfer_options(ring(2).threads(1)))
        };
        let staged = [caller(0)(), other.join().unwrap()];
        options.join().unwrap();
        machine.stream.synchronize().unwrap();
        for (number, staged) in staged.into_iter().enumerate() {
            let expected = staged.map_or([0, 0], |()| [[1, 2], [3, 4]][number]);
            assert_eq!(targets[number].pieces(), expected);
        }
        machine.device.set_transfer_options(ring(1));
        assert_eq!(engine(Engine::pinned), 0, "the ring of before is freed");
    });
}
