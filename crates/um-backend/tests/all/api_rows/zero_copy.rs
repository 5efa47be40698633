//! Kernels use host memory in place.

use super::numbers;
use crate::support::kernel::Double;
use crate::support::{Machine, on_each, on_each_preset};

#[test]
fn zero_copy() {
    on_each(|machine| {
        let backend = machine.backend();
        let device = backend.device();
        let double = Double::load(device);
        let (data, count) = (numbers(5000), 5000_u32);
        let doubled: Vec<f32> = data.iter().map(|value| value * 2.0).collect();

        // Memory that CUDA allocates.
        let mut pinned = backend.create_pinned::<f32>(5000).unwrap();
        pinned.host_mut().unwrap().copy_from_slice(&data);
        assert!(pinned.device_ptr().is_some());
        double.launch(device, &mut pinned).unwrap();
        assert_eq!(pinned.host().unwrap()[..], doubled);
        assert_eq!(pinned.host().unwrap().as_ptr(), pinned.as_ptr());
        pinned.close().unwrap();

        // A vector that the caller owns.
        let address = data.as_ptr();
        let mut registered = backend.register(data.clone()).unwrap();
        assert!(registered.device_ptr().is_some());
        double
            .launch_on(device, 5000, (&mut registered, count))
            .unwrap();
        assert_eq!(registered.host().unwrap()[..], doubled);
        assert_eq!(registered.into_vec().unwrap(), doubled);

        // A slice that the caller lends. When the call returns, the kernel is done.
        let mut lent = data.clone();
        let launched = backend.with_registered(&mut lent, |registered| {
            assert!(registered.device_ptr().is_some());
            double.launch_on(device, 5000, (registered, count))
        });
        launched.unwrap().unwrap();
        assert_eq!(lent, doubled);
        assert_eq!(data.as_ptr(), address, "the data have not moved");
    });
}

/// No bytes are copied: the kernel accesses the host's memory.
#[test]
fn zero_copy_copies_nothing() {
    on_each_preset(
        |builder| builder,
        |machine: &Machine| {
            let backend = machine.backend();
            let double = Double::load(backend.device());
            let mut pinned = backend.create_pinned::<f32>(5000).unwrap();
            pinned.host_mut().unwrap().fill(4.0);
            let sim = machine.sim.as_ref().unwrap();
            sim.reset_counters();
            double.launch(backend.device(), &mut pinned).unwrap();
            assert_eq!(pinned.host().unwrap()[4999], 8.0);
            let counters = sim.counters();
            assert_eq!(counters.kernels, 1);
            assert_eq!((counters.copied_to_device, counters.copied_to_host), (0, 0));
            assert_eq!((counters.bytes_to_device, counters.bytes_to_host), (0, 0));
        },
    );
}
