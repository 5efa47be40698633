//! Buffers as slices of cudarc.

use crate::support::{LEN, scale, world};
use cuda_um::{Advice, Location, UnifiedBuffer};
use cudarc::driver::{DeviceSlice, PushKernelArg};

#[test]
fn launches_and_copies_of_cudarc_take_a_buffer() {
    let Some(world) = world() else { return };
    let (stream, function) = (world.stream(), world.scale());
    let theirs = stream.theirs();
    let (a, mut b) = (world.slice(&stream, 1.5), world.slice(&stream, 0.0));
    assert_eq!(
        (a.len(), a.is_empty(), DeviceSlice::len(&a)),
        (LEN, false, LEN)
    );
    assert_eq!(DeviceSlice::stream(&a), theirs);
    scale!(theirs, function, &a, &mut b, 2.0);
    assert!(b.host().unwrap().iter().all(|value| *value == 3.0));
    scale!(theirs, function, a.as_slice(), &mut b.as_view_mut(), 4.0);
    assert_eq!(theirs.clone_dtoh(&b).unwrap(), vec![6.0; LEN]);
    scale!(
        theirs,
        function,
        &b.as_view(),
        &mut world.slice(&stream, 0.0),
        4.0
    );

    b.host_mut().unwrap().fill(7.0);
    assert_eq!(
        theirs.clone_dtoh(&b.as_view().slice(1..3)).unwrap(),
        [7.0; 2]
    );
    theirs.memcpy_htod(&[9.0; LEN], &mut b).unwrap();
    assert_eq!(b.host().unwrap()[LEN - 1], 9.0);
    theirs.memcpy_dtod(&a, &mut b).unwrap();
    theirs
        .memset_zeros(&mut b.as_view_mut().slice_mut(1..))
        .unwrap();
    assert_eq!(b.host().unwrap()[..3], [1.5, 0.0, 0.0]);
}

#[test]
fn a_shared_buffer_is_still_a_unified_buffer() {
    let Some(world) = world() else { return };
    let stream = world.stream();
    let mut a = world.slice(&stream, 1.0);
    a.set_name("weights");
    a.advise(Advice::SetPreferredLocation(Location::from(
        world.shared().device(),
    )))
    .unwrap();
    a.prefetch_on(Location::Host, stream.ours()).unwrap();
    a.prefetch_on(Location::from(world.shared().device()), stream.ours())
        .unwrap();
    assert!(a.residency().is_ok());
    a.with_mut(|mut view| view.fill_on(2.0, stream.ours()))
        .unwrap();
    assert_eq!(a.stream().theirs(), stream.theirs());
    assert!(format!("{a:?}").contains("10000"), "{a:?}");
    let buffer = a.into_buffer().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [2.0; LEN]);
}

#[test]
fn a_slice_that_is_leaked_swapped_or_cloned_frees_nothing_twice() {
    let Some(mut world) = world() else { return };
    let stream = world.stream();
    let (mut a, mut b) = (world.slice(&stream, 1.0), world.slice(&stream, 2.0));
    {
        let (mut first, mut second) = (a.as_view_mut(), b.as_view_mut());
        std::mem::swap(&mut first, &mut second);
        stream.theirs().memset_zeros(&mut first).unwrap();
    }
    assert_eq!((a.host().unwrap()[0], b.host().unwrap()[0]), (1.0, 0.0));
    std::mem::swap(&mut a, &mut b);
    assert_eq!((a.host().unwrap()[0], b.host().unwrap()[0]), (0.0, 1.0));
    // The clone is a slice of cudarc, with memory of its own.
    let clone = b.as_slice().clone();
    b.host_mut().unwrap().fill(5.0);
    assert_eq!(stream.theirs().clone_dtoh(&clone).unwrap()[0], 1.0);
    drop(clone);
    // A leak is a leak: the buffer's pool cannot free its slab, and the events of the slice and the stream's are left.
    std::mem::forget(a);
    world.leaks = usize::MAX / 2;
}

#[test]
fn an_empty_buffer_is_an_empty_slice() {
    let Some(world) = world() else { return };
    let stream = world.stream();
    let empty = UnifiedBuffer::<f32>::zeroed(world.shared().device(), 0).unwrap();
    let mut empty = stream.share(empty).unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.host_mut().unwrap().len(), 0);
    assert_eq!(empty.into_buffer().unwrap().len(), 0);
}
