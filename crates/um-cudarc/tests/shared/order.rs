//! The order between the work of both libraries: each test with one stream of cudarc, with several, and without its event tracking.

use crate::support::{LEN, World, delay, scale, world};
use cuda_um::{MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use cudarc::driver::{CudaStream, PushKernelArg};
use std::sync::Arc;
use um_cudarc::SharedStream;

/// Runs a test with every way in which cudarc orders. It gets the stream of the slices and the one on which cudarc works.
fn every_way(test: impl Fn(&World, &SharedStream, &Arc<CudaStream>)) {
    let Some(world) = world() else { return };
    let default = world.context().default_stream();
    test(&world, &world.stream(), &default);
    // Without events, the caller orders streams: one stream.
    // SAFETY: all work is on one stream.
    unsafe { world.context().disable_event_tracking() };
    test(&world, &world.stream(), &default);
    // SAFETY: no slice was left from before.
    unsafe { world.context().enable_event_tracking() };
    let (home, other) = (
        world.context().new_stream().unwrap(),
        world.context().new_stream().unwrap(),
    );
    let home = world.shared().adopt(&home).unwrap();
    test(&world, &home, &other);
    test(&world, &home, home.theirs());
}

#[test]
fn the_host_waits_for_cudarc() {
    every_way(|world, home, work| {
        let (function, a) = (world.scale(), world.slice(home, 1.0));
        let mut b = world.slice(home, 0.0);
        delay(work);
        scale!(work, function, &a, &mut b, 2.0);
        assert_eq!(b.host().unwrap()[LEN - 1], 2.0);
        delay(work);
        scale!(work, function, &a, &mut b, 3.0);
        assert_eq!(b.host_mut().unwrap()[LEN - 1], 3.0);
        // A write by the host waits for reads by cudarc.
        let (mut a, mut b) = (a, b);
        delay(work);
        scale!(work, function, &a, &mut b, 4.0);
        a.host_mut().unwrap().fill(0.0);
        assert_eq!(b.host().unwrap()[LEN - 1], 4.0);
    });
}

#[test]
fn a_capture_records_no_work_of_cudarc_and_its_order_stays() {
    every_way(|world, home, work| {
        let (function, a) = (world.scale(), world.slice(home, 1.0));
        let (mut b, mut other) = (world.slice(home, 0.0), world.buffer(5.0));
        let (mut written, mut shared) = (None, None);
        let ours = world.shared().device().create_stream().unwrap();
        let graph = home.ours().capture(|_| {
            delay(work);
            scale!(work, function, &a, &mut b, 2.0);
            written = Some(b.into_buffer());
            // Other work, which runs at once: cudarc's work comes after it.
            other.fill_on(6.0, &ours)?;
            shared = Some(home.share(other));
            Ok(())
        });
        let (written, mut shared) = (written.unwrap().unwrap(), shared.unwrap().unwrap());
        assert_eq!(written.host().unwrap()[LEN - 1], 2.0);
        scale!(work, function, &a, &mut shared, 3.0);
        assert_eq!(shared.host().unwrap()[LEN - 1], 3.0);
        assert_eq!(graph.unwrap().required().count(), 0);
    });
}

#[test]
fn work_of_cuda_um_comes_after_cudarcs_and_before_its_next() {
    every_way(|world, home, work| {
        let function = world.scale();
        let ours = world.shared().device().create_stream().unwrap();
        let (mut a, mut b) = (world.slice(home, 1.0), world.slice(home, 0.0));
        delay(work);
        scale!(work, function, &a, &mut b, 2.0);
        // Not before the kernel has read `a` and written `b`.
        a.with_mut(|mut view| view.fill_on(10.0, &ours)).unwrap();
        b.with_mut(|mut view| view.slice_mut(1..)?.fill_on(5.0, &ours))
            .unwrap();
        delay(home.theirs());
        scale!(work, function, &b, &mut a, 10.0);
        assert_eq!(b.host().unwrap()[..2], [2.0, 5.0]);
        assert_eq!(a.host().unwrap()[..2], [20.0, 50.0]);
    });
}

#[test]
fn earlier_work_of_the_buffer_comes_before_cudarcs() {
    every_way(|world, home, work| {
        let ours = world.shared().device().create_stream().unwrap();
        let mut buffer = world.buffer(1.0);
        buffer.fill_on(2.0, &ours).unwrap();
        let a = home.share(buffer).unwrap();
        assert_eq!(work.clone_dtoh(&a).unwrap(), vec![2.0; LEN]);
    });
}

#[test]
fn memory_is_freed_after_cudarcs_work() {
    every_way(|world, home, work| {
        let function = world.scale();
        let (a, mut b) = (world.slice(home, 1.0), world.slice(home, 0.0));
        delay(work);
        scale!(work, function, &a, &mut b, 2.0);
        drop(a);
        // A buffer that comes back has the order with it.
        assert_eq!(b.into_buffer().unwrap().host().unwrap()[0], 2.0);
        // The next owner of the memory writes it after the kernel.
        let pool = Pool::new(
            world.shared().device(),
            MemoryKind::Managed,
            PoolOptions::default(),
        )
        .unwrap();
        let buffer = |value| UnifiedBuffer::from_slice_in(&pool, &[value; LEN]).unwrap();
        let (a, mut b) = (world.slice(home, 1.0), home.share(buffer(0.0)).unwrap());
        let address = b.host().unwrap().as_ptr();
        delay(work);
        scale!(work, function, &a, &mut b, 2.0);
        drop(b);
        let next = buffer(9.0);
        assert_eq!(next.as_ptr(), address);
        world.context().synchronize().unwrap();
        assert_eq!(next.host().unwrap()[LEN - 1], 9.0);
    });
}

#[test]
fn a_panic_in_lent_work_keeps_the_order() {
    let Some(world) = world() else { return };
    let streams = [
        world.context().new_stream().unwrap(),
        world.context().new_stream().unwrap(),
    ];
    let home = world.shared().adopt(&streams[0]).unwrap();
    let ours = world.shared().device().create_stream().unwrap();
    let mut a = world.slice(&home, 1.0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        a.with_mut(|mut view| {
            view.fill_on(4.0, &ours)?;
            std::panic::resume_unwind(Box::new("on purpose"));
            #[allow(unreachable_code, reason = "the type of the closure")]
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(streams[1].clone_dtoh(&a).unwrap()[0], 4.0);
    let refused = a
        .with_mut(|mut view| view.copy_from_host(&[1.0]))
        .unwrap_err();
    assert!(refused.to_string().contains("copy_from_host"), "{refused}");
}
