//! Functions of the driver that the table does not have: other libraries call them.

use std::ffi::{CStr, c_char, c_int, c_void};

use cuda_um_sim::{CudaVersion, Sim};
use cuda_um_sys::cudaMemLocation;

use crate::support::{Cuda, call, h200, ok};

const INVALID_VALUE: u32 = 1;
const INVALID_CONTEXT: u32 = 201;
const NOT_FOUND: u32 = 500;

fn current(cuda: &Cuda) -> usize {
    let mut context = usize::MAX;
    done!(cuda, cuCtxGetCurrent(&mut context => *mut usize));
    context
}

#[test]
fn a_context_is_retained_made_current_and_released() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    done!(cuda, cuInit(0 => u32));
    assert_eq!(driver!(cuda, cuInit(1 => u32)), INVALID_VALUE);
    assert_eq!(current(&cuda), 0);
    let mut context = 0;
    done!(cuda, cuDevicePrimaryCtxRetain(&mut context => *mut usize, 1 => c_int));
    done!(cuda, cuCtxSetCurrent(context => usize));
    assert_eq!(current(&cuda), context);
    // The runtime uses the device of the current context, and makes contexts current.
    let (mut device, mut of_driver) = (-1, -1);
    ok(call!(cuda.table, cudaGetDevice(&mut device)));
    done!(cuda, cuCtxGetDevice(&mut of_driver => *mut c_int));
    assert_eq!((device, of_driver), (1, 1));
    ok(call!(cuda.table, cudaSetDevice(0)));
    assert!(![0, context].contains(&current(&cuda)));
    done!(cuda, cuCtxSetCurrent(0 => usize));
    assert_eq!(current(&cuda), 0);
    assert_eq!(
        driver!(cuda, cuCtxGetDevice(&mut of_driver => *mut c_int)),
        INVALID_CONTEXT
    );
    assert_eq!(driver!(cuda, cuCtxSetCurrent(7 => usize)), INVALID_CONTEXT);

    let (mut flags, mut active) = (9_u32, 9);
    let mut is_active = || {
        done!(cuda, cuDevicePrimaryCtxGetState(1 => c_int, &mut flags => *mut u32, &mut active => *mut c_int));
        active
    };
    assert_eq!(is_active(), 1);
    done!(cuda, cuDevicePrimaryCtxRelease_v2(1 => c_int));
    assert_eq!(is_active(), 0);
    assert_eq!(
        driver!(cuda, cuDevicePrimaryCtxRelease_v2(1 => c_int)),
        INVALID_CONTEXT
    );
}

#[test]
fn contexts_are_created_and_stacked() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let (mut primary, mut created, mut popped) = (0, 0, 0);
    assert_eq!(
        driver!(cuda, cuCtxPopCurrent_v2(&mut popped => *mut usize)),
        INVALID_CONTEXT
    );
    done!(cuda, cuDevicePrimaryCtxRetain(&mut primary => *mut usize, 0 => c_int));
    done!(cuda, cuCtxPushCurrent_v2(primary => usize));
    done!(cuda, cuCtxCreate_v2(&mut created => *mut usize, 0 => u32, 1 => c_int));
    assert_eq!(current(&cuda), created);
    assert_ne!(created, primary);
    let mut device = -1;
    ok(call!(cuda.table, cudaGetDevice(&mut device)));
    assert_eq!(device, 1);
    done!(cuda, cuCtxPushCurrent_v2(primary => usize));
    done!(cuda, cuCtxPopCurrent_v2(&mut popped => *mut usize));
    assert_eq!((popped, current(&cuda)), (primary, created));
    // The end of the current context makes the one below it current.
    done!(cuda, cuCtxDestroy_v2(created => usize));
    assert_eq!(current(&cuda), primary);
    for context in [created, primary] {
        assert_eq!(
            driver!(cuda, cuCtxDestroy_v2(context => usize)),
            INVALID_CONTEXT
        );
    }
    assert_eq!(
        driver!(cuda, cuCtxPushCurrent_v2(created => usize)),
        INVALID_CONTEXT
    );
}

#[test]
fn a_reset_device_has_nothing_left() {
    let cuda = Cuda::new(Sim::builder());
    let (mut pointer, mut stream, mut free) =
        (std::ptr::null_mut(), std::ptr::null_mut(), [0, 0, 0]);
    let mut total = 0;
    let mut put_free = |at: usize| ok(call!(cuda.table, cudaMemGetInfo(&mut free[at], &mut total)));
    put_free(0);
    ok(call!(cuda.table, cudaMalloc(&mut pointer, 1 << 20)));
    ok(call!(cuda.table, cudaStreamCreateWithFlags(&mut stream, 0)));
    put_free(1);
    done!(cuda, cuDevicePrimaryCtxReset_v2(0 => c_int));
    put_free(2);
    assert_eq!((free[0] - free[1], free[2]), (1 << 20, free[0]));
    assert_eq!(
        driver!(cuda, cuStreamSynchronize(stream as usize => usize)),
        400
    );
}

