//! Programs that nvcc built, and what else names kernels: libraries, links, attributes of launches.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null;

use cuda_um_sim::{CudaVersion, Sim};

use crate::support::{Cuda, call, h200, ok};

/// Multiplies an element for each thread by a variable of the module.
const TIMES: &CStr = c"
.version 6.4 .target sm_60 .address_size 64
.global .align 4 .u32 factor = 3;
.visible .entry times(.param .u64 data) {
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    ld.global.u32 %r2, [%rd2];
    ld.global.u32 %r3, [factor];
    mul.lo.u32 %r2, %r2, %r3;
    st.global.u32 [%rd2], %r2;
    ret;
}";

const INVALID_VALUE: u32 = 1;
const TO_DEVICE: u32 = 1;
const TO_HOST: u32 = 2;

/// `dim3`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Dim3([u32; 3]);

const ONE: Dim3 = Dim3([1; 3]);
const FOUR: Dim3 = Dim3([4, 1, 1]);

/// Launches the kernel of an address over four elements.
fn launch(cuda: &Cuda, kernel: usize, grid: Dim3, data: *mut u8) -> u32 {
    let arguments = [(&raw const data).cast::<c_void>()];
    let code = driver!(cuda, cudaLaunchKernel(
        kernel => usize, grid => Dim3, FOUR => Dim3, arguments.as_ptr() => *const *const c_void, 0 => usize, 0 => usize
    ));
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    code
}

fn elements(data: *mut u8) -> [u32; 4] {
    // SAFETY: four elements of managed memory, which no kernel uses now.
    unsafe { data.cast::<[u32; 4]>().read() }
}

#[test]
fn a_program_of_nvcc_launches_its_kernel_and_reaches_its_variable() {
    let cuda = h200();
    // The addresses of the host that name the kernel and the variable.
    let (times, factor, unknown) = (0x1000, 0x2000, 0x3000);
    let mut binary = 0;
    done!(cuda, cudaUmSimRegisterBinary(&mut binary => *mut usize, TIMES.as_ptr() => *const i8));
    for (address, name) in [(times, c"times"), (factor, c"factor")] {
        done!(cuda, __cudaRegisterFunction(binary => usize, address => usize, 0 => usize, name.as_ptr() => *const i8));
    }
    let data = cuda.managed(16);
    // SAFETY: four elements of managed memory.
    unsafe { data.cast::<[u32; 4]>().write([1, 2, 3, 4]) };

    // What `<<<...>>>` pushes, the function that stands for the kernel pops.
    let (mut grid, mut block, mut shared, mut stream) =
        (Dim3::default(), Dim3::default(), 9usize, 9usize);
    done!(cuda, __cudaPushCallConfiguration(ONE => Dim3, FOUR => Dim3, 8 => usize, 0 => usize));
    let mut pop = || {
        driver!(cuda, __cudaPopCallConfiguration(
            &mut grid => *mut Dim3, &mut block => *mut Dim3, &mut shared => *mut usize, &mut stream => *mut usize
        ))
    };
    assert_eq!([pop(), pop()], [0, 9]);
    assert_eq!((grid, block, shared, stream), (ONE, FOUR, 8, 0));

    assert_eq!(launch(&cuda, times, ONE, data), 0);
    assert_eq!(elements(data), [3, 6, 9, 12]);
    let (mut value, mut bytes) = (5u32, 0);
    let mut symbol = |bytes: usize, direction: u32, symbol: usize| match direction {
        TO_DEVICE => {
            driver!(cuda, cudaMemcpyToSymbol(symbol => usize, &value => *const u32, bytes => usize, 0 => usize, direction => u32))
        }
        _ => {
            driver!(cuda, cudaMemcpyFromSymbol(&mut value => *mut u32, symbol => usize, bytes => usize, 0 => usize, direction => u32))
        }
    };
    assert_eq!(symbol(4, TO_DEVICE, factor), 0);
    assert_eq!(symbol(8, TO_DEVICE, factor), INVALID_VALUE);
    assert_eq!(symbol(4, TO_DEVICE, unknown), 13);
    assert_eq!(launch(&cuda, times, ONE, data), 0);
    assert_eq!(elements(data), [15, 30, 45, 60]);
    value = 0;
    done!(cuda, cudaMemcpyFromSymbol(&mut value => *mut u32, factor => usize, 4 => usize, 0 => usize, TO_HOST => u32));
    done!(cuda, cudaGetSymbolSize(&mut bytes => *mut usize, factor => usize));
    assert_eq!((value, bytes), (5, 4));

    // Wrong shapes and unknown addresses, with the codes of the runtime.
    assert_eq!(launch(&cuda, times, Dim3::default(), data), 9);
    assert_eq!(launch(&cuda, unknown, ONE, data), 98);
    done!(cuda, __cudaUnregisterFatBinary(binary => usize));
    assert_eq!(launch(&cuda, times, ONE, data), 98);
    cuda.free(data);
}

