//! Pools and stream-ordered allocation.

use std::ptr::null_mut;

use cuda_um_sim::{Leak, Misuse};
use cuda_um_sys::{cudaError, cudaMemPool_t, cudaMemPoolAttr, cudaStream_t};

use crate::support::{Cuda, MIB, call, h200, ok};

/// `cudaMemPoolProps`: 88 bytes in every version; the kind at 0, the location at 8.
#[repr(C, align(8))]
struct Props([u8; 88]);

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

#[test]
fn managed_memory_and_the_host_have_default_pools() {
    let cuda = h200();
    let (stream, mut pointer, mut pool) = (cuda.stream(), null_mut::<u8>(), 0_usize);
    // The type and the id of a location, and the kind of memory.
    for (location, kind) in [([1_i32, 0], 2_u32), ([2, 0], 2), ([2, 0], 1)] {
        let mut current = 0_usize;
        done!(cuda, cudaMemGetDefaultMemPool(&mut pool => *mut usize, &location => *const [i32; 2], kind => u32));
        let code = driver!(cuda, cudaMemGetMemPool(&mut current => *mut usize, &location => *const [i32; 2], kind => u32));
        assert_eq!((code, current), (0, pool));
        done!(cuda, cudaMallocFromPoolAsync(
            &mut pointer => *mut *mut u8, MIB => usize, pool => usize, stream => cudaStream_t
        ));
        crate::support::bytes(pointer, MIB).fill(3);
        assert_eq!(get(&cuda, pool as cudaMemPool_t, 7), MIB as u64);
        ok(call!(cuda.table, cudaFreeAsync(pointer.cast(), stream)));
        cuda.sync(stream);
        assert_eq!(get(&cuda, pool as cudaMemPool_t, 7), 0);
    }
    // A pool of the device is none of the host.
    let host = [2_i32, 0];
    ok(call!(
        cuda.table,
        cudaDeviceGetDefaultMemPool((&raw mut pool).cast(), 0)
    ));
    assert_eq!(
        driver!(cuda, cudaMemSetMemPool(&host => *const [i32; 2], 1 => u32, pool => usize)),
        1
    );
    assert_eq!(cuda.sim.misuse(), []);
}
