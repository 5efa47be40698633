//! Devices, streams and events: each exists once, and what a stream says about its work is true while other threads use it.

use crate::context::stream::Stream;
use crate::context::tracker::Use;
use crate::error::Result;
use crate::models::checker::{model, preempted};
use crate::models::engine::{Engine, engine};
use crate::models::machine::{comes_after, device_of, runtime, work};
use crate::sync::thread;
use std::sync::Arc;

/// Enqueues that work, and numbers it.
fn enqueue(stream: &Stream, to: usize) -> Use {
    work(stream, to).unwrap();
    Use {
        stream: Arc::clone(stream.inner()),
        seq: stream.inner().number(),
    }
}

fn is_done(to: usize) -> bool {
    engine(|cuda| cuda.is_done(to))
}

#[test]
fn threads_that_open_a_device_get_one_device_and_one_stream_of_it() {
    model(|| {
        let runtime = runtime(Engine::new(0, true));
        let its = runtime.clone();
        let open = |runtime: crate::Runtime| {
            let device = runtime.device(0).unwrap();
            let stream = device.default_stream().unwrap();
            (device, stream)
        };
        let other = thread::spawn(move || open(its));
        let (device, stream) = open(runtime);
        let (its, own) = other.join().unwrap();
        assert!(Arc::ptr_eq(device.state(), its.state()));
        assert!(Arc::ptr_eq(stream.inner(), own.inner()));
        assert_eq!(engine(Engine::live_streams), 1, "the other is destroyed");
    });
}

#[test]
fn work_is_done_when_the_wait_for_it_returns() {
    preempted(3, || {
        let stream = device_of(0).create_stream().unwrap();
        let its = stream.clone();
        let other = thread::spawn(move || {
            enqueue(&its, 2).wait().unwrap();
            assert!(is_done(2));
        });
        let used = enqueue(&stream, 1);
        enqueue(&stream, 3);
        used.wait().unwrap();
        assert!(is_done(1));
        other.join().unwrap();
    });
}

/// While a thread waits or asks for work that is done, another one enqueues, and asks for its own.
fn enqueues_beside(call: fn(&Stream, &Use) -> Result<()>) {
    model(move || {
        let stream = device_of(0).create_stream().unwrap();
        let used = enqueue(&stream, 1);
        engine(|cuda| cuda.run(stream.as_raw().addr()));
        let its = stream.clone();
        let other = thread::spawn(move || {
            let says_so = enqueue(&its, 2).is_done().unwrap();
            assert!(!says_so || is_done(2));
        });
        call(&stream, &used).unwrap();
        other.join().unwrap();
    });
}

#[test]
fn work_is_done_when_a_query_or_a_wait_says_so() {
    enqueues_beside(|_, used| used.is_done().map(drop));
    enqueues_beside(|stream, _| stream.is_idle().map(drop));
    enqueues_beside(|stream, _| stream.synchronize());
    enqueues_beside(|stream, _| stream.device().synchronize());
}

#[test]
fn streams_come_after_the_work_of_one_that_goes_on() {
    model(|| {
        let device = device_of(0);
        let [first, second, third] = [(); 3].map(|()| device.create_stream().unwrap());
        let order = |stream: &Stream, used: &Use, to: usize| {
            used.order(stream.inner()).unwrap();
            assert!(comes_after(stream, to), "it is enqueued beside the work");
        };
        let used = enqueue(&first, 1);
        let its = used.clone();
        let also = second.clone();
        let other = thread::spawn(move || order(&also, &its, 1));
        // The thread that comes second does not wait again.
        order(&second, &used, 1);
        let next = enqueue(&first, 2);
        order(&third, &next, 2);
        other.join().unwrap();
    });
}
