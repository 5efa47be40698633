//! Host guards that own a reference to their buffer.

use crate::views::everywhere;
use cuda_um::{
    DeviceBuffer, PinnedBuffer, RegisteredBuffer, UnifiedBuffer,
    buffer::{HostOwned, HostOwnedMut},
};
use std::sync::Arc;

/// claim 3
#[test]
fn a_guard_outlives_the_handles_and_the_buffer_is_shared_while_it_lives() {
    for (_sim, device, stream) in everywhere() {
        let storage = Arc::new(UnifiedBuffer::from_vec(&device, vec![1.0, 2.0, 3.0]).unwrap());
        let guard = || HostOwned::new(Arc::clone(&storage), |storage| storage.host()).unwrap();
        let (first, second) = (guard(), guard());
        drop(storage);
        assert_eq!(first[..], second[..]);
        drop(first);
        assert_eq!(second[..], [1.0, 2.0, 3.0]);
        drop(second);

        let mut pinned = Arc::new(PinnedBuffer::from_slice(&device, &[1u8; 4]).unwrap());
        let guard = HostOwned::new(Arc::clone(&pinned), |pinned| pinned.host()).unwrap();
        assert!(Arc::get_mut(&mut pinned).is_none());
        assert!(Arc::ptr_eq(guard.owner(), &pinned));
        drop(guard);
        let buffer = Arc::get_mut(&mut pinned).unwrap();
        buffer.fill_on(2, &stream).unwrap();
        let guard = HostOwned::new(pinned, |pinned| pinned.host()).unwrap();
        assert_eq!(format!("{guard:?}"), "[2, 2, 2, 2]");
        let registered = Arc::new(RegisteredBuffer::from_vec(&device, vec![0u64; 3]).unwrap());
        let guard = HostOwned::new(registered, |memory| memory.host()).unwrap();
        assert_eq!(guard[..], [0; 3]);
    }
}

/// The guard that writes owns its buffer: it ends before the buffer, on every way out.
#[test]
fn a_guard_that_writes_owns_its_buffer() {
    for (_sim, device, _stream) in everywhere() {
        let buffer = Box::new(PinnedBuffer::from_slice(&device, &[1u32, 2, 3]).unwrap());
        let guard = HostOwnedMut::new(buffer, |buffer| buffer.host_mut());
        let mut moved = vec![guard.unwrap()];
        moved[0][1] = 7;
        assert_eq!(format!("{:?}", moved[0]), "[1, 7, 3]");
        moved.remove(0).close().unwrap();
        let memory = Box::new(DeviceBuffer::<u8>::zeroed(&device, 4).unwrap());
        let refused = HostOwnedMut::new(memory, |memory| memory.as_view_mut().into_host_mut());
        assert!(refused.is_err(), "the host cannot use device memory");
    }
}
