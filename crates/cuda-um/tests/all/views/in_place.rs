//! One buffer as input and output of one launch.

use crate::views::double::Double;
use crate::views::everywhere;
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, unpooled};

#[test]
fn a_buffer_is_input_and_output_of_one_launch() {
    for (_sim, device, stream) in everywhere() {
        let double = Double::load(&device);
        let mut data = UnifiedBuffer::from_slice(&device, &[1u32; 300]).unwrap();
        let part = data.view_mut(100..).unwrap().in_place();
        double.launch(&stream, 200, (part, part, 200u32)).unwrap();
        double.launch(&stream, 100, (part, part, 100u32)).unwrap();
        let host = data.host().unwrap();
        assert_eq!(host[99..101], [1, 4]);
        assert_eq!(host[199..201], [4, 2]);
    }
}

/// claim 2
#[test]
fn it_is_a_write_that_later_uses_wait_for() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let other = device.create_stream().unwrap();
    let double = Double::load(&device);
    let mut data = DeviceBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let both = data.as_view_mut().in_place();
    double.launch(&stream, 100, (both, both, 100u32)).unwrap();
    double
        .launch(&other, 100, (&data, &mut copy, 100u32))
        .unwrap();
    drop(data);
    assert_eq!(calls(&sim, "cudaFree"), 0, "in use, so not freed");
    drop(held);
    assert_eq!(copy.to_vec().unwrap(), [4; 100]);
}
