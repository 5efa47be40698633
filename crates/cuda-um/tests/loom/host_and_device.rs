//! The gate of devices without concurrent managed access: while a host guard lives, nothing is enqueued and nothing runs.

use crate::context::device::Device;
use crate::context::enqueue::enqueue;
use crate::context::exclusion::Gate;
use crate::context::stream::Stream;
use crate::error::Error;
use crate::models::checker::{model, preempted};
use crate::models::engine::{Engine, engine};
use crate::models::machine::{gated_device, work};
use crate::sync::thread;
use std::sync::Arc;

/// A device behind a gate, and a stream of it.
#[derive(Clone)]
struct Machine {
    device: Device,
    stream: Stream,
}

impl Machine {
    fn new() -> Self {
        let device = gated_device();
        Self {
            stream: device.stream().unwrap(),
            device,
        }
    }

    fn gate(&self) -> &Arc<Gate> {
        self.device.state().gate().expect("it has one")
    }

    /// Enqueues work, unless that is refused. Returns true if it was not.
    fn enqueue(&self) -> bool {
        let enqueued = enqueue(&self.stream, std::iter::empty(), || work(&self.stream, 1));
        match enqueued {
            Ok(()) => true,
            Err(Error::Busy { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What the host does while it has a guard.
fn touch() {
    assert_eq!(engine(Engine::copies_in_flight), 0, "the device works");
    thread::yield_now();
    assert_eq!(engine(Engine::copies_in_flight), 0, "the device works");
}

#[test]
fn a_guard_that_waits_has_the_memory_alone() {
    preempted(4, || {
        let machine = Machine::new();
        let others = [(); 2].map(|()| {
            let machine = machine.clone();
            thread::spawn(move || machine.enqueue())
        });
        let closed = machine.gate().close(1).unwrap();
        touch();
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
    model(|| {
        let machine = Machine::new();
        let its = machine.clone();
        let other = thread::spawn(move || its.enqueue());
        match machine.gate().try_close(1) {
            Ok(_closed) => touch(),
            Err(Error::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let enqueued = other.join().unwrap();
        assert_eq!(machine.gate().try_close(1).is_err(), enqueued);
        machine.gate().wait().unwrap();
        let _closed = machine.gate().try_close(1).unwrap();
        touch();
    });
}

#[test]
fn a_guard_comes_after_the_work_of_a_stream_that_is_dropped() {
    model(|| {
        let Machine { device, stream } = Machine::new();
        let its = Machine {
            stream,
            device: device.clone(),
        };
        let other = thread::spawn(move || its.enqueue());
        let gate = device.state().gate().expect("it has one");
        match gate.try_close(1) {
            Ok(_closed) => touch(),
            Err(Error::Busy { .. }) => {
                let _closed = gate.close(1).unwrap();
                touch();
            }
            Err(error) => panic!("{error}"),
        }
        other.join().unwrap();
        let _closed = gate.close(1).unwrap();
        touch();
    });
}

#[test]
fn a_wait_without_a_guard_is_for_the_turns_that_there_are() {
    model(|| {
        let machine = Machine::new();
        let its = machine.clone();
        let other = thread::spawn(move || its.enqueue() && its.enqueue());
        // Loom ends the model if it waits for ever.
        machine.gate().wait().unwrap();
        assert!(other.join().unwrap());
    });
}
