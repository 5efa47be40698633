//! Arguments of launches: values of every size.

use bytemuck::{Pod, Zeroable};
use cuda_um::{
    Device, DeviceBuffer, Error, Kernel, LaunchConfig, Module, Result, Scalar, Stream,
    UnifiedBuffer, constant,
    kernel::{Arguments, KernelArgs},
};
use cuda_um_testkit::{Add, device, fails};

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