/// What an H200 answers for the attributes 1 to 21 of an address, without those that are handles or addresses.
#[test]
fn an_address_has_the_attributes_that_a_gpu_gives() {
    let cuda = h200();
    let (mut managed, mut device, mut pinned) = (0, 0, 0);
    done!(cuda, cuMemAllocManaged(&mut managed => *mut usize, 1 << 20 => usize, 1 => u32));
    done!(cuda, cuMemAlloc_v2(&mut device => *mut usize, 1 << 20 => usize));
    done!(cuda, cuMemAllocHost_v2(&mut pinned => *mut usize, 1 << 20 => usize));
    let attribute = |number: u32, pointer: usize| {
        let mut value = [0u64; 2];
        match driver!(cuda, cuPointerGetAttribute(&mut value => *mut [u64; 2], number => u32, pointer => usize))
        {
            0 => Ok(value[0]),
            code => Err(code),
        }
    };
    let missing = Err(INVALID_VALUE);
    for (number, expected) in [
        (2, [Ok(2), Ok(2), Ok(1)]),
        (
            4,
            [Ok(managed as u64 + 64), missing, Ok(pinned as u64 + 64)],
        ),
        (5, [Ok(0), Ok(0), missing]),
        (6, [Ok(1), Ok(0), Ok(0)]),
        (8, [Ok(1), Ok(0), Ok(0)]),
        (9, [Ok(0); 3]),
        (10, [Ok(0), Ok(1), Ok(0)]),
        (11, [managed, device, pinned].map(|start| Ok(start as u64))),
        (12, [Ok(1 << 20); 3]),
        (13, [Ok(1); 3]),
        (15, [Ok(0), Ok(1), Ok(0)]),
        (16, [Ok(3); 3]),
        (18, [Ok(2 << 20); 3]),
        (21, [Ok(0), Ok(1), Ok(0)]),
        (22, [missing; 3]),
    ] {
        let found = [managed, device, pinned].map(|start| attribute(number, start + 64));
        assert_eq!(found, expected, "attribute {number}");
    }
    let local = 0u8;
    let (mut kind, mut is_managed) = (9u32, 9u32);
    assert_eq!(attribute(2, &raw const local as usize), missing);
    // Several at once: an address that is not CUDA's is no error.
    let (which, places) = (
        [2u32, 8],
        [(&raw mut kind).cast::<u64>(), (&raw mut is_managed).cast()],
    );
    let code = driver!(cuda, cuPointerGetAttributes(
        2 => u32, which.as_ptr() => *const u32, places.as_ptr() => *const *mut u64, &raw const local => *const u8
    ));
    assert_eq!((code, kind, is_managed), (0, 0, 0));
    let (mut base, mut bytes) = (0, 0);
    done!(cuda, cuMemGetAddressRange_v2(&mut base => *mut usize, &mut bytes => *mut usize, device + 9 => usize));
    assert_eq!((base, bytes), (device, 1 << 20));
}

#[test]
fn devices_describe_themselves() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let (mut first, mut second) = ([0; 16], [0; 16]);
    done!(cuda, cuDeviceGetUuid(&mut first => *mut [u8; 16], 0 => c_int));
    done!(cuda, cuDeviceGetUuid_v2(&mut second => *mut [u8; 16], 1 => c_int));
    assert_ne!(first, second);
    let (mut bytes, mut free, mut total) = (0, 0, 0);
    done!(cuda, cuDeviceTotalMem_v2(&mut bytes => *mut usize, 0 => c_int));
    done!(cuda, cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize));
    assert_eq!((bytes, total > free), (total, true));
    let (mut version, mut api, mut config, mut status) = (0, 0, 9, 9);
    done!(cuda, cuDriverGetVersion(&mut version => *mut c_int));
    done!(cuda, cuCtxGetApiVersion(0 => usize, &mut api => *mut u32));
    assert_eq!(version as u32, api);
    assert_eq!(driver!(cuda, cuCtxSetFlags(4 => u32)), INVALID_CONTEXT);
    ok(call!(cuda.table, cudaSetDevice(0)));
    done!(cuda, cuCtxSetFlags(4 => u32));
    done!(cuda, cuCtxSetCacheConfig(3 => u32));
    assert_eq!(driver!(cuda, cuCtxSetCacheConfig(4 => u32)), INVALID_VALUE);
    done!(cuda, cuCtxGetCacheConfig(&mut config => *mut u32));
    done!(cuda, cuStreamIsCapturing(0 => usize, &mut status => *mut u32));
    assert_eq!((config, status), (0, 0));
    let mut context = 0;
    done!(cuda, cuStreamGetCtx(0 => usize, &mut context => *mut usize));
    done!(cuda, cuCtxSetCurrent(context => usize));
    done!(cuda, cuProfilerStart());
    done!(cuda, cuProfilerStop());
}

