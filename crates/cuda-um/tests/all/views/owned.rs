//! Host guards that own a reference to their buffer.

use crate::views::on_each_gpu;
use cuda_um::{
    DeviceBuffer, HostRef, PinnedBuffer, RegisteredBuffer, Result, UnifiedBuffer,
    buffer::{HostOwned, HostOwnedMut},
};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, simulated};
use std::ops::Deref;
use std::sync::Arc;

struct Tensor {
    storage: Arc<UnifiedBuffer<f32>>,
}

impl Tensor {
    fn data(&self) -> impl Deref<Target = [f32]> + use<> {
        HostOwned::new(Arc::clone(&self.storage), |storage| storage.host()).unwrap()
    }
}

#[test]
fn a_guard_outlives_the_tensor() {
    on_each_gpu(|_, device, _| {
        let storage = UnifiedBuffer::from_vec(device, vec![1.0, 2.0, 3.0]).unwrap();
        let tensor = Tensor {
            storage: Arc::new(storage),
        };
        let (first, second) = (tensor.data(), tensor.data());
        drop(tensor);
        assert_eq!(first[..], second[..]);
        drop(first);
        assert_eq!(second[..], [1.0, 2.0, 3.0]);
    });
}

#[test]
fn while_it_lives_the_buffer_is_shared() {
    on_each_gpu(|_, device, stream| {
        let mut pinned = Arc::new(PinnedBuffer::from_slice(device, &[1u8; 10]).unwrap());
        let guard = HostOwned::new(Arc::clone(&pinned), |pinned| pinned.host()).unwrap();
        assert!(Arc::get_mut(&mut pinned).is_none());
        assert!(Arc::ptr_eq(guard.owner(), &pinned));
        drop(guard);
        let buffer = Arc::get_mut(&mut pinned).unwrap();
        buffer.fill_on(2, stream).unwrap();
        let guard = HostOwned::new(pinned, |pinned| pinned.host()).unwrap();
        assert_eq!(format!("{guard:?}"), "[2, 2, 2, 2, 2, 2, 2, 2, 2, 2]");
        let registered = RegisteredBuffer::from_vec(device, vec![0; 3]).unwrap();
        let guard: HostOwned<u64, _> =
            HostOwned::new(Arc::new(registered), |memory| memory.host()).unwrap();
        assert_eq!(guard[..], [0; 3]);
    });
}

#[test]
fn it_waits_for_the_kernel() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let paused = sim.pause();
    let add = Add::load(&device);
    add.launch(&stream, 100, (&mut buffer, 100u32, 4u32))
        .unwrap();
    let buffer = Arc::new(buffer);
    let resume = std::thread::spawn(move || drop(paused));
    let guard = HostOwned::new(buffer, |buffer| buffer.host()).unwrap();
    assert_eq!(guard[..], [4; 100]);
    resume.join().unwrap();
}

/// A trait of a framework, behind which the kind of buffer is unknown.
trait Storage {
    fn host(&self) -> Result<HostRef<'_, u32>>;
}

impl Storage for UnifiedBuffer<u32> {
    fn host(&self) -> Result<HostRef<'_, u32>> {
        self.view(1..)?.host()
    }
}

impl Storage for DeviceBuffer<u32> {
    fn host(&self) -> Result<HostRef<'_, u32>> {
        self.as_view().host()
    }
}

#[test]
fn it_is_made_of_any_owner() {
    on_each_gpu(|_, device, _| {
        let storage: Arc<dyn Storage> =
            Arc::new(UnifiedBuffer::from_slice(device, &[1u32, 2, 3]).unwrap());
        let guard = HostOwned::new(storage, |storage| storage.host()).unwrap();
        assert_eq!(guard[..], [2, 3]);
        drop(guard);
        let storage: Arc<dyn Storage> =
            Arc::new(DeviceBuffer::from_slice(device, &[1u32, 2, 3]).unwrap());
        let refused = HostOwned::new(storage, |storage| storage.host());
        assert!(refused.is_err());
    });
}

/// The guard that writes owns its buffer: it ends before the buffer, on every way out.
#[test]
fn a_guard_that_writes_owns_its_buffer() {
    on_each_gpu(|_, device, _| {
        let buffer = Box::new(PinnedBuffer::from_slice(device, &[1u32, 2, 3]).unwrap());
        let guard = HostOwnedMut::new(buffer, |buffer| buffer.host_mut());
        let mut moved = vec![guard.unwrap()];
        moved[0][1] = 7;
        assert_eq!(format!("{:?}", moved[0]), "[1, 7, 3]");
        moved.remove(0).close().unwrap();
        let memory = Box::new(DeviceBuffer::<u8>::zeroed(device, 4).unwrap());
        let refused = HostOwnedMut::new(memory, |memory| memory.as_view_mut().into_host_mut());
        assert!(refused.is_err(), "the host cannot use device memory");
    });
}
