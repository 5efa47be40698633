//! Observers are told of each operation, in order, and may use the library.

use cuda_um::observe::{Observer, Op, Told, What, observe};
use cuda_um::{
    Advice, Device, DeviceBuffer, Error, Location, Runtime, UnifiedBuffer, managed::PrefetchBatch,
};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, message, simulated};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Calls a function at the begin of each operation of one runtime, and with what is told at its end.
struct Of<F>(Runtime, F);

impl<F: Fn(&Op<'_>, Option<&Told<'_>>) + Send + Sync> Of<F> {
    fn call(&self, op: &Op<'_>, told: Option<&Told<'_>>) {
        // Other tests launch beside this one.
        if op.device.runtime().is_same(&self.0) {
            self.1(op, told);
        }
    }
}

impl<F: Fn(&Op<'_>, Option<&Told<'_>>) + Send + Sync> Observer for Of<F> {
    fn before(&self, op: &Op<'_>) {
        self.call(op, None);
    }

    fn after(&self, told: &Told<'_>) {
        self.call(told.op, Some(told));
    }
}

fn observing(
    device: &Device,
    call: impl Fn(&Op<'_>, Option<&Told<'_>>) + Send + Sync + 'static,
) -> cuda_um::observe::Observing {
    observe(Arc::new(Of(device.runtime().clone(), call)))
}

/// claim 37
#[test]
fn an_observer_sees_each_operation_and_may_use_the_library() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let (beside, lines) = (
        device.create_stream().unwrap(),
        Arc::new(Mutex::new(Vec::new())),
    );
    let written = Arc::clone(&lines);
    // Writes down what it is told of, and prefetches the memory of each launch on a stream of its own.
    let observing = observing(&device, move |op, told| {
        if op.stream.is_some_and(|on| on.id() == beside.id()) {
            return;
        }
        let what = format!("{:?}", op.what);
        let what = what.split([' ', '(']).next().unwrap();
        let writes = if op.parts.iter().any(|part| part.writes()) {
            " writes"
        } else {
            ""
        };
        assert!(op.parts.iter().all(|part| part.range() == (0..4000)));
        let end = match told.map(|told| (told.error.is_some(), told.is_elided)) {
            None => "",
            Some((true, _)) => ": failed",
            Some((_, true)) => ": elided",
            Some(_) => ": done",
        };
        written.lock().unwrap().push(format!("{what}{writes}{end}"));
        if let (What::Launch { .. }, [part], None) = (op.what, op.parts, told) {
            let mut batch = PrefetchBatch::new();
            let prefetched = batch.add_part(part).prefetch_on(op.device, &beside);
            assert!(prefetched.unwrap().outcome.is_applied());
        }
    });
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
    assert_eq!(*lines.lock().unwrap(), expected);
}

/// Before the turn at the gate, for which a guard would wait, and before the order: the launch comes after what the observer enqueues.
#[test]
fn an_observer_may_take_guards_and_write_before_an_operation() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let _watchdog = watch();
    let (add, beside) = (Add::load(&device), device.create_stream().unwrap());
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let other = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let (count, of) = (Arc::clone(&seen), other.id());
    let other = Mutex::new(other);
    let observing = observing(&device, move |op, told| {
        let is_of_data = op.parts.iter().all(|part| part.buffer() != of);
        if matches!(op.what, What::Launch { .. }) && is_of_data {
            let mut other = other.lock().unwrap();
            other.fill_on(1, &beside).unwrap();
            assert_eq!(other.host_mut().unwrap()[7], 1);
            count.fetch_add(1 + usize::from(told.is_some()) * 10, Ordering::Relaxed);
        }
    });
    add.run(&stream, &mut data, 1000, 1);
    drop(observing);
    assert_eq!(
        (seen.load(Ordering::Relaxed), data.host().unwrap()[7]),
        (12, 1)
    );
}

/// A panic of an observer after a copy would otherwise free memory that the device still reads or writes.
#[test]
fn an_observer_is_told_of_a_copy_after_the_wait_for_the_callers_memory() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut data = DeviceBuffer::<u8>::zeroed(&device, 100_000).unwrap();
    device.synchronize().unwrap();
    let observing = observing(&device, |op, told| {
        assert!(told.is_none() || op.what != What::Copy, "on purpose");
    });
    let held = sim.hold(0);
    data.fill_on(7, &stream).unwrap();
    let mut target = vec![0; 100_000];
    let panics = catch_unwind(AssertUnwindSafe(|| data.copy_to_host(&mut target)));
    assert_eq!(message(&*panics.unwrap_err()), "on purpose");
    assert!(held.is_over() && target == [7; 100_000]);
    drop(observing);
}

/// A refusal comes before everything else. A device that host guards hold is busy in the operation.
#[test]
fn what_is_refused_is_no_operation() {
    let (_sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let (_other_sim, other, stranger) = simulated(Gpu::NoConcurrentAccess);
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut foreign = UnifiedBuffer::<u32>::zeroed(&other, 10).unwrap();
    let theirs = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    device.synchronize().unwrap();
    let address = std::ptr::NonNull::new(theirs.as_ptr().cast_mut()).unwrap();
    #[allow(unsafe_code, reason = "an import")]
    // SAFETY: the owner keeps the memory, and nothing writes it.
    let import = unsafe { UnifiedBuffer::from_foreign(&device, address, 10, theirs) };
    let mut import = import.unwrap().read_only();
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let observing = observing(&device, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let refused = [
        data.fill_on(1, &stranger),
        stream.copy(&foreign, &mut data),
        stream.copy(&data, &mut foreign),
        add.launch(&stranger, 10, (&mut data, 10u32, 1u32)),
        add.launch(&stream, 10, (&mut foreign, 10u32, 1u32)),
        import.fill_on(1, &stream),
        import.copy_from_host(&[1; 10]),
        add.launch(&stream, 10, (&mut import, 10u32, 1u32)),
    ];
    for (at, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert!(!matches!(error, Error::Busy { .. }), "{at}: {error}");
    }
    assert_eq!(told.load(Ordering::Relaxed), 0);
    let guard = import.host().unwrap();
    assert_eq!(told.swap(0, Ordering::Relaxed), 2);
    let busy = add.launch(&stream, 10, (&mut data, 10u32, 1u32));
    assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
    assert_eq!(told.load(Ordering::Relaxed), 2);
    drop(guard);
    drop(observing);
}

/// Its work would run at once, and a panic would leave a capture.
#[test]
fn an_observer_captures_nothing() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    let (on, refusals) = (stream.clone(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&refusals);
    let observing = observing(&device, move |_, _| {
        let refused = on.capture(|_| panic!("in an observer's capture"));
        kept.lock().unwrap().push(refused.map(drop));
    });
    data.fill_on(9, &stream).unwrap();
    // During a capture, observers hear of work that is no part of it.
    let graph = stream.capture(|_| UnifiedBuffer::<u32>::zeroed(&device, 10).map(drop));
    drop((observing, graph.unwrap()));
    let refusals = refusals.lock().unwrap();
    let is_refusal = |refused: &cuda_um::Result<()>| matches!(refused, Err(Error::Capture { .. }));
    assert!(
        refusals.len() > 2 && refusals.iter().all(is_refusal),
        "{refusals:?}"
    );
    assert_eq!(data.to_vec().unwrap(), [9; 10]);
    stream.capture(|_| Ok(())).unwrap();
}
