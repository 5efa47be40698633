//! Buffers that move from device to device, and duplicates.

use super::{machine, time};
use cuda_um::{
    Advice, Device, DeviceBuffer, Devices, Error, Location, PinnedBuffer, Placement, UnifiedBuffer,
    UnifiedOptions,
};
use cuda_um_sim::{CudaVersion, Fail, Topology};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, simulated_with};

const MIB: usize = 1 << 20;

#[test]
fn buffers_move_around_a_ring_of_devices() {
    for count in [2, 4, 8] {
        let (_sim, devices, streams) = machine(count, Topology::NvSwitch);
        let _access = devices.enable_peer_access().unwrap();
        let len = 1000usize;
        let mut data = DeviceBuffer::<u32>::zeroed(&devices[0], len).unwrap();
        data.set_name("ring".to_owned());
        let mut managed = UnifiedBuffer::<u32>::zeroed(&devices[0], len).unwrap();
        let address = managed.host().unwrap().as_ptr();
        for (device, stream) in devices.iter().zip(&streams).cycle().skip(1).take(count) {
            let add = Add::load(device);
            data.migrate(device, stream).unwrap();
            managed.migrate(device, stream).unwrap().require().unwrap();
            for rounds in [1u32, 2] {
                add.launch(stream, len, (&mut data, len as u32, rounds))
                    .unwrap();
                add.launch(stream, len, (&mut managed, len as u32, rounds))
                    .unwrap();
            }
            assert_eq!(data.device().ordinal(), device.ordinal());
        }
        let expected = vec![3 * count as u32; len];
        assert_eq!(data.to_vec().unwrap(), expected);
        assert_eq!(managed.to_vec().unwrap(), expected);
        assert_eq!(
            (data.name(), managed.host().unwrap().as_ptr()),
            (Some("ring"), address)
        );
        let mut empty = DeviceBuffer::<u32>::zeroed(&devices[0], 0).unwrap();
        empty.migrate(&devices[1], &streams[0]).unwrap();
        assert_eq!(empty.device().ordinal(), 1);
    }
}

#[test]
fn a_move_takes_as_long_as_was_measured() {
    let (sim, devices, streams) = machine(2, Topology::NvLink);
    let _access = devices.enable_peer_access().unwrap();
    // Measured on two H200s: GB/s.
    for (bytes, measured) in [(16 * MIB, 321.0), (256 * MIB, 391.0)] {
        let mut data = DeviceBuffer::<u8>::zeroed(&devices[0], bytes).unwrap();
        let mut to = |device: &Device| {
            data.migrate(device, &streams[0]).unwrap();
            streams[0].synchronize().unwrap();
        };
        // The pools have the memory from then on.
        to(&devices[1]);
        to(&devices[0]);
        let rate = bytes as f64 / time(&sim, || to(&devices[1])) / 1e3;
        println!("{rate:.1} GB/s, measured {measured:.1}");
        assert!((rate / measured - 1.0).abs() < 0.15, "{rate} GB/s");
    }
}

/// Two devices with CUDA 13.0, whose cost model says that a prefetch from a peer takes for ever.
fn with_slow_prefetch() -> (cuda_um_testkit::Checked, Devices) {
    let (sim, device, _) = simulated_with(|builder| builder.cuda(CudaVersion::V13_0).devices(2));
    let devices = Devices::all(device.runtime()).unwrap();
    for device in &devices {
        let mut model = (*device.cost_model()).clone();
        model.peer_prefetch_rate = 1e6;
        device.set_cost_model(model).unwrap();
    }
    (sim, devices)
}

#[test]
fn managed_memory_moves_by_copies_if_that_is_faster() {
    let (_sim, devices) = with_slow_prefetch();
    let stream = devices[1].create_stream().unwrap();
    // More than two pieces; a part of the last block is not tracked.
    let values: Vec<u32> = (0..(20 * MIB + 77) as u32).collect();
    let mut data = UnifiedBuffer::from_slice(&devices[0], &values).unwrap();
    data.set_name("data");
    // Returns true if the buffer has another block.
    let mut to = |device: &Device| {
        let before = data.as_view().as_ptr();
        data.migrate(device, &stream).unwrap().require().unwrap();
        let there = data.residency().unwrap();
        let place = Some(Location::from(device));
        assert_eq!(there[0].location, place, "{there:?}");
        data.as_view().as_ptr() != before
    };
    assert!(!to(&devices[1]) && !to(&devices[0]), "without peer access");
    let access = devices.enable_peer_access().unwrap();
    assert!(to(&devices[1]));
    assert!(!to(&devices[1]), "it is there");
    drop(access);
    assert_eq!(data.name(), Some("data"));
    assert_eq!(data.to_vec().unwrap(), values);
    // Advice belongs to the addresses.
    data.advise(Advice::SetReadMostly).unwrap();
    let _access = devices.enable_peer_access().unwrap();
    let before = data.as_view().as_ptr();
    data.migrate(&devices[0], &stream).unwrap();
    assert_eq!(data.as_view().as_ptr(), before);
}

#[test]
fn a_move_that_fails_leaves_the_buffer_where_it_is() {
    let (sim, devices) = with_slow_prefetch();
    let _access = devices.enable_peer_access().unwrap();
    let stream = devices[1].create_stream().unwrap();
    let values = vec![7u32; MIB];
    let mut data = UnifiedBuffer::from_slice(&devices[0], &values).unwrap();
    data.prefetch(&devices[0]).unwrap().require().unwrap();
    devices[0].synchronize().unwrap();
    // The last copy.
    sim.fail(
        Fail::call("cudaMemcpyAsync")
            .nth(2)
            .with(cudaError::cudaErrorInvalidValue),
    );
    let before = data.as_view().as_ptr();
    data.migrate(&devices[1], &stream).unwrap_err();
    sim.clear_failures();
    assert_eq!(data.as_view().as_ptr(), before);
    assert_eq!(data.to_vec().unwrap(), values);
}

