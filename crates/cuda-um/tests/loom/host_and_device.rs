//! The gate of devices without concurrent managed access: while a host guard lives, nothing is enqueued and nothing runs.

use crate::context::device::Device;
use crate::context::exclusion::{Closed, Gate};
use crate::context::non_concurrent::NonConcurrentAccess;
use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::InFlight;
use crate::error::Error;
use crate::label::Title;
use crate::models::checker::{model, preempted};
use crate::models::engine::{Engine, engine};
use crate::models::machine::{gated_device, work};
use crate::sync::thread;
use std::sync::Arc;

/// A device behind a gate, a stream of it, and the uses of a kernel's module.
#[derive(Clone)]
struct Machine {
    device: Device,
    stream: Stream,
    module: Arc<InFlight>,
}

impl Machine {
    fn new() -> Self {
        let device = gated_device();
        Self {
            stream: device.create_stream().unwrap(),
            module: Arc::default(),
            device,
        }
    }

    /// Work waits for the guards of other threads.
    fn waiting() -> Self {
        let machine = Self::new();
        machine
            .device
            .set_non_concurrent_access(NonConcurrentAccess::Wait);
        machine
    }

    fn gate(&self) -> &Arc<Gate> {
        self.device.state().gate().expect("it has one")
    }

    fn close(&self) -> Closed {
        self.gate().close(Title::default()).unwrap()
    }

    /// Enqueues a kernel, unless that is refused. Returns true if it was not.
    fn enqueue(&self) -> bool {
        let mut op = Op::new(What::Foreign, &self.device, &[]);
        op.module = Some(&self.module);
        let enqueued = self.stream.submit(&op, |_| work(&self.stream, 1));
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

/// claim 6
#[test]
fn a_guard_that_waits_has_the_memory_alone() {
    preempted(4, || {
        let machine = Machine::new();
        let others = [(); 2].map(|()| {
            let machine = machine.clone();
            thread::spawn(move || machine.enqueue())
        });
        let closed = machine.close();
        touch();
        assert!(!machine.enqueue(), "beside a guard");
        drop(closed);
        for other in others {
            other.join().unwrap();
        }
        assert!(machine.enqueue());
    });
}

/// claim 35
#[test]
fn a_guard_that_does_not_wait_is_refused_or_has_the_memory_alone() {
    model(|| {
        let machine = Machine::new();
        let its = machine.clone();
        let other = thread::spawn(move || its.enqueue());
        match machine.gate().try_close(Title::default()) {
            Ok(_closed) => touch(),
            Err(Error::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let enqueued = other.join().unwrap();
        assert_eq!(
            machine.gate().try_close(Title::default()).is_err(),
            enqueued
        );
        machine.gate().wait().unwrap();
        let _closed = machine.gate().try_close(Title::default()).unwrap();
        touch();
    });
}

#[test]
fn a_guard_comes_after_the_work_of_a_stream_that_is_dropped() {
    model(|| {
        let its = Machine::new();
        let device = its.device.clone();
        let other = thread::spawn(move || its.enqueue());
        let gate = device.state().gate().expect("it has one");
        match gate.try_close(Title::default()) {
            Ok(_closed) => touch(),
            Err(Error::Busy { .. }) => {
                let _closed = gate.close(Title::default()).unwrap();
                touch();
            }
            Err(error) => panic!("{error}"),
        }
        other.join().unwrap();
        let _closed = gate.close(Title::default()).unwrap();
        touch();
    });
}

/// claim 31
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

#[test]
fn work_waits_for_the_guards_of_other_threads() {
    preempted(3, || {
        let machine = Machine::waiting();
        let others = [(); 2].map(|()| {
            let machine = machine.clone();
            thread::spawn(move || assert!(machine.enqueue(), "it waits"))
        });
        let closed = machine.close();
        touch();
        assert!(!machine.enqueue(), "a thread does not wait for itself");
        drop(closed);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_thread_that_takes_guards_again_and_again_keeps_no_work_waiting() {
    // Loom ends the model if a thread waits for ever.
    preempted(3, || {
        let machine = Machine::waiting();
        let its = machine.clone();
        let other = thread::spawn(move || assert!(its.enqueue(), "it waits"));
        for _ in 0..2 {
            let _closed = machine.close();
            touch();
        }
        other.join().unwrap();
        assert!(machine.enqueue());
    });
}

#[test]
fn work_waits_for_all_guards() {
    preempted(2, || {
        let machine = Machine::waiting();
        let its = machine.clone();
        let host = thread::spawn(move || {
            let _closed = its.close();
            touch();
        });
        let its = machine.clone();
        let other = thread::spawn(move || assert!(its.enqueue(), "it waits"));
        {
            let _closed = machine.close();
            touch();
        }
        host.join().unwrap();
        other.join().unwrap();
    });
}
