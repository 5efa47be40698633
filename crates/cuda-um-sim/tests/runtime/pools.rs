//! Pools and stream-ordered allocation.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Barrier;

use cuda_um_sim::{CudaVersion, Gpu, Leak, Misuse, Sim};
use cuda_um_sys::{cudaError, cudaMemPool_t, cudaMemPoolAttr, cudaStream_t};

use crate::support::{Cuda, MIB, bytes, call, h200, location, ok};

/// `cudaMemPoolProps`: 88 bytes in every version; the kind at 0, the location at 8.
#[repr(C, align(8))]
struct Props([u8; 88]);

const PINNED: u8 = 1;
const MANAGED: u8 = 2;

fn props(kind: u8) -> Props {
    let mut props = Props([0; 88]);
    props.0[0] = kind;
    props.0[8] = 1;
    props
}

fn create(cuda: &Cuda, props: &Props) -> Result<cudaMemPool_t, cudaError> {
    let mut pool = null_mut();
    match call!(
        cuda.table,
        cudaMemPoolCreate(&mut pool, std::ptr::from_ref(props).cast())
    ) {
        cudaError::cudaSuccess => Ok(pool),
        error => Err(error),
    }
}

fn get(cuda: &Cuda, pool: cudaMemPool_t, attribute: u32) -> u64 {
    let mut value = 0u64;
    ok(call!(
        cuda.table,
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttr(attribute), (&raw mut value).cast())
    ));
    value
}

fn keep_everything(cuda: &Cuda, pool: cudaMemPool_t) {
    let mut threshold = u64::MAX;
    ok(call!(
        cuda.table,
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttr(4), (&raw mut threshold).cast())
    ));
}

/// A managed pool that gives nothing back.
pub(crate) fn managed_pool(cuda: &Cuda) -> cudaMemPool_t {
    let pool = create(cuda, &props(MANAGED)).unwrap();
    keep_everything(cuda, pool);
    pool
}

fn allocate(cuda: &Cuda, bytes: usize, stream: cudaStream_t) -> Result<*mut u8, cudaError> {
    let mut pointer = null_mut();
    match call!(cuda.table, cudaMallocAsync(&mut pointer, bytes, stream)) {
        cudaError::cudaSuccess => Ok(pointer.cast()),
        error => Err(error),
    }
}

#[test]
fn memory_of_the_default_pool_comes_and_goes_in_stream_order() {
    let cuda = h200();
    let (stream, mut pool) = (cuda.stream(), null_mut());
    ok(call!(cuda.table, cudaDeviceGetDefaultMemPool(&mut pool, 0)));
    let pause = cuda.sim.pause();
    let data = allocate(&cuda, MIB, stream).unwrap();
    cuda.launch("write", data, MIB, stream);
    ok(call!(cuda.table, cudaFreeAsync(data.cast(), stream)));
    assert_eq!(
        get(&cuda, pool, 7),
        MIB as u64,
        "not free before the stream gets there"
    );
    assert_eq!(
        call!(cuda.table, cudaFreeAsync(data.cast(), stream)),
        cudaError::cudaErrorInvalidValue
    );
    assert_eq!(
        cuda.sim.misuse(),
        [Misuse::DoubleFree {
            address: data as usize
        }]
    );
    drop(pause);
    cuda.sync(stream);
    assert_eq!((get(&cuda, pool, 7), get(&cuda, pool, 8)), (0, MIB as u64));
    assert_eq!(
        get(&cuda, pool, 5),
        0,
        "with a release threshold of 0 nothing is kept"
    );
    let memory = cuda
        .sim
        .leaks()
        .into_iter()
        .filter(|leak| matches!(leak, Leak::Memory { .. }));
    assert_eq!(memory.count(), 0);
}

/// Waits at the barrier that `gate` points to.
unsafe extern "C" fn pass(gate: *mut c_void) {
    // SAFETY: the test keeps its barrier until the stream is done.
    unsafe { &*gate.cast::<Barrier>() }.wait();
}

