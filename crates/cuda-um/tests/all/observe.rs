//! Observers are told of each operation, in order, and may use the library.

use cuda_um::observe::{Observer, Op, Told, What, observe};
use cuda_um::{Advice, Location, PrefetchBatch, Stream, UnifiedBuffer};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::{Add, simulated};
use std::sync::{Arc, Mutex};

/// Writes down what it is told of, and prefetches the memory of each launch on a stream of its own.
struct Writes {
    lines: Mutex<Vec<String>>,
    beside: Stream,
}

impl Writes {
    fn write(&self, op: &Op<'_>, end: &str) {
        let is_of_this_test = op.device().runtime().is_same(self.beside.runtime());
        let is_own = op.stream().is_some_and(|on| on.id() == self.beside.id());
        if !is_of_this_test || is_own {
            return;
        }
        let what = format!("{:?}", op.what());
        let what = what.split([' ', '(']).next().unwrap();
        let writes = op.parts().iter().any(|part| part.writes());
        assert!(op.parts().iter().all(|part| part.range() == (0..4000)));
        let line = format!("{what}{}{end}", if writes { " writes" } else { "" });
        self.lines.lock().unwrap().push(line);
    }
}

impl Observer for Writes {
    fn before(&self, op: &Op<'_>) {
        // Other tests launch beside this one.
        if !op.device().runtime().is_same(self.beside.runtime()) {
            return;
        }
        self.write(op, "");
        if let (What::Launch { .. }, [part]) = (op.what(), op.parts()) {
            let mut batch = PrefetchBatch::new();
            let prefetched = batch.add_part(part).prefetch_on(op.device(), &self.beside);
            assert_eq!(prefetched.unwrap().skipped().count(), 0);
        }
    }

    fn after(&self, told: &Told<'_>) {
        let end = match (told.error(), told.is_elided()) {
            (Some(_), _) => ": failed",
            (None, true) => ": elided",
            (None, false) => ": done",
        };
        self.write(told.op(), end);
    }
}

#[test]
fn an_observer_sees_each_operation_and_may_use_the_library() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let writes = Arc::new(Writes {
        lines: Mutex::default(),
        beside: device.create_stream().unwrap(),
    });
    let observing = observe(writes.clone());
    data.set_name("data");
    data.advise(Advice::SetPreferredLocation(Location::from(&device)))
        .unwrap();
    let mut launch = || add.launch(&stream, 1000, (&mut data, 1000u32, 1u32));
    launch().unwrap();
    sim.fail(Fail::call("cuLaunchKernel").with_code(999));
    launch().unwrap_err();
    data.prefetch_on(Location::Host, &stream).unwrap();
    assert_eq!(data.host().unwrap()[7], 1);
    data.copy_from_host(&[1; 1000]).unwrap();
    drop(data);
    drop(observing);
    UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let expected = [
        "Name: done",
        "Advise",
        "Advise: done",
        "Launch writes",
        "Launch writes: done",
        "Launch writes",
        "Launch writes: failed",
        "Prefetch",
        "Prefetch: done",
        "Host",
        "Host: done",
        "HostEnd: done",
        "Copy writes",
        "Copy writes: done",
        "Free",
    ];
    assert_eq!(*writes.lines.lock().unwrap(), expected);
}