#[test]
fn linked_ptx_is_one_library() {
    let cuda = h200();
    let (mut link, mut image, mut bytes) = (0, null::<u8>(), 0);
    done!(cuda, cuLinkCreate_v2(0 => u32, 0 => usize, 0 => usize, &mut link => *mut usize));
    let other = c".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry other() { ret; }";
    let add = |kind: u32, text: &CStr| {
        driver!(cuda, cuLinkAddData_v2(
            link => usize, kind => u32, text.as_ptr() => *const i8, text.count_bytes() + 1 => usize, 0 => usize, 0 => u32, 0 => usize, 0 => usize
        ))
    };
    // PTX is 1; native code cannot be linked here.
    assert_eq!([add(1, TIMES), add(1, other), add(0, other)], [0, 0, 209]);
    done!(cuda, cuLinkComplete(link => usize, &mut image => *mut *const u8, &mut bytes => *mut usize));
    let (mut library, mut kernel, mut name, mut module) = (0, 0, null::<i8>(), 0);
    done!(cuda, cuLibraryLoadData(
        &mut library => *mut usize, image => *const u8, 0 => usize, 0 => usize, 0 => u32, 0 => usize, 0 => usize, 0 => u32
    ));
    done!(cuda, cuLinkDestroy(link => usize));
    assert_eq!(driver!(cuda, cuLinkDestroy(link => usize)), 400);
    for wanted in [c"other", c"times"] {
        done!(cuda, cuLibraryGetKernel(&mut kernel => *mut usize, library => usize, wanted.as_ptr() => *const i8));
        done!(cuda, cuKernelGetName(&mut name => *mut *const i8, kernel => usize));
        // SAFETY: the name lives as long as the kernel.
        assert_eq!(unsafe { CStr::from_ptr(name.cast()) }, wanted);
    }
    done!(cuda, cuKernelGetLibrary(&mut module => *mut usize, kernel => usize));
    assert_eq!(module, library);

    // `CUlaunchConfig`, arguments in one buffer: a list of keys and values.
    let data = cuda.managed(16);
    // SAFETY: four elements of managed memory.
    unsafe { data.cast::<[u32; 4]>().write([1, 2, 3, 4]) };
    let (buffer, size) = ([data as u64], 8usize);
    let packed = [
        1usize,
        buffer.as_ptr() as usize,
        2,
        &raw const size as usize,
        0,
    ];
    done!(cuda, cuLaunchKernel(
        kernel => usize, 1 => u32, 1 => u32, 1 => u32, 4 => u32, 1 => u32, 1 => u32, 0 => u32, 0 => usize, 0 => usize,
        packed.as_ptr() => *const usize
    ));
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    assert_eq!(elements(data), [3, 6, 9, 12]);
    let arguments = [(&raw const data).cast::<c_void>()];
    let with = |number: u32| {
        let attribute = [u64::from(number), 1, 0, 0, 0, 0, 0, 0, 0];
        let config = [
            1 | 1 << 32,
            1 | 4 << 32,
            1 | 1 << 32,
            0,
            0,
            attribute.as_ptr() as u64,
            1,
        ];
        driver!(cuda, cuLaunchKernelEx(
            config.as_ptr() => *const u64, kernel => usize, arguments.as_ptr() => *const *const c_void, 0 => usize
        ))
    };
    // A cooperative launch, and one in clusters, which the simulated device does not have.
    assert_eq!([with(2), with(4)], [0, 801]);
    ok(call!(cuda.table, cudaDeviceSynchronize()));
    assert_eq!(elements(data), [9, 18, 27, 36]);

    let (mut address, mut held) = (null::<u8>(), 0);
    done!(cuda, cuModuleGetGlobal_v2(
        &mut address => *mut *const u8, &mut held => *mut usize, library => usize, c"factor".as_ptr() => *const i8
    ));
    assert_eq!((address.is_null(), held), (false, 4));
    // No call frees what belongs to a module, and it is no leak beside its module.
    assert_eq!(
        driver!(cuda, cuMemFree_v2(address => *const u8)),
        INVALID_VALUE
    );
    cuda.free(data);
    done!(cuda, cuLibraryUnload(library => usize));
    assert!(cuda.sim.leaks().is_empty(), "{:?}", cuda.sim.leaks());
}

