//! Managed memory of the driver's pool.

use cuda_um::{
    Advice, Device, Error, ErrorKind, Location, MemoryKind, PinnedBuffer, PoolOptions,
    UnifiedBuffer,
    resource::{DriverPool, MemoryResource},
    sys,
};
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_testkit::{Checked, device, is_concurrent, open_with, simulated_with};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

fn machine() -> (Checked, Device, cuda_um::Stream) {
    simulated_with(|builder| builder.gpu(Gpu::H200).cuda(CudaVersion::V13_0))
}

fn pool(device: &Device) -> DriverPool {
    DriverPool::new(device, MemoryKind::Managed, PoolOptions::default()).unwrap()
}

/// Another library's `cudaFreeAsync`.
fn their_free(sim: &Sim, address: *mut u8, stream: &cuda_um::Stream) {
    // SAFETY: the memory is from a pool, and not used by later work.
    let code = unsafe { (sim.table().cudaFreeAsync)(address.cast(), stream.as_raw()) };
    assert_eq!(code, sys::cudaError::cudaSuccess);
}

#[test]
fn it_is_there_from_13_0_on_and_an_error_tells_why_not() {
    let (_sim, device, _) = device();
    let version = device.runtime().version();
    let outcome = DriverPool::new(&device, MemoryKind::Managed, PoolOptions::default());
    if (version.major, version.minor) >= (13, 0) && is_concurrent(&device) {
        let pool = outcome.unwrap();
        assert_eq!(pool.kind(), MemoryKind::Managed);
        let buffer = UnifiedBuffer::from_slice_in(&pool, &[1u32, 2, 3]).unwrap();
        assert_eq!(*buffer.host().unwrap(), [1, 2, 3]);
        assert_eq!(pool.stats().live_buffers, 1);
        drop(buffer);
        assert_eq!(pool.stats().live_buffers, 0);
        assert!(format!("{pool:?}").contains("DriverPool { device: 0, kind: Managed"));
    } else {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let text = error.to_string();
        assert!(
            text.contains("13.0")
                || text.contains("concurrentManagedAccess")
                || text.contains("managedMemory"),
            "{text}"
        );
    }
}

#[test]
fn an_old_version_is_named() {
    let (_sim, device, _) =
        simulated_with(|builder| builder.gpu(Gpu::H200).cuda(CudaVersion::V12_9));
    let error = DriverPool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap_err();
    assert!(
        error.to_string().ends_with("and there is CUDA 12.9"),
        "{error}"
    );
}

#[test]
fn its_memory_migrates_and_takes_no_advice() {
    let (_sim, device, stream) = machine();
    let pool = pool(&device);
    for _ in 0..3 {
        let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&pool, 1 << 20).unwrap();
        let refused = buffer.advise(Advice::SetPreferredLocation(Location::Host));
        let error = refused.unwrap().require().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.to_string().contains("cudaMallocManaged"), "{error}");
        buffer.prefetch_on(Location::Host, &stream).unwrap();
        buffer.host_mut().unwrap()[5] = 7;
        buffer.fill_on(3, &stream).unwrap();
    }
    device.synchronize().unwrap();
    assert_eq!(pool.stats().live_bytes, 0);
}

/// claim 14
#[test]
fn another_owner_frees_its_memory_in_stream_order() {
    let (sim, device, stream) = machine();
    let pool = pool(&device);
    let ours = device.create_stream().unwrap();
    for round in 0..100u32 {
        let mut buffer = UnifiedBuffer::<u32>::zeroed_in(&pool, 10_000).unwrap();
        buffer.fill_on(round, &ours).unwrap();
        let address = buffer
            .into_raw(&stream)
            .map_err(|(_, error)| error)
            .unwrap();
        assert_eq!(pool.stats().live_buffers, 0);
        their_free(&sim, address.as_ptr().cast(), &stream);
    }
    device.synchronize().unwrap();
    device.runtime().reclaim().unwrap();
    drop(pool);
    device.runtime().reclaim().unwrap();
}

#[test]
fn the_pool_stays_while_another_owner_has_its_memory() {
    let (sim, device, stream) = machine();
    let pool = pool(&device);
    let buffer = UnifiedBuffer::<u32>::zeroed_in(&pool, 10_000).unwrap();
    let address = buffer
        .into_raw(&stream)
        .map_err(|(_, error)| error)
        .unwrap();
    drop(pool);
    device.synchronize().unwrap();
    assert_eq!(cuda_um_testkit::calls(&sim, "cudaMemPoolDestroy"), 0);
    their_free(&sim, address.as_ptr().cast(), &stream);
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
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("DriverPool"), "{error}");
    assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
    let empty = UnifiedBuffer::<u32>::zeroed(&device, 0).unwrap();
    assert!(empty.into_raw(&stream).is_err());
}

#[test]
fn given_memory_counts_until_its_new_owner_frees_it() {
    let (sim, device, stream) = machine();
    let pool = pool(&device);
    let buffer = UnifiedBuffer::<u8>::zeroed_in(&pool, 1 << 20).unwrap();
    let address = buffer
        .into_raw(&stream)
        .map_err(|(_, error)| error)
        .unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live_buffers, stats.live_bytes), (0, 1 << 20));
    their_free(&sim, address.as_ptr(), &stream);
    stream.synchronize().unwrap();
    assert_eq!(pool.stats().live_bytes, 0);
    let total = device.memory_info().unwrap().total_bytes;
    let error = UnifiedBuffer::<u8>::uninit_in(&pool, total + 1).unwrap_err();
    assert!(error.to_string().contains("oversubscribe"), "{error}");
    assert_eq!(pool.stats().live_buffers, 0);
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
    let address = NonNull::new(theirs.as_view().as_ptr().cast_mut()).unwrap();
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let ours = unsafe { UnifiedBuffer::from_foreign(&b300, address, 1000, theirs) }.unwrap();
    assert_eq!(ours.to_vec().unwrap(), [1; 1000]);
    drop(ours);
    let pinned = PinnedBuffer::from_slice(&device, &[1u32; 8]).unwrap();
    let address = NonNull::new(pinned.as_view().as_ptr().cast_mut()).unwrap();
    // SAFETY: the buffer lives longer, and nothing else uses it.
    let refused = unsafe { UnifiedBuffer::from_foreign(&b300, address, 8, ()) };
    assert!(matches!(refused, Err(Error::Foreign { .. })), "{refused:?}");
    b300.runtime().reclaim().unwrap();
    *TABLE.lock().unwrap() = None;
}
