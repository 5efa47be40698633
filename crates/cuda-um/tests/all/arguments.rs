//! Kernels and their arguments: values of every size, and what is wrong with them, before the launch or in the text of the kernel's failure.

use bytemuck::{Pod, Zeroable};
use cuda_um::{
    Device, DeviceBuffer, Error, Kernel, LaunchConfig, Module, Result, Scalar, Stream,
    UnifiedBuffer, constant, kernel::Arguments, kernel::KernelArgs,
};
use cuda_um_sim::{CudaVersion, Gpu, Misuse};
use cuda_um_testkit::{ADD_PTX, Add, device, fails, simulated, simulated_with};

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Layout {
    offset: u32,
    scale: f32,
    pair: [u16; 2],
}

/// The kernel of `values.ptx`: it stores its parameters as 8 words.
struct Values(Kernel);

impl Values {
    fn load(device: &Device) -> Self {
        let module = Module::load(device, include_str!("../support/values.ptx")).unwrap();
        Self(module.kernel("values").unwrap())
    }

    fn launch(&self, stream: &Stream, arguments: impl KernelArgs) -> Result<()> {
        let config = LaunchConfig::linear(1, 1);
        // SAFETY: the tests pass a buffer of 8 words, and values.
        #[allow(unsafe_code, reason = "launches the kernel of values.ptx")]
        unsafe {
            self.0.launch(stream, config, arguments)
        }
    }
}

const SHAPE: [u64; 4] = [2, 3, 5, 7];
const LAYOUT: Layout = Layout {
    offset: 11,
    scale: 1.5,
    pair: [13, 17],
};

fn expected() -> [u64; 8] {
    let scale = u64::from(LAYOUT.scale.to_bits());
    [1, 1 << 40, 2, 3, 5, 7, 11 | scale << 32, 13 | 17 << 16]
}

#[test]
fn values_of_every_size_arrive() {
    let (_sim, device, stream) = device();
    let values = Values::load(&device);
    let mut out = DeviceBuffer::<u64>::zeroed(&device, 8).unwrap();
    let all = (&mut out, true, 1usize << 40, SHAPE, constant(LAYOUT));
    values.launch(&stream, all).unwrap();
    assert_eq!(out.to_vec().unwrap(), expected());
    let mut list = Arguments::new();
    list.push(&mut out);
    list.push(1u8);
    list.push(1i64 << 40);
    list.push(Scalar::from(SHAPE));
    list.push([11, LAYOUT.scale.to_bits(), 13 | 17 << 16]);
    values.launch(&stream, list).unwrap();
    assert_eq!(out.to_vec().unwrap(), expected());
}

#[test]
fn kernels_tell_what_they_need() {
    let (_sim, device, _) = device();
    let add = Add::load(&device);
    assert_eq!((add.0.name(), add.0.device().ordinal()), ("add", 0));
    assert!(!add.0.as_raw().is_null());
    let most = device.capabilities().shared_bytes_per_block_optin;
    add.0.allow_shared_bytes(most).unwrap();
    let more = add.0.allow_shared_bytes(most + 1);
    fails!(more, Error::LimitExceeded { .. });
}

#[test]
fn arguments_are_checked_against_the_parameters_from_cuda_12_4_on() {
    let check = |device: &Device, stream: &Stream| {
        let (add, version) = (Add::load(device), device.runtime().version());
        let mut data = DeviceBuffer::<u32>::zeroed(device, 100).unwrap();
        let launched = add.launch(stream, 100, (&mut data, 100u64, 1u32));
        if (version.major, version.minor) < (12, 4) {
            launched.unwrap();
            return stream.synchronize().unwrap();
        }
        fails!(launched, Error::Arguments { ref kernel, .. } if kernel == "add");
        let mut list = Arguments::new();
        list.push(&mut data);
        fails!(add.launch(stream, 100, list), Error::Arguments { .. });
        for refused in [
            add.launch(stream, 100, (&mut data, 100u32)),
            add.launch(stream, 100, (&mut data, 100u32, 1u32, 1u32)),
        ] {
            fails!(refused, Error::Arguments { .. });
        }
        assert_eq!(data.to_vec().unwrap(), [0; 100]);
    };
    let (_sim, here, stream) = device();
    check(&here, &stream);
    let (_sim, older, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V12_2));
    check(&older, &stream);
}

