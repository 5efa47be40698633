//! Launches of graphs beside guards of the host, drops of the memory, and drops of the graph. loom's threads share the thread-local variables of
//! the standard library, so the captures end before other threads begin.

use crate::buffer::view::View;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::{CopyKind, OnStream};
use crate::error::Error;
use crate::graph::GraphExec;
use crate::kernel::argument::KernelArgs;
use crate::label::Title;
use crate::models::checker::preempted;
use crate::models::engine::{Engine, engine};
use crate::models::machine::{device_of, gated_device};
use crate::process_end::Calls;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::separate::DeviceMemory;
use crate::sync::thread;
use std::ptr::without_provenance_mut;
use std::sync::Arc;

const BYTES: usize = 1 << 10;

/// A graph of one piece of work: a copy of no bytes to this address, with these uses.
fn graph(stream: &Stream, to: usize, uses: impl KernelArgs) -> GraphExec {
    let at = without_provenance_mut(to);
    let record = |work: &crate::kernel::foreign::ForeignWork<'_>| {
        let (api, kind) = (stream.inner().api(), CopyKind::ByAddress);
        let calls = Calls::of("work")?;
        let on = OnStream::new(work.stream(), &calls);
        #[allow(unsafe_code, reason = "a copy by address")]
        // SAFETY: the copy is of no bytes.
        unsafe {
            api.memcpy_async(0, at, at, 0, kind, on)
        }
    };
    #[allow(unsafe_code, reason = "work by address")]
    // SAFETY: as above.
    let captured = stream.capture(|_| unsafe { stream.enqueue_foreign(uses, record)? });
    captured.unwrap().instantiate().unwrap()
}

#[test]
fn a_launch_beside_a_guard_and_a_drop_of_its_memory() {
    preempted(1, || {
        let device = device_of(BYTES);
        let stream = device.create_stream().unwrap();
        let buffer = DeviceMemory::new(&device).allocate(BYTES).unwrap();
        let at = buffer.pointer().as_ptr().addr();
        let mut exec = graph(&stream, at, (View::<u8>::whole(&buffer),));
        let shared = Arc::new(buffer);
        let (its, on) = (Arc::clone(&shared), stream.clone());
        let launches = thread::spawn(move || {
            exec.launch(&on, (View::<u8>::whole(&its),)).unwrap();
            drop(its);
            engine(|cuda| cuda.run(on.as_raw().addr()));
        });
        drop(
            shared
                .wait_for_host(&(0..BYTES), Access::Read, "host")
                .unwrap(),
        );
        if let Ok(buffer) = Arc::try_unwrap(shared) {
            let _access = buffer
                .wait_for_host(&(0..BYTES), Access::Write, "host_mut")
                .unwrap();
            assert!(engine(|cuda| cuda.is_done(at)), "the graph reads");
        }
        launches.join().unwrap();
        device.runtime().reclaim().unwrap();
        // `Engine::misuse` says if it was freed in use.
        assert_eq!(engine(Engine::slabs), 0);
    });
}

#[test]
fn a_guard_without_concurrent_access_has_the_memory_alone() {
    preempted(3, || {
        let device = gated_device();
        let stream = device.create_stream().unwrap();
        let mut exec = graph(&stream, 1, ());
        let launches = thread::spawn(move || {
            match exec.launch(&stream, ()) {
                Ok(()) | Err(Error::Busy { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            drop(exec);
            engine(|cuda| cuda.run(stream.as_raw().addr()));
        });
        let gate = device.state().gate().expect("it has one");
        {
            let _closed = gate.close(Title::default()).unwrap();
            assert_eq!(engine(Engine::copies_in_flight), 0, "the graph runs");
            thread::yield_now();
            assert_eq!(engine(Engine::copies_in_flight), 0, "the graph runs");
        }
        launches.join().unwrap();
        device.runtime().reclaim().unwrap();
    });
}
