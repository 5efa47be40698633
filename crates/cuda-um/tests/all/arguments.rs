//! Arguments of launches: values of every size, and types of another crate.

use bytemuck::{Pod, Zeroable};
use cuda_um::{
    Device, DeviceBuffer, Error, Kernel, LaunchConfig, Module, Result, Stream, UnifiedBuffer, View,
    ViewMut,
    kernel::{Arguments, ByValue, KernelArg, KernelArgs, ReadArg, WriteArg},
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
    let all = (&mut out, true, 1usize << 40, SHAPE, ByValue(LAYOUT));
    values.launch(&stream, all).unwrap();
    assert_eq!(out.to_vec().unwrap(), expected());
    let mut list = Arguments::new();
    list.push(&mut out);
    list.push(1u8);
    list.push(1i64 << 40);
    list.push(ByValue(SHAPE));
    list.push([11, LAYOUT.scale.to_bits(), 13 | 17 << 16]);
    assert_eq!(list.len(), 5);
    values.launch(&stream, list).unwrap();
    assert_eq!(out.to_vec().unwrap(), expected());
}

/// A type of another crate, which has no access to the inside of `cuda_um`.
struct Tensor {
    data: UnifiedBuffer<u32>,
    rows: usize,
}

impl KernelArg for &mut Tensor {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> Result<()>
    where
        Self: 'a,
    {
        self.into_view_mut()?.pass(arguments)
    }
}

impl WriteArg<u32> for &mut Tensor {
    fn into_view_mut<'a>(self) -> Result<ViewMut<'a, u32>>
    where
        Self: 'a,
    {
        self.data.view_mut(..self.rows)
    }
}

/// The arguments of `add` as a list.
fn list(tensor: &mut Tensor, count: u32, number: u32) -> Arguments<'_> {
    let mut list = Arguments::new();
    list.push(tensor);
    list.push(count);
    list.push(number);
    list
}

#[test]
fn types_of_other_crates_are_arguments() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut tensor = Tensor { data, rows: 60 };
    add.run(&stream, &mut tensor, 60, 3);
    let arguments = list(&mut tensor, 50, 1);
    add.launch(&stream, 50, arguments).unwrap();
    let host = tensor.data.host().unwrap();
    assert_eq!((host[0], host[50], host[60]), (4, 3, 0));
    drop(host);
    // An argument that cannot be passed fails the launch.
    tensor.rows = 101;
    for refused in [
        add.launch(&stream, 10, (&mut tensor, 10u32, 1u32)),
        add.launch(&stream, 10, list(&mut tensor, 10, 1)),
    ] {
        fails!(refused, Error::RangeOutOfBounds { end: 101, .. });
    }
    assert_eq!(tensor.data.host().unwrap()[0], 4, "nothing ran");
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
fn safe_launchers_get_the_view_that_the_kernel_gets() {
    fn read(argument: impl ReadArg<u32>) -> usize {
        argument.into_view().unwrap().len()
    }
    fn write(argument: impl WriteArg<u32>) -> usize {
        argument.into_view_mut().unwrap().len()
    }
    let (_sim, device, _) = device();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let view: View<'_, u32> = data.view(2..5).unwrap();
    assert_eq!((read(&data), read(view)), (10, 3));
    assert_eq!(write(&mut data), 10);
    assert_eq!(write(data.view_mut(4..).unwrap()), 6);
    let mut tensor = Tensor { data, rows: 7 };
    assert_eq!(write(&mut tensor), 7);
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