#[test]
fn a_kernel_may_run_before_the_free_but_not_after() {
    let cuda = h200();
    let (stream, other) = (cuda.stream(), cuda.stream());
    let pause = cuda.sim.pause();
    let data = allocate(&cuda, MIB, stream).unwrap();
    cuda.launch("write", data, MIB, stream);
    ok(call!(cuda.table, cudaFreeAsync(data.cast(), stream)));
    drop(pause);
    cuda.sync(stream);
    assert_eq!(cuda.sim.misuse(), [], "it was enqueued before the free");

    let data = allocate(&cuda, MIB, stream).unwrap();
    cuda.sync(stream);
    // The free waits behind a function of the host until the kernel has run.
    let gate = Barrier::new(2);
    ok(call!(
        cuda.table,
        cudaLaunchHostFunc(stream, Some(pass), (&raw const gate).cast_mut().cast())
    ));
    ok(call!(cuda.table, cudaFreeAsync(data.cast(), stream)));
    cuda.launch("write", data, MIB, other);
    cuda.sync(other);
    gate.wait();
    cuda.sync(stream);
    let address = data as usize;
    assert_eq!(cuda.sim.misuse(), [Misuse::UseAfterFree { address }]);
}

#[test]
fn a_pool_keeps_up_to_its_release_threshold() {
    let cuda = h200();
    let (stream, pool) = (cuda.stream(), create(&cuda, &props(PINNED)).unwrap());
    keep_everything(&cuda, pool);
    let mut pointer = null_mut();
    ok(call!(
        cuda.table,
        cudaMallocFromPoolAsync(&mut pointer, 3 * MIB, pool, stream)
    ));
    ok(call!(cuda.table, cudaFreeAsync(pointer, stream)));
    cuda.sync(stream);
    assert_eq!(
        (get(&cuda, pool, 5), get(&cuda, pool, 7)),
        (4 * MIB as u64, 0)
    );
    ok(call!(cuda.table, cudaMemPoolTrimTo(pool, 0)));
    assert_eq!(get(&cuda, pool, 5), 0);
    ok(call!(cuda.table, cudaMemPoolDestroy(pool)));
    assert_eq!(
        call!(cuda.table, cudaMemPoolDestroy(pool)),
        cudaError::cudaErrorInvalidValue
    );
}

#[test]
fn pool_memory_is_the_devices() {
    let cuda = Cuda::new(Sim::builder().total_memory_bytes(64 * MIB as u64));
    let stream = cuda.stream();
    let free = || {
        let (mut free, mut total) = (0, 0);
        ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
        free
    };
    let before = free();
    let data = allocate(&cuda, 40 * MIB, stream).unwrap();
    assert_eq!(free(), before - 40 * MIB);
    assert_eq!(
        allocate(&cuda, 40 * MIB, stream),
        Err(cudaError::cudaErrorMemoryAllocation)
    );
    ok(call!(cuda.table, cudaFreeAsync(data.cast(), stream)));
    let again = allocate(&cuda, 40 * MIB, stream).expect("waits for the free that is under way");
    cuda.free(again);
    assert_eq!(free(), before);
}

#[test]
fn managed_pools_came_with_13_and_want_plain_properties() {
    let cuda = h200();
    let stream = cuda.stream();
    let pool = managed_pool(&cuda);
    let mut pointer = null_mut();
    ok(call!(
        cuda.table,
        cudaMallocFromPoolAsync(&mut pointer, MIB, pool, stream)
    ));
    let data = pointer.cast::<u8>();
    bytes(data, MIB).fill(1);
    cuda.run("add", data, MIB);
    assert_eq!(bytes(data, MIB)[5], 2);
    assert!(cuda.sim.counters().gpu_faults > 0);
    ok(call!(cuda.table, cudaFreeAsync(pointer, stream)));
    let mut limited = props(MANAGED);
    limited.0[25] = 1;
    assert_eq!(
        create(&cuda, &limited).err(),
        Some(cudaError::cudaErrorInvalidValue),
        "with a largest size"
    );
    let older = Cuda::new(Sim::builder().cuda(CudaVersion::V12_9));
    assert_eq!(
        create(&older, &props(MANAGED)).err(),
        Some(cudaError::cudaErrorInvalidValue)
    );
    let orin = Cuda::new(Sim::builder().gpu(Gpu::NoConcurrentAccess));
    assert_eq!(
        create(&orin, &props(MANAGED)).err(),
        Some(cudaError::cudaErrorNotSupported)
    );
}

