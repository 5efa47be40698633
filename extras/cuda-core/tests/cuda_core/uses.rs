//! Buffers of one library in functions of the other one.

use crate::support::{LEN, world};
use cuda_core::DeviceBuffer;
use cuda_um::{Advice, Location, UnifiedBuffer};
use um_backend::{DType, ErasedBuffer};

#[test]
fn a_unified_buffer_is_an_argument_and_the_host_uses_it_in_place() {
    let world = world();
    let (stream, mut a) = (&world.stream, world.buffer(1.5));
    let mut b = world.buffer(0.0);
    stream.host_mut(&mut a).unwrap()[1] = 4.0;
    world.scale(stream.theirs(), &a, &mut b, 2.0);
    let host = stream.host(&b).unwrap();
    assert_eq!((host.len(), &host[..3]), (LEN, &[3.0, 8.0, 3.0][..]));
    drop(host);
    // cuda-core's own copies.
    assert_eq!(b.to_host_vec(stream.theirs()).unwrap()[..2], [3.0, 8.0]);
    let plain = DeviceBuffer::from_host(stream.theirs(), &[7.0; LEN]).unwrap();
    world.scale(stream.theirs(), &plain, &mut a, 1.0);
    assert_eq!(stream.host(&a).unwrap()[LEN - 1], 7.0);
}

#[test]
fn a_lent_buffer_has_the_operations_of_a_unified_one() {
    let world = world();
    let (stream, mut a) = (&world.stream, world.buffer(1.0));
    let device = Location::from(world.shared.device());
    let residency = stream.with_mut(&mut a, |mut view| {
        view.as_view()
            .advise(Advice::SetPreferredLocation(device))?;
        view.as_view().prefetch_on(device, stream.ours())?;
        view.fill_on(2.0, stream.ours())?;
        assert_eq!(view.host()?[7], 2.0);
        view.as_view().advise(Advice::UnsetPreferredLocation)?;
        view.as_view().residency()
    });
    residency.unwrap();
    assert_eq!(a.to_host_vec(stream.theirs()).unwrap(), [2.0; LEN]);
}

#[test]
fn buffers_of_cuda_core_become_buffers_of_cuda_um() {
    let world = world();
    let (stream, a) = (&world.stream, world.buffer(3.0));
    let mut plain = DeviceBuffer::<f32>::zeroed(stream.theirs(), LEN).unwrap();
    world.scale(stream.theirs(), &a, &mut plain, 2.0);
    let bytes = plain.cast_chunks::<u8>().ok().unwrap();
    let bytes = Box::new(stream.take_device(bytes).unwrap());
    let storage = ErasedBuffer::from_bytes(bytes, DType::F32).unwrap();
    assert_eq!(
        storage.typed::<f32>().unwrap().to_vec().unwrap(),
        [6.0; LEN]
    );
    let mut unified = stream.take_unified(a).unwrap();
    unified.host_mut().unwrap()[0] = 1.0;
    assert_eq!(unified.host().unwrap()[..2], [1.0, 3.0]);
}

#[test]
fn empty_buffers_have_no_memory() {
    let world = world();
    let empty = UnifiedBuffer::<f32>::zeroed(world.shared.device(), 0).unwrap();
    let mut empty = world.stream.share(empty).unwrap();
    assert!(world.stream.host_mut(&mut empty).unwrap().is_empty());
    world
        .stream
        .with_mut(&mut empty, |mut view| view.fill(1.0))
        .unwrap();
    assert!(world.stream.take_unified(empty).unwrap().is_empty());
}