/// Offsets of fields as a C compiler has them for NVIDIA's headers.
#[test]
fn properties_have_the_layout_of_the_version() {
    for (version, bytes, offsets) in [
        (CudaVersion::V12_9, 1032, [288, 360, 388, 652, 676, 744]),
        (CudaVersion::V13_0, 1008, [288, 360, 384, 636, 656, 720]),
    ] {
        let cuda = Cuda::new(Sim::builder().cuda(version));
        let mut found = [0xffu8; 1040];
        let code = match version {
            CudaVersion::V12_9 => {
                driver!(cuda, cudaGetDeviceProperties_v2(&mut found => *mut [u8; 1040], 0 => c_int))
            }
            _ => driver!(cuda, cudaGetDeviceProperties(&mut found => *mut [u8; 1040], 0 => c_int)),
        };
        assert_eq!(code, 0);
        let number = |at: usize| u32::from_ne_bytes(found[at..at + 4].try_into().unwrap());
        let attribute = |number: c_int| {
            let mut value = 0u32;
            done!(cuda, cuDeviceGetAttribute(&mut value => *mut u32, number => c_int, 0 => c_int));
            value
        };
        let [total, major, processors, managed, concurrent, pools] = offsets;
        let (mut free, mut expected) = (0, 0);
        ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut expected)));
        assert_eq!(found[total..total + 8], expected.to_ne_bytes());
        assert!(found.starts_with(b"Simulated NVIDIA H200\0"));
        for (at, wanted) in [
            (major, 75),
            (processors, 16),
            (managed, 83),
            (concurrent, 89),
            (pools, 115),
        ] {
            assert_eq!(
                number(at),
                attribute(wanted),
                "{version:?}, attribute {wanted}"
            );
        }
        assert_eq!((found[bytes - 1], found[bytes]), (0, 0xff), "{version:?}");
    }
}

/// Each block writes its number; after the barrier of the grid, where cooperative groups have it, the first block sums them.
const GRID: &CStr = c"
.version 6.4 .target sm_70 .address_size 64
.visible .entry grid(.param .u64 data) {
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %envreg2;
    mov.u32 %r2, %envreg1;
    cvt.u64.u32 %rd2, %r1;
    cvt.u64.u32 %rd3, %r2;
    bfi.b64 %rd2, %rd3, %rd2, 32, 32;
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd4, %rd1, %rd4;
    st.global.u32 [%rd4], %r1;
    setp.eq.u32 %p, %r1, 0;
    mov.u32 %r2, 2147483645;
    selp.b32 %r2, %r2, 1, %p;
    atom.add.release.gpu.u32 %r3, [%rd2+4], %r2;
WAIT:
    ld.acquire.gpu.u32 %r4, [%rd2+4];
    xor.b32 %r4, %r4, %r3;
    setp.ge.s32 %p, %r4, 0;
    @%p bra WAIT;
    setp.ne.u32 %p, %r1, 0;
    @%p ret;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
    add.u32 %r1, %r1, %r2;
    add.u32 %r3, %r3, %r4;
    add.u32 %r1, %r1, %r3;
    st.global.u32 [%rd1], %r1;
    ret;
}";

#[test]
fn the_blocks_of_a_cooperative_launch_meet() {
    let cuda = h200();
    let (mut module, mut function, data) = (0, 0, cuda.managed(16));
    done!(cuda, cuModuleLoadData(&mut module => *mut usize, GRID.as_ptr() => *const i8));
    done!(cuda, cuModuleGetFunction(&mut function => *mut usize, module => usize, c"grid".as_ptr() => *const i8));
    let arguments = [(&raw const data).cast::<c_void>()];
    // Twice: the barrier is as it was.
    for _ in 0..2 {
        let code = driver!(cuda, cuLaunchCooperativeKernel(
            function => usize, 4 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32, 0 => usize,
            arguments.as_ptr() => *const *const c_void
        ));
        assert_eq!((code, driver!(cuda, cudaDeviceSynchronize())), (0, 0));
        assert_eq!(elements(data), [6, 1, 2, 3]);
    }
}
