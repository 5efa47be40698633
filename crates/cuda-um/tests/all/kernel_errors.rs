//! What is wrong with a kernel or its arguments is an error before the launch, or the text of the kernel's failure.

mod findings;

use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, Kernel, LaunchConfig, Module, Result, Stream,
    kernel::{Arguments, ByValue},
};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::{device, simulated, simulated_with};

/// A kernel with one parameter of each common size, and its module.
const SIZES: &str = ".version 6.4
.target sm_50
.address_size 64
.visible .entry sizes(.param .u64 data, .param .u32 count, .param .u8 flag, .param .align 8 .b8 shape[32])
{
    ret;
}
.visible .entry nothing()
{
    ret;
}
";

fn load(device: &Device, name: &str) -> Kernel {
    let module = Module::load(device, SIZES).unwrap();
    module.kernel(name).unwrap()
}

/// Launches a kernel that touches no memory, or whose arguments are refused.
fn launch(
    kernel: &Kernel,
    stream: &Stream,
    arguments: impl cuda_um::kernel::KernelArgs,
) -> Result<()> {
    // SAFETY: see above.
    #[allow(unsafe_code, reason = "launches kernels that touch no memory")]
    unsafe {
        kernel.launch(stream, LaunchConfig::linear(1, 1), arguments)
    }
}

fn refused(outcome: Result<()>, text: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), text);
}

fn arguments_are_checked(device: &Device, stream: &Stream) {
    let kernel = load(device, "sizes");
    let data = DeviceBuffer::<u8>::zeroed(device, 8).unwrap();
    launch(&kernel, stream, (&data, 1u32, true, [1u64, 2, 3, 4])).unwrap();
    launch(&kernel, stream, (0u64, 1f32, 1i8, ByValue([1u8; 32]))).unwrap();
    refused(
        launch(&kernel, stream, (&data, 1u32, true)),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 3 arguments (bytes: [8, 4, 1]) were given: pass one for each parameter",
    );
    refused(
        launch(&kernel, stream, (&data, 1u32, true, [0u64; 4], 5u32)),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 5 arguments (bytes: [8, 4, 1, 32, 4]) were given: pass one for each parameter",
    );
    refused(
        launch(&kernel, stream, (&data, 1u64, true, [0u64; 4])),
        "kernel sizes: parameter 1 has 4 bytes, and its argument has 8: pass a value of the parameter's type",
    );
    refused(
        launch(&kernel, stream, (&data, 1u32, true, [0u64; 3])),
        "kernel sizes: parameter 3 has 32 bytes, and its argument has 24: pass a value of the parameter's type",
    );
    let mut list = Arguments::new();
    list.push(1u32);
    refused(
        launch(&kernel, stream, list),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 1 arguments (bytes: [4]) were given: pass one for each parameter",
    );
    let nothing = load(device, "nothing");
    launch(&nothing, stream, ()).unwrap();
    launch(&nothing, stream, Arguments::new()).unwrap();
    assert!(matches!(
        launch(&nothing, stream, (1u32,)).unwrap_err(),
        Error::ArgumentCount { kernel, .. } if kernel == "nothing"
    ));
    stream.synchronize().unwrap();
}

#[test]
fn arguments_are_checked_against_the_parameters() {
    let (_sim, device, stream) = device();
    arguments_are_checked(&device, &stream);
}

#[test]
fn the_driver_tells_the_parameters_from_12_4_on() {
    for version in [CudaVersion::V12_2, CudaVersion::V12_9] {
        let (_sim, device, stream) = simulated_with(|builder| builder.cuda(version));
        let image = format!("{SIZES}\0");
        // SAFETY: the image is text with a NUL at its end.
        #[allow(unsafe_code, reason = "the simulator has no binary images")]
        let module = unsafe { Module::load_image(&device, image.as_bytes()) }.unwrap();
        let kernel = module.kernel("sizes").unwrap();
        let outcome = launch(&kernel, &stream, (0u64, 0u64, 0u64, [0u64; 4]));
        if version >= CudaVersion::V12_9 {
            refused(
                outcome,
                "kernel sizes: parameter 1 has 4 bytes, and its argument has 8: pass a value of the parameter's type",
            );
        } else {
            outcome.unwrap();
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn text_that_the_driver_refuses_is_explained() {
    let (_sim, device, _) = simulated(Gpu::Pascal);
    for (ptx, says) in [
        (
            "hello",
            "CUDA_ERROR_INVALID_IMAGE (200): device kernel image is invalid: not PTX: no `.version` with a number",
        ),
        ("", "not PTX: no `.version`"),
        (
            ".version 6.4\n.target sm_60\n.entry f(",
            "CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: ptxas application ptx input, line 3; fatal   : Parsing error near 'the end of the text': expected ",
        ),
        (
            ".version 9.9\n.target sm_60\n",
            ": update the driver, or compile for an older version",
        ),
        (
            ".version 7.8\n.target sm_90a\n",
            "CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available for execution on the device: the PTX has the target sm_90, \
             and device 0 (",
        ),
        (
            ".version 7.8\n.target sm_90\n",
            "is sm_60: compile for sm_60 or older",
        ),
    ] {
        let error = Module::load(&device, ptx).unwrap_err().to_string();
        assert!(
            error.starts_with("cuModuleLoadDataEx: module on device 0: ") && error.contains(says),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1);
        let both = "the PTX has version 9.9, and the driver (CUDA ";
        assert_eq!(error.contains(both), ptx.contains("9.9"), "{error}");
    }
}

#[test]
fn the_error_of_a_missing_kernel_lists_those_that_there_are() {
    // Not every simulated GPU loads the PTX.
    let (_sim, device, _) = simulated(Gpu::H200);
    let error = |ptx: &str, name| {
        let module = Module::load(&device, ptx).unwrap();
        module.kernel(name).unwrap_err().to_string()
    };
    let text = error(SIZES, "size");
    assert!(
        text.contains("kernel size: CUDA_ERROR_NOT_FOUND (500)"),
        "{text}"
    );
    assert!(
        text.ends_with("named symbol not found: the module has sizes, nothing"),
        "{text}"
    );
    let text = error(".version 6.4\n.target sm_60\n.address_size 64\n", "size");
    assert!(text.ends_with("the module has no kernels"), "{text}");
    let mut many = ".version 6.4\n.target sm_60\n.address_size 64\n".to_owned();
    (0..20).for_each(|n| many += &format!(".visible .entry k{n}()\n{{\n    ret;\n}}\n"));
    let text = error(&many, "k20");
    assert!(text.ends_with("k14, k15 and 4 more"), "{text}");
}

#[test]
fn modules_with_kernels_of_one_name_do_not_disturb_each_other() {
    let (_sim, device, stream) = device();
    for number in [1, 2] {
        let ptx = format!(
            ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry same_name(.param .u64 out)\n{{\n\
             .reg .b64 %rd0;\n.reg .b32 %r0;\nld.param.u64 %rd0, [out];\nmov.u32 %r0, {number};\n\
             st.global.u32 [%rd0], %r0;\nret;\n}}\n"
        );
        let module = Module::load(&device, &ptx).unwrap();
        let kernel = module.kernel("same_name").unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&device, 1).unwrap();
        launch(&kernel, &stream, (&mut out,)).unwrap();
        assert_eq!(out.read_one(0).unwrap(), number);
    }
}