#[test]
fn memory_of_the_driver_is_memory_of_the_runtime() {
    let cuda = h200();
    let mut pointers = [0_usize; 5];
    let [device, managed, pinned, host, pooled] = &mut pointers;
    done!(cuda, cuMemAlloc_v2(device => *mut usize, 1000 => usize));
    done!(cuda, cuMemAllocManaged(managed => *mut usize, 1000 => usize, 1 => u32));
    done!(cuda, cuMemHostAlloc(pinned => *mut usize, 1000 => usize, 4 => u32));
    done!(cuda, cuMemAllocHost_v2(host => *mut usize, 1000 => usize));
    done!(cuda, cuMemAllocAsync(pooled => *mut usize, 1000 => usize, 0 => usize));
    // As on a GPU: only some functions of the driver allocate 0 bytes.
    let mut empty = 1;
    assert_eq!(
        driver!(cuda, cuMemAlloc_v2(&mut empty => *mut usize, 0 => usize)),
        1
    );
    let code = driver!(cuda, cuMemAllocAsync(&mut empty => *mut usize, 0 => usize, 0 => usize));
    assert_eq!((code, empty), (0, 0));
    let (from, mut to) = ([3_u8; 1000], [0_u8; 1000]);
    let (from, target) = (from.as_ptr() as usize, to.as_mut_ptr() as usize);
    done!(cuda, cuMemcpyHtoD_v2(*device => usize, from => usize, 1000 => usize));
    done!(cuda, cuMemcpyDtoD_v2(*managed => usize, *device => usize, 1000 => usize));
    done!(cuda, cuMemcpyDtoDAsync_v2(*pooled => usize, *managed => usize, 1000 => usize, 0 => usize));
    done!(cuda, cuMemcpy(*pinned => usize, *pooled => usize, 1000 => usize));
    done!(cuda, cuMemcpyAsync(*host => usize, *pinned => usize, 1000 => usize, 0 => usize));
    done!(cuda, cuMemcpyHtoDAsync_v2(*device => usize, *host => usize, 1000 => usize, 0 => usize));
    done!(cuda, cuMemcpyDtoH_v2(target => usize, *device => usize, 1000 => usize));
    assert_eq!(to, [3; 1000]);
    done!(cuda, cuMemsetD8_v2(*device => usize, 7 => u8, 4 => usize));
    done!(cuda, cuMemsetD32_v2(*device + 4 => usize, 0x0101_0101 => u32, 1 => usize));
    done!(cuda, cuMemcpyDtoHAsync_v2(target => usize, *device => usize, 1000 => usize, 0 => usize));
    done!(cuda, cuCtxSynchronize());
    assert_eq!(to[..9], [7, 7, 7, 7, 1, 1, 1, 1, 3]);
    // A copy in the other direction than its name says.
    assert_ne!(
        driver!(cuda, cuMemcpyHtoD_v2(target => usize, *device => usize, 1000 => usize)),
        0
    );
    let mut first = 0;
    done!(cuda, cuDevicePrimaryCtxRetain(&mut first => *mut usize, 0 => c_int));
    let peer = |context: usize| driver!(cuda, cuMemcpyPeerAsync(*device => usize, first => usize, *pooled => usize, context => usize, 9 => usize, 0 => usize));
    assert_eq!((peer(first), peer(7)), (0, INVALID_CONTEXT));

    done!(cuda, cuMemFreeAsync(*pooled => usize, 0 => usize));
    for pointer in [*device, *managed] {
        done!(cuda, cuMemFree_v2(pointer => usize));
    }
    for pointer in [*pinned, *host] {
        done!(cuda, cuMemFreeHost(pointer => usize));
    }
    assert_eq!(cuda.sim.leaks(), []);
    // The driver has no last error.
    assert_eq!(
        call!(cuda.table, cudaGetLastError()),
        cuda_um_sys::cudaError::cudaSuccess
    );
}

