//! What the errors about kernels say: the texts of codes, the compiler's log, the parameters.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use cuda_um_sim::{CpuReference, CudaVersion, Gpu, ReferenceError, Sim};
use cuda_um_sys::{CUjit_option_enum as Jit, CUresult, cudaError};

use crate::support::{Cuda, PTX, call, h200, with_kernel};

/// The runtime's text of a code.
fn runtime_text(cuda: &Cuda, code: cudaError) -> String {
    let text = call!(cuda.table, cudaGetErrorString(code));
    // SAFETY: the simulator returns a NUL-terminated text that it never frees.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// The driver's text of a code.
fn driver_text(cuda: &Cuda, code: u32) -> String {
    let driver = cuda.table.driver().unwrap();
    let mut text = std::ptr::null();
    let found = call!(driver, cuGetErrorString(CUresult(code), &mut text));
    assert_eq!(found.0, 0);
    // SAFETY: as in `runtime_text`.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// Loads a module with a buffer for the log; returns the code and the log.
fn load(cuda: &Cuda, text: &str, room: usize) -> (u32, String) {
    let driver = cuda.table.driver().unwrap();
    let image = CString::new(text).unwrap();
    let mut log = vec![b'?'; room + 1];
    let mut options = [
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_ERROR_LOG_BUFFER,
    ];
    let mut values = [room as *mut _, log.as_mut_ptr().cast()];
    let mut module = null_mut();
    let code = call!(
        driver,
        cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        )
    );
    assert_eq!(log[room], b'?', "the buffer's end");
    let text = log.split(|byte| *byte == 0).next().unwrap();
    if room > 0 {
        assert_eq!(values[0] as usize, text.len());
    }
    (code.0, String::from_utf8_lossy(text).into_owned())
}

#[test]
fn the_compilers_log_says_what_is_wrong() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Pascal));
    assert_eq!(load(&cuda, PTX, 100), (0, String::new()));
    let (code, log) = load(&cuda, ".version 6.4\n.target none", 100);
    assert_eq!(code, 218);
    assert_eq!(log, "ptxas fatal   : not PTX: no `.target sm_…`");
    let (code, log) = load(&cuda, ".version 9.9\n.target sm_60\n", 100);
    assert_eq!(code, 222);
    assert!(
        log.contains("Unsupported .version 9.9; current version is '9.0'"),
        "{log}"
    );
    let (code, log) = load(&cuda, ".version 9.9\n.target sm_60\n", 6);
    assert_eq!(
        (code, &log[..]),
        (222, "ptxas"),
        "as much as there is room for"
    );
    assert_eq!(load(&cuda, ".version 9.9\n.target sm_60\n", 0).0, 222);
    assert_eq!(load(&cuda, "prose", 100), (200, String::new()));
    let driver = cuda.table.driver().unwrap();
    let (mut module, image) = (null_mut(), CString::new(PTX).unwrap());
    let loaded = call!(
        driver,
        cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            0,
            null_mut(),
            null_mut()
        )
    );
    assert_eq!(loaded.0, 0, "without options");
}

#[test]
fn a_kernel_without_a_reference_is_named_in_the_text_of_its_error() {
    let cuda = h200();
    let driver = cuda.table.driver().unwrap();
    let (mut module, mut function) = (null_mut(), null_mut());
    let image = CString::new(PTX).unwrap();
    call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast()));
    let name = c"unreferenced".as_ptr();
    let code = call!(driver, cuModuleGetFunction(&mut function, module, name));
    assert_eq!(code.0, 209);
    let text = driver_text(&cuda, 209);
    assert!(
        text.contains("kernel `unreferenced`") && text.contains("register_kernel"),
        "{text}"
    );
    assert!(!driver_text(&cuda, 218).contains("unreferenced"));
    let elsewhere = std::thread::scope(|scope| {
        let other = scope.spawn(|| driver_text(&cuda, 209));
        other.join().unwrap()
    });
    assert!(
        !elsewhere.contains("unreferenced"),
        "another thread: {elsewhere}"
    );
    let name = c"missing".as_ptr();
    call!(driver, cuModuleGetFunction(&mut function, module, name));
    let later = driver_text(&cuda, 209);
    assert!(!later.contains("unreferenced"), "a later failure: {later}");
}

#[test]
fn the_failure_of_a_reference_is_the_text_of_the_sticky_error() {
    let wrong_size: CpuReference = |launch| launch.value::<u32>(1).map(drop);
    let no_parameter: CpuReference = |launch| launch.value::<u32>(2).map(drop);
    let outside: CpuReference = |launch| launch.slice::<u8>(0, 1 << 30).map(drop);
    let overlap: CpuReference = |launch| {
        launch.slice_mut::<u8>(0, 8)?;
        launch.slice::<u8>(0, 8).map(drop)
    };
    let own: CpuReference = |_| Err(ReferenceError::Failed("my assertion".to_owned()));
    let panics: CpuReference = |_| panic!("my {}", "panic");
    for (reference, code, says) in [
        (
            wrong_size,
            700,
            "parameter 1 has 8 bytes, its CPU reference expects 4",
        ),
        (no_parameter, 700, "parameter 2: the kernel has 2"),
        (outside, 700, "illegal access to 1073741824 bytes at "),
        (overlap, 700, "parameter 0 overlaps a slice"),
        (own, 710, "my assertion"),
        (panics, 719, "its CPU reference panicked: my panic"),
    ] {
        let cuda = Cuda::new(with_kernel(Sim::builder(), "custom", reference));
        let plain = runtime_text(&cuda, cudaError(code));
        cuda.launch("custom", cuda.device(64), 64, null_mut());
        assert_eq!(call!(cuda.table, cudaDeviceSynchronize()).0, code);
        let text = runtime_text(&cuda, cudaError(code));
        assert!(
            text.starts_with(&format!("{plain}: kernel `custom`: ")) && text.contains(says),
            "{text}"
        );
        assert_eq!(driver_text(&cuda, code), text, "for every thread and call");
    }
}

#[test]
fn the_driver_tells_the_parameters_of_a_kernel_from_12_4_on() {
    let old = Cuda::new(Sim::builder().cuda(CudaVersion::V12_2));
    assert!(old.table.driver().unwrap().cuFuncGetParamInfo.is_none());
    let reference: CpuReference = |_| Ok(());
    let cuda = Cuda::new(with_kernel(Sim::builder(), "mixed", reference));
    let driver = cuda.table.driver().unwrap();
    let text = c".version 6.4\n.target sm_60\n.entry mixed(.param .u8 a, .param .u64 b, .param .align 4 .b8 c[12]) { ret; }";
    let (mut module, mut function) = (null_mut(), null_mut());
    call!(driver, cuModuleLoadData(&mut module, text.as_ptr().cast()));
    let name = c"mixed".as_ptr();
    call!(driver, cuModuleGetFunction(&mut function, module, name));
    let info = driver.cuFuncGetParamInfo.unwrap();
    let get = |index| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: both places are valid for a write.
        let code = unsafe { info(function, index, &mut offset, &mut bytes) };
        (code.0, offset, bytes)
    };
    assert_eq!(
        [get(0), get(1), get(2)],
        [(0, 0, 1), (0, 8, 8), (0, 16, 12)]
    );
    assert_eq!(get(3).0, 1);
}
