//! The gate of devices without concurrent managed access: while a host guard lives, nothing is enqueued and nothing runs.

use crate::checker::preempted;
use crate::checker::thread;
use crate::context::exclusion::Gate;
use crate::context::stream::StreamInner;
use crate::driver::{Api, CopyKind};
use crate::error::Error;
use std::sync::Arc;

/// A gate, and a stream behind it.
struct Machine {
    gate: Arc<Gate>,
    stream: Arc<StreamInner>,
    memory: [u8; 2],
}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::default(),
            stream: StreamInner::of(&Arc::new(Api::default())),
            memory: [0, 1],
        })
    }

    fn api(&self) -> &Api {
        self.stream.api()
    }

    /// Enqueues work, unless that is refused. Whether it was.
    fn enqueue(&self) -> bool {
        let turn = match self.gate.enqueue(&self.stream) {
            Ok(turn) => turn,
            Err(Error::Busy { .. }) => return false,
            Err(error) => panic!("{error}"),
        };
        let from = self.memory.as_ptr();
        let (to, raw) = (from.cast_mut(), self.stream.raw());
        #[allow(unsafe_code, reason = "as the library declares it")]
        // SAFETY: the copy is of no bytes.
        let enqueued = unsafe {
            self.api()
                .memcpy_async(0, to, from, 0, CopyKind::ByAddress, raw)
        };
        enqueued.unwrap();
        drop(turn);
        true
    }

    /// What the host does while it has a guard.
    fn touch(&self) {
        assert_eq!(self.api().copies_in_flight(), 0, "the device works");
        thread::yield_now();
        assert_eq!(self.api().copies_in_flight(), 0, "the device works");
    }
}

#[test]
fn a_guard_that_waits_has_the_memory_alone() {
    preempted(3, || {
        let machine = Machine::new();
        let others = [(); 2].map(|()| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.enqueue())
        });
        let closed = machine.gate.close(1).unwrap();
        machine.touch();
        assert!(!machine.enqueue(), "beside a guard");
        drop(closed);
        for other in others {
            other.join().unwrap();
        }
        assert!(machine.enqueue());
    });
}

#[test]
fn a_guard_that_does_not_wait_is_refused_or_has_the_memory_alone() {
    preempted(3, || {
        let machine = Machine::new();
        let its = Arc::clone(&machine);
        let other = thread::spawn(move || its.enqueue());
        match machine.gate.try_close(1) {
            Ok(_closed) => machine.touch(),
            Err(Error::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let enqueued = other.join().unwrap();
        assert_eq!(machine.gate.try_close(1).is_err(), enqueued);
        machine.gate.wait().unwrap();
        let _closed = machine.gate.try_close(1).unwrap();
        machine.touch();
    });
}

#[test]
fn a_wait_without_a_guard_is_for_the_turns_that_there_are() {
    preempted(3, || {
        let machine = Machine::new();
        let its = Arc::clone(&machine);
        let other = thread::spawn(move || its.enqueue() && its.enqueue());
        // Loom ends the model if it waits for ever.
        machine.gate.wait().unwrap();
        assert!(other.join().unwrap());
    });
}
