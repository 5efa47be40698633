//! What is wrong with a kernel or its arguments is an error before the launch, or the text of the kernel's failure.

mod findings;

use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, Kernel, LaunchConfig, Module, Result, Stream,
    kernel::Arguments,
};
use cuda_um_sim::CudaVersion;
use cuda_um_testkit::{device, fails, simulated_with};

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
    launch(&kernel, stream, (0u64, 1f32, 1i8, [1u8; 32])).unwrap();
    let mut list = Arguments::new();
    list.push(1u32);
    for (outcome, found) in [
        (
            launch(&kernel, stream, (&data, 1u64, true, [0u64; 4])),
            "4 arguments (bytes: [8, 8, 1, 32])",
        ),
        (
            launch(&kernel, stream, (&data, 1u32, true)),
            "3 arguments (bytes: [8, 4, 1])",
        ),
        (
            launch(&kernel, stream, (&data, 1u32, true, [0u64; 4], 5u32)),
            "5 arguments (bytes: [8, 4, 1, 32, 4])",
        ),
        (launch(&kernel, stream, list), "1 arguments (bytes: [4])"),
    ] {
        let expected = "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and ";
        refused(
            outcome,
            &format!("{expected}{found} were given: pass one of its size for each parameter"),
        );
    }
    let nothing = load(device, "nothing");
    launch(&nothing, stream, ()).unwrap();
    launch(&nothing, stream, Arguments::new()).unwrap();
    let one = launch(&nothing, stream, (1u32,));
    fails!(one, Error::Arguments { kernel, .. } if kernel == "nothing");
    stream.synchronize().unwrap();
}

#[test]
fn arguments_are_checked_against_the_parameters_from_cuda_12_4_on() {
    let check = |device: &Device, stream: &Stream| {
        let version = device.runtime().version();
        if (version.major, version.minor) >= (12, 4) {
            return arguments_are_checked(device, stream);
        }
        let unchecked = (0u64, 0u64, 0u64, [0u64; 4]);
        launch(&load(device, "sizes"), stream, unchecked).unwrap();
        stream.synchronize().unwrap();
    };
    let (_sim, here, stream) = device();
    check(&here, &stream);
    let (_sim, older, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V12_2));
    check(&older, &stream);
}
