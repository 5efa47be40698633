//! The order between the work of both libraries.

use crate::support::{LEN, delay, world};
use cuda_core::DriverError;
use cuda_um::{MemoryKind, Pool, PoolOptions, UnifiedBuffer};

#[test]
fn the_host_waits_for_work_on_any_stream() {
    let world = world();
    let (stream, other) = (&world.stream, world.context.new_stream().unwrap());
    let (mut a, mut b) = (world.buffer(1.0), world.buffer(0.0));
    stream.theirs().synchronize().unwrap();
    for work in [stream.theirs(), &other] {
        delay(work);
        world.scale(work, &a, &mut b, 2.0);
        assert_eq!(stream.host(&b).unwrap()[LEN - 1], 2.0);
        // A write by the host waits for reads.
        delay(work);
        world.scale(work, &a, &mut b, 3.0);
        stream.host_mut(&mut a).unwrap().fill(0.0);
        assert_eq!(stream.host(&b).unwrap()[LEN - 1], 3.0);
        stream.host_mut(&mut a).unwrap().fill(1.0);
    }
}

#[test]
fn cuda_core_refuses_work_on_a_buffer_that_the_host_uses() {
    let world = world();
    let (stream, mut a) = (&world.stream, world.buffer(1.0));
    let storage = a.storage().clone();
    let acquire = |writes| storage.acquire(stream.theirs(), writes, false).map(drop);
    {
        let read = stream.host(&a).unwrap();
        acquire(false).unwrap();
        assert!(matches!(acquire(true), Err(DriverError(600))));
        drop(read);
        let _write = stream.host_mut(&mut a).unwrap();
        assert!(matches!(acquire(false), Err(DriverError(600))));
    }
    acquire(true).unwrap();
}

#[test]
fn work_of_cuda_um_comes_between_work_of_cuda_core() {
    let world = world();
    let (stream, ours) = (
        &world.stream,
        world.shared.device().create_stream().unwrap(),
    );
    let (mut a, mut b) = (world.buffer(1.0), world.buffer(0.0));
    delay(stream.theirs());
    world.scale(stream.theirs(), &a, &mut b, 2.0);
    // Not before the kernel has read `a` and written `b`.
    stream
        .with_mut(&mut a, |mut view| view.fill_on(10.0, &ours))
        .unwrap();
    stream
        .with_mut(&mut b, |mut view| view.slice_mut(1..)?.fill_on(5.0, &ours))
        .unwrap();
    world.scale(stream.theirs(), &b, &mut a, 10.0);
    assert_eq!(stream.host(&b).unwrap()[..2], [2.0, 5.0]);
    assert_eq!(stream.host(&a).unwrap()[..2], [20.0, 50.0]);
}

#[test]
fn an_unsafe_launch_is_ordered_on_its_stream() {
    let world = world();
    let stream = &world.stream;
    let (a, mut b) = (world.buffer(1.0), world.buffer(0.0));
    stream.theirs().synchronize().unwrap();
    delay(stream.theirs());
    world.unknown_scale(stream.theirs(), &a, &mut b, 2.0);
    assert_eq!(stream.host(&b).unwrap()[LEN - 1], 2.0);
    delay(stream.theirs());
    world.unknown_scale(stream.theirs(), &a, &mut b, 3.0);
    let last = stream.with_mut(&mut b, |view| Ok(view.host()?[LEN - 1]));
    assert_eq!(last.unwrap(), 3.0);
    delay(stream.theirs());
    world.unknown_scale(stream.theirs(), &a, &mut b, 4.0);
    let b = stream.take_unified(b).unwrap();
    assert_eq!(b.host().unwrap()[LEN - 1], 4.0);
}

#[test]
fn a_shared_or_taken_buffer_keeps_the_order() {
    let world = world();
    let (stream, ours) = (
        &world.stream,
        world.shared.device().create_stream().unwrap(),
    );
    let (mut buffer, mut b) = (world.unified(1.0), world.buffer(0.0));
    // SAFETY: only host functions are on the stream.
    let theirs = unsafe { cuda_core::Stream::borrow_raw(ours.as_raw().cast(), &world.context) };
    delay(&theirs);
    buffer.fill_on(2.0, &ours).unwrap();
    let a = stream.share(buffer).unwrap();
    world.scale(stream.theirs(), &a, &mut b, 2.0);
    assert_eq!(stream.host(&b).unwrap()[LEN - 1], 4.0);
    delay(stream.theirs());
    world.scale(stream.theirs(), &a, &mut b, 3.0);
    let mut b = stream.take_unified(b).unwrap();
    assert_eq!(b.host_mut().unwrap()[LEN - 1], 6.0);
}

#[test]
fn memory_is_freed_after_the_work() {
    let world = world();
    let (stream, a) = (&world.stream, world.buffer(1.0));
    let options = PoolOptions::default();
    let pool = Pool::new(world.shared.device(), MemoryKind::Managed, options).unwrap();
    let make = |value| UnifiedBuffer::from_slice_in(&pool, &[value; LEN]).unwrap();
    let mut b = stream.share(make(0.0)).unwrap();
    let address = b.cu_deviceptr();
    delay(stream.theirs());
    world.scale(stream.theirs(), &a, &mut b, 2.0);
    drop((a, b));
    // The kernel may still run: the memory has no next owner.
    let next = make(9.0);
    assert_ne!(next.as_ptr() as u64, address);
    stream.theirs().synchronize().unwrap();
    assert_eq!(next.host().unwrap()[LEN - 1], 9.0);
}

#[test]
fn a_panic_in_lent_work_keeps_the_order() {
    let world = world();
    let (stream, ours) = (
        &world.stream,
        world.shared.device().create_stream().unwrap(),
    );
    let mut a = world.buffer(1.0);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.with_mut(&mut a, |mut view| -> cuda_um::Result<()> {
            view.fill_on(4.0, &ours)?;
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(a.to_host_vec(stream.theirs()).unwrap()[0], 4.0);
}
