//! Managed memory of the driver's pool.

use super::at;
use cuda_um::resource::{DriverPool, MemoryResource};
use cuda_um::{
    Advice, Device, DeviceCopy, Error, Location, MemoryKind, PinnedBuffer, PoolOptions, Stream,
    UnifiedBuffer, sys,
};
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_testkit::{Checked, device, fails, open_with, simulated_with};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

fn machine() -> (Checked, Device, Stream) {
    simulated_with(|builder| builder.gpu(Gpu::H200).cuda(CudaVersion::V13_0))
}

fn pool(device: &Device) -> DriverPool {
    DriverPool::new(device, MemoryKind::Managed, PoolOptions::default()).unwrap()
}

/// Another library's `cudaFreeAsync`.
fn their_free(sim: &Sim, address: *mut u8, stream: &Stream) {
    // SAFETY: the memory is from a pool, and not used by later work.
    let code = unsafe { (sim.table().cudaFreeAsync)(address.cast(), stream.as_raw()) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
}

#[test]
fn buffers_of_it_count() {
    let (_sim, device, _) = machine();
    let pool = pool(&device);
    assert_eq!(pool.kind(), MemoryKind::Managed);
    let buffer = UnifiedBuffer::from_slice_in(&pool, &[1u32, 2, 3]).unwrap();
    assert_eq!(*buffer.host().unwrap(), [1, 2, 3]);
    assert_eq!(pool.stats().live_buffers, 1);
    drop(buffer);
    assert_eq!(pool.stats().live_buffers, 0);
    assert!(format!("{pool:?}").contains("DriverPool { device: 0, kind: Managed"));
}

#[test]
fn its_memory_migrates_and_takes_no_advice() {
    let (_sim, device, stream) = machine();
    let pool = pool(&device);
    for _ in 0..3 {
        let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&pool, 1 << 20).unwrap();
        let advised = buffer.advise(Advice::SetPreferredLocation(Location::Host));
        let refused = advised.unwrap().require();
        fails!(refused, Error::NotSupported { .. }, "cudaMallocManaged");
        buffer.prefetch_on(Location::Host, &stream).unwrap();
        buffer.host_mut().unwrap()[5] = 7;
        buffer.fill_on(3, &stream).unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(pool.stats().live_bytes, 0);
    let total = device.memory_info().unwrap().total_bytes;
    let more = UnifiedBuffer::<u8>::uninit_in(&pool, total + 1);
    fails!(more, Error::OutOfMemory { .. }, "oversubscribe");
}

/// Gives a buffer to another owner, which uses it on a stream.
fn given<T: DeviceCopy>(buffer: UnifiedBuffer<T>, stream: &Stream) -> *mut u8 {
    let raw = buffer.into_raw(stream).map_err(|(_, error)| error);
    raw.unwrap().as_ptr().cast()
}

/// claim 14: until its new owner frees it, the memory counts, and its pool stays
#[test]
fn another_owner_frees_its_memory_in_stream_order() {
    let (sim, device, stream) = machine();
    let pool = pool(&device);
    let ours = device.create_stream().unwrap();
    for round in 0..100u32 {
        let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&pool, 10_000).unwrap();
        buffer.fill_on(round, &ours).unwrap();
        let address = given(buffer, &stream);
        assert_eq!(pool.stats().live_buffers, 0);
        their_free(&sim, address, &stream);
    }
    stream.synchronize().unwrap();
    let address = given(
        UnifiedBuffer::<u8>::zeroed_in(&pool, 1 << 20).unwrap(),
        &stream,
    );
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 1 << 20));
    drop(pool);
    device.synchronize().unwrap();
    assert_eq!(cuda_um_testkit::calls(&sim, "cudaMemPoolDestroy"), 0);
    their_free(&sim, address, &stream);
    stream.synchronize().unwrap();
    sim.leaves(1, "the pool stays", |leak| {
        matches!(leak, cuda_um_sim::Leak::Pool)
    });
}

#[test]
fn other_memory_comes_back_with_the_error() {
    let (_sim, device, stream) = device();
    let buffer = UnifiedBuffer::from_slice(&device, &[1u32, 2]).unwrap();
    let (buffer, error) = buffer.into_raw(&stream).unwrap_err();
    fails!(
        Err::<(), _>(error),
        Error::NotSupported { .. },
        "DriverPool"
    );
    assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
}

static TABLE: Mutex<Option<Arc<sys::Table>>> = Mutex::new(None);

/// Reports all memory that CUDA knows as memory of the host, as was seen for the managed memory of a pool on a B300.
unsafe extern "C" fn as_host(
    attributes: *mut sys::cudaPointerAttributes,
    address: *const c_void,
) -> sys::cudaError_t {
    let table = TABLE.lock().unwrap();
    // SAFETY: guaranteed by the caller; the call has written the structure.
    unsafe {
        let code = (table.as_ref().unwrap().cudaPointerGetAttributes)(attributes, address);
        (*attributes).type_ = sys::cudaMemoryType::cudaMemoryTypeHost;
        code
    }
}

#[test]
fn managed_memory_that_is_reported_as_the_hosts_is_known_by_its_pool() {
    let (sim, device, _) = machine();
    *TABLE.lock().unwrap() = Some(sim.table());
    // SAFETY: the function calls the simulator's.
    let b300 = unsafe { open_with(&sim, c"cudaPointerGetAttributes", as_host as *const c_void) };
    let b300 = b300.device(0).unwrap();
    let theirs = UnifiedBuffer::from_slice_in(&pool(&device), &[1u32; 1000]).unwrap();
    device.synchronize().unwrap();
    let address = at(theirs.as_view().as_ptr());
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let ours = unsafe { UnifiedBuffer::from_foreign(&b300, address, 1000, theirs) }.unwrap();
    assert_eq!(ours.to_vec().unwrap(), [1; 1000]);
    drop(ours);
    let pinned = PinnedBuffer::from_slice(&device, &[1u32; 8]).unwrap();
    let address = at(pinned.as_view().as_ptr());
    // SAFETY: the buffer lives longer, and nothing else uses it.
    let refused = unsafe { UnifiedBuffer::from_foreign(&b300, address, 8, ()) };
    fails!(refused, Error::Foreign { .. });
    b300.runtime().reclaim().unwrap();
    *TABLE.lock().unwrap() = None;
}