#[test]
fn a_plain_name_means_the_function_of_the_version() {
    for version in [CudaVersion::V11_8, CudaVersion::V12_9, CudaVersion::V13_0] {
        let cuda = Cuda::new(Sim::builder().cuda(version));
        let find = |name: &CStr| {
            let (mut found, mut status) = (0_usize, 9_u32);
            let code = driver!(cuda, cuGetProcAddress_v2(
                name.as_ptr() => *const c_char, &mut found => *mut usize, 13_000 => c_int, 0 => u64, &mut status => *mut u32
            ));
            assert_eq!(status, u32::from(code != 0), "{name:?}");
            (code, found as *const c_void)
        };
        assert_eq!(find(c"cuMemAlloc"), (0, cuda.sim.symbol("cuMemAlloc_v2")));
        assert_eq!(
            find(c"cuLaunchKernel"),
            (0, cuda.sim.symbol("cuLaunchKernel"))
        );
        assert_eq!(find(c"cuNoSuchFunction"), (NOT_FOUND, std::ptr::null()));
        let name = match version {
            CudaVersion::V13_0 => "cuMemPrefetchAsync_v2",
            _ => "cuMemPrefetchAsync",
        };
        assert_eq!(find(c"cuMemPrefetchAsync"), (0, cuda.sim.symbol(name)));
        assert_eq!(
            cuda.sim.symbol("cuMemAdvise_v2").is_null(),
            version == CudaVersion::V11_8
        );
    }
}

#[test]
fn there_are_no_export_tables() {
    let (cuda, id, mut table) = (h200(), [7_u8; 16], usize::MAX);
    let code = driver!(cuda, cuGetExportTable(&mut table => *mut usize, &id => *const [u8; 16]));
    assert_eq!((code, table), (INVALID_VALUE, 0));
    let code =
        driver!(cuda, cuGetExportTable(std::ptr::null_mut() => *mut usize, &id => *const [u8; 16]));
    assert_eq!(code, INVALID_VALUE);
}

#[test]
fn memory_of_a_pool_has_the_handle_of_its_pool() {
    let cuda = h200();
    let (mut pooled, mut plain, mut pool) = (0, 0, 0_usize);
    let pools = [
        driver!(cuda, cuMemAllocAsync(&mut pooled => *mut usize, 1000 => usize, 0 => usize)),
        driver!(cuda, cuMemAlloc_v2(&mut plain => *mut usize, 1000 => usize)),
    ];
    assert_eq!(pools, [0; 2]);
    let mut handle_at = |address: usize| {
        let code = driver!(cuda, cuPointerGetAttribute(&mut pool => *mut usize, 17 => u32, address => usize));
        (code, pool)
    };
    let (code, pool) = handle_at(pooled + 10);
    assert_eq!(
        (code, handle_at(plain), handle_at(7).0),
        (0, (0, 0), INVALID_VALUE)
    );
    assert_ne!(pool, 0);
    let freed = [
        driver!(cuda, cuMemFreeAsync(pooled => usize, 0 => usize)),
        driver!(cuda, cuMemFree_v2(plain => usize)),
    ];
    assert_eq!(freed, [0; 2]);
}

#[test]
fn a_module_is_loaded_from_a_file() {
    let cuda = h200();
    let mut module = 0;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernel.ptx\0");
    let path = CStr::from_bytes_with_nul(path.as_os_str().as_encoded_bytes()).unwrap();
    let load = |module: &mut usize| driver!(cuda, cuModuleLoad(module => *mut usize, path.as_ptr() => *const c_char));
    assert_eq!(load(&mut module), 301);
    let file = path.to_str().unwrap();
    std::fs::write(
        file,
        ".version 6.4\n.target sm_60\n.entry write(.param .u64 data, .param .u64 len) { ret; }",
    )
    .unwrap();
    assert_eq!(load(&mut module), 0);
    let mut function = 0;
    let name = c"write".as_ptr();
    done!(cuda, cuModuleGetFunction(&mut function => *mut usize, module => usize, name => *const c_char));
    done!(cuda, cuFuncSetCacheConfig(function => usize, 2 => u32));
    assert_eq!(
        driver!(cuda, cuFuncSetCacheConfig(function => usize, 4 => u32)),
        INVALID_VALUE
    );
    let mut blocks = 0;
    let mut occupancy = |flags: u32| {
        driver!(cuda, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &mut blocks => *mut c_int, function => usize, 256 => c_int, 0 => usize, flags => u32
        ))
    };
    assert_eq!((occupancy(1), occupancy(2)), (0, INVALID_VALUE));
    assert_eq!(blocks, 8);

    let data = cuda.managed(4096);
    let (mut data, mut len) = (data as usize, 4096_u64);
    let mut arguments = [(&raw mut data).cast::<c_void>(), (&raw mut len).cast()];
    done!(cuda, cuLaunchCooperativeKernel(
        function => usize, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32, 0 => usize,
        arguments.as_mut_ptr() => *mut *mut c_void
    ));
    let to = cudaMemLocation {
        type_: cuda_um_sys::cudaMemLocationType(1),
        id: 0,
    };
    done!(cuda, cuMemPrefetchAsync_v2(data => usize, 4096 => usize, to => cudaMemLocation, 0 => u32, 0 => usize));
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    assert_eq!(cuda.sim.counters().kernels, 1);
}