#[test]
fn a_kernel_that_cannot_run_names_itself_and_the_instruction() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let ptx = ADD_PTX.replacen("ret;", "tcgen05.wait::ld.sync.aligned;", 1);
    let kernel = Module::load(&device, &ptx).unwrap().kernel("add");
    let says = [
        "kernel add: ",
        "`add`: line 37: ",
        "`tcgen05.wait::ld.sync.aligned;`",
    ];
    let text = fails!(kernel, Error::Call { .. }, says[0], says[1], says[2]);
    assert!(
        !text.contains("another device, driver or version"),
        "{text}"
    );
}

/// The text with which `add` fails, for so many elements of this argument.
fn failure(
    count: usize,
    lend: impl FnOnce(&mut UnifiedBuffer<u32>, &dyn Fn(Arguments<'_>)),
) -> Option<String> {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (add, mut data) = (
        Add::load(&device),
        UnifiedBuffer::zeroed(&device, 1000).unwrap(),
    );
    lend(&mut data, &|mut arguments| {
        arguments.push(count as u32);
        arguments.push(1u32);
        add.launch(&stream, count, arguments).unwrap();
    });
    let error = stream.synchronize().err()?;
    sim.breaks("the kernel leaves its arguments");
    sim.misuses(1, "the kernel leaves its arguments", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    assert!(error.is_sticky());
    Some(error.to_string())
}

#[test]
fn a_kernel_may_use_what_its_arguments_lend() {
    let part = |count| {
        failure(count, |data, launch| {
            let mut arguments = Arguments::new();
            arguments.push(data.view_mut(50..150).unwrap());
            launch(arguments);
        })
    };
    assert_eq!(part(100), None);
    let read_only = failure(10, |data, launch| {
        let mut arguments = Arguments::new();
        arguments.push(&*data);
        launch(arguments);
    });
    for (failure, says) in [
        (
            part(101),
            "the address is 0 bytes after the end of the argument",
        ),
        (read_only, "a write through an argument that is read-only"),
    ] {
        let text = failure.expect("the kernel is at fault");
        for part in [
            "kernel `add`, line ",
            says,
            "(parameter 0)",
            "the device is unusable",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

cuda_um::kernel! {
    /// The kernel of `add.ptx`.
    struct Adder in cuda_um_testkit::ADD_PTX;

    /// Adds 1 to each element, `rounds` times.
    // SAFETY: the kernel takes these parameters, and a thread touches the element of its number, if it is below `len`.
    unsafe fn add = "add"(data: &mut [u32], len as u32, rounds: u32) with |_, len| LaunchConfig::linear(len, 256);

    /// The same, with an array and a type of length that the kernel does not have.
    // SAFETY: it is never launched: the length does not fit, or the arrays differ.
    unsafe fn other = "add"(data: &mut [u32], len as u8, rest: &[u32]) with |_, _| LaunchConfig::linear(1, 1);
}

#[test]
fn a_declared_kernel_checks_the_lengths_and_launches() {
    let (_sim, device, stream) = device();
    let adder = Adder::load(&device).unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    adder.add(&stream, &mut data, 3u32).unwrap();
    adder
        .add(&stream, data.view_mut(999..).unwrap(), 1)
        .unwrap();
    assert_eq!(data.host().unwrap()[998..], [3, 4]);
    adder.add(&stream, data.view_mut(0..0).unwrap(), 1).unwrap();
    let short = DeviceBuffer::<u32>::zeroed(&device, 7).unwrap();
    fails!(
        adder.other(&stream, &mut data, &short),
        Error::InvalidArgument { .. },
        "add cannot be launched with 7 elements of `rest`: 1000 are needed"
    );
    let rest = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    fails!(
        adder.other(&stream, &mut data, &rest),
        Error::InvalidArgument { .. },
        "the length of a launch cannot be 1000: the kernel takes it as `u8`"
    );
}