#[test]
fn a_device_without_pools_says_so() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Maxwell));
    assert_eq!(
        allocate(&cuda, 16, null_mut()),
        Err(cudaError::cudaErrorNotSupported)
    );
}

#[test]
fn a_destroyed_pool_ends_with_its_last_allocation() {
    let cuda = h200();
    let (stream, pool) = (cuda.stream(), create(&cuda, &props(PINNED)).unwrap());
    ok(call!(cuda.table, cudaDeviceSetMemPool(0, pool)));
    let data = allocate(&cuda, MIB, stream).unwrap();
    ok(call!(cuda.table, cudaMemPoolDestroy(pool)));
    let (mut current, mut default) = (null_mut(), null_mut());
    ok(call!(cuda.table, cudaDeviceGetMemPool(&mut current, 0)));
    ok(call!(
        cuda.table,
        cudaDeviceGetDefaultMemPool(&mut default, 0)
    ));
    assert_eq!(current, default);
    cuda.run("write", data, MIB);
    ok(call!(cuda.table, cudaFreeAsync(data.cast(), stream)));
    cuda.sync(stream);
    assert_eq!(
        cuda.sim.leaks().len(),
        2,
        "the stream, and the module of the launch"
    );
}

#[test]
fn only_pool_memory_is_freed_in_stream_order() {
    let cuda = h200();
    let data = cuda.managed(16);
    assert_eq!(
        call!(cuda.table, cudaFreeAsync(data.cast(), null_mut())),
        cudaError::cudaErrorInvalidValue
    );
    ok(call!(cuda.table, cudaFreeAsync(null_mut(), null_mut())));
}

#[test]
fn another_device_may_use_a_pools_memory_when_it_is_told_so() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let pool = create(&cuda, &props(PINNED)).unwrap();
    let mut pointer = null_mut();
    ok(call!(
        cuda.table,
        cudaMallocFromPoolAsync(&mut pointer, MIB, pool, cuda.stream())
    ));
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    let access = |device: i32, flags: u32| {
        let description = cuda_um_sys::cudaMemAccessDesc {
            location: location(device),
            flags: cuda_um_sys::cudaMemAccessFlags(flags),
        };
        call!(cuda.table, cudaMemPoolSetAccess(pool, &description, 1))
    };
    assert_eq!(
        access(0, 0),
        cudaError::cudaErrorInvalidDevice,
        "the owner's access stays"
    );
    assert_eq!(access(7, 3), cudaError::cudaErrorInvalidDevice);
    ok(access(1, 3));
    ok(call!(cuda.table, cudaSetDevice(1)));
    cuda.run("write", pointer.cast(), MIB);
    ok(access(1, 0));
    cuda.launch("write", pointer.cast(), MIB, null_mut());
    assert_eq!(
        call!(cuda.table, cudaDeviceSynchronize()),
        cudaError::cudaErrorIllegalAddress
    );
}

#[test]
fn from_13_on_a_location_names_a_pool() {
    let cuda = h200();
    let (get, set) = (
        cuda.table.cudaMemGetMemPool.unwrap(),
        cuda.table.cudaMemSetMemPool.unwrap(),
    );
    let default = cuda.table.cudaMemGetDefaultMemPool.unwrap();
    let (pool, mut found) = (create(&cuda, &props(PINNED)).unwrap(), null_mut());
    let (mut here, mut host) = (location(0), location(-1));
    let pinned = cuda_um_sys::cudaMemAllocationType(PINNED.into());
    // SAFETY: the locations and the place for the pool are valid for the calls.
    unsafe {
        ok(set(&mut here, pinned, pool));
        ok(get(&mut found, &mut here, pinned));
        assert_eq!(found, pool);
        ok(default(&mut found, &mut here, pinned));
        assert_ne!(found, pool);
        assert_eq!(
            get(&mut found, &mut host, pinned),
            cudaError::cudaErrorNotSupported
        );
    }
}