#[test]
fn what_does_not_move_says_so() {
    let (_sim, devices, streams) = machine(2, Topology::NvLink);
    let mapped = UnifiedOptions::default().placement(Placement::Mapped);
    let mut mapped = UnifiedBuffer::<u32>::zeroed_with(&devices[0], 10, mapped).unwrap();
    let outcome = mapped.migrate(&devices[1], &streams[1]).unwrap();
    assert!(!outcome.is_applied(), "{outcome}");
    assert!(!mapped.duplicate(&devices).unwrap().is_applied());
    let (_other, others, their_streams) = machine(2, Topology::NvLink);
    let mut data = DeviceBuffer::<u32>::zeroed(&devices[0], 10).unwrap();
    for (device, stream) in [
        (&others[1], &streams[1]),
        (&devices[1], &their_streams[1]),
        (&others[1], &their_streams[1]),
    ] {
        let refused = data.migrate(device, stream).unwrap_err();
        assert!(
            matches!(refused, Error::RuntimeMismatch { .. }),
            "{refused}"
        );
    }
    assert_eq!(data.device().ordinal(), 0);
    let mut managed = UnifiedBuffer::<u32>::zeroed(&devices[0], 10).unwrap();
    assert!(managed.migrate(&others[1], &streams[1]).is_err());
    assert!(managed.duplicate(&others).is_err());
}

#[test]
fn a_move_is_no_step_of_a_graph() {
    let (_sim, devices, streams) = machine(2, Topology::NvLink);
    let mut data = DeviceBuffer::from_slice(&devices[0], &[1u32, 2]).unwrap();
    let refused = streams[0].capture(|_| data.migrate(&devices[1], &streams[0]));
    assert!(matches!(refused, Err(Error::Capture { .. })), "{refused:?}");
    assert_eq!(data.to_vec().unwrap(), [1, 2]);
}

#[test]
fn duplicates_are_on_every_device_before_they_are_read() {
    for count in [2, 4, 8] {
        let (sim, devices, _) = machine(count, Topology::NvSwitch);
        let bytes = 4 * MIB;
        let data = UnifiedBuffer::from_slice(&devices[0], &vec![3u8; bytes]).unwrap();
        devices[0].synchronize().unwrap();
        let before = sim.counters();
        data.duplicate(&devices).unwrap().require().unwrap();
        devices
            .iter()
            .for_each(|device| device.synchronize().unwrap());
        let made = sim.counters().read_duplications - before.read_duplications;
        assert_eq!(
            made as usize,
            (count - 1) * bytes / 4096,
            "each page on each other device"
        );
        // A kernel finds all pages, and the contents.
        for device in &devices {
            let stream = device.create_stream().unwrap();
            let mut copy = PinnedBuffer::<u8>::zeroed(device, bytes).unwrap();
            stream.copy(&data, &mut copy).unwrap();
            assert!(copy.host().unwrap().iter().all(|byte| *byte == 3));
        }
        assert_eq!(sim.counters().gpu_faults, before.gpu_faults);
        data.advise(Advice::UnsetReadMostly)
            .unwrap()
            .require()
            .unwrap();
    }
}

/// Two threads enable and end peer access while others move, duplicate and copy buffers.
#[test]
fn buffers_move_while_access_comes_and_goes() {
    let (sim, devices, _) = machine(4, Topology::NvSwitch);
    std::thread::scope(|threads| {
        for closes in [false, true] {
            let devices = &devices;
            threads.spawn(move || {
                for _ in 0..100 {
                    let access = devices.enable_peer_access().unwrap();
                    match closes {
                        true => access.close().unwrap(),
                        false => drop(access),
                    }
                }
            });
        }
        threads.spawn(|| {
            let mut data = DeviceBuffer::<u32>::zeroed(&devices[0], 2 * MIB).unwrap();
            let mut host = PinnedBuffer::<u32>::zeroed(&devices[0], 2 * MIB).unwrap();
            let stream = devices[0].create_stream().unwrap();
            for round in 1..5 {
                host.fill(round).unwrap();
                stream.copy(&host, &mut data).unwrap();
                host.fill(0).unwrap();
                stream.copy(&data, &mut host).unwrap();
                assert!(host.host().unwrap().iter().all(|value| *value == round));
                sim.progress();
            }
        });
        let mut data = DeviceBuffer::from_slice(&devices[0], &[7u32; 1000]).unwrap();
        let mut managed = UnifiedBuffer::from_slice(&devices[0], &[8u32; 1000]).unwrap();
        for round in 1..40 {
            let to = &devices[round % 4];
            let stream = to.default_stream().unwrap();
            data.migrate(to, &stream).unwrap();
            managed.migrate(to, &stream).unwrap();
            managed.duplicate(&devices).unwrap();
            managed.advise(Advice::UnsetReadMostly).unwrap();
            sim.progress();
        }
        assert_eq!(data.to_vec().unwrap(), [7; 1000]);
        assert_eq!(managed.host().unwrap()[..], [8; 1000]);
    });
    devices.runtime().reclaim().unwrap();
}
