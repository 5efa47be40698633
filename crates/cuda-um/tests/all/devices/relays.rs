//! Large copies, of which neighbours carry a part.

use super::{machine, time};
use cuda_um::{DeviceBuffer, Devices, PinnedBuffer};
use cuda_um_sim::{Sim, Topology};
use cuda_um_testkit::{Add, calls, open};

const MIB: usize = 1 << 20;

/// Numbers of which no two parts are alike.
fn numbers(bytes: usize) -> Vec<u32> {
    (0..bytes as u32 / 4)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .collect()
}

/// Uploads and downloads; returns the times and the copies of the upload. The contents are compared.
fn there_and_back(
    count: usize,
    topology: Topology,
    access: bool,
    bytes: usize,
) -> ([f64; 2], usize) {
    let (sim, devices, streams) = machine(count, topology);
    let _access = access.then(|| devices.enable_peer_access().unwrap());
    let at = 1.min(count - 1);
    let (device, stream) = (&devices[at], &streams[at]);
    let values = numbers(bytes);
    let from = PinnedBuffer::from_slice(device, &values).unwrap();
    let mut to = PinnedBuffer::<u32>::zeroed(device, values.len()).unwrap();
    let mut data = DeviceBuffer::<u32>::zeroed(device, values.len()).unwrap();
    // The streams and the memory of the neighbours are there from then on.
    stream.copy(&from, &mut data).unwrap();
    devices
        .iter()
        .for_each(|device| device.synchronize().unwrap());
    sim.clear_trace();
    let up = time(&sim, || {
        stream.copy(&from, &mut data).unwrap();
        stream.synchronize().unwrap();
    });
    let copies = calls(&sim, "cudaMemcpyAsync");
    let down = time(&sim, || {
        stream.copy(&data, &mut to).unwrap();
        stream.synchronize().unwrap();
    });
    assert!(
        to.host().unwrap()[..] == values,
        "{count} devices, {topology:?}"
    );
    ([up, down], copies)
}

#[test]
fn neighbours_carry_a_part_of_a_large_copy() {
    let bytes = 64 * MIB;
    let gb_s = |time: f64| bytes as f64 / time / 1e3;
    let (direct, copies) = there_and_back(2, Topology::NvLink, false, bytes);
    assert_eq!(copies, 1);
    let (relayed, _) = there_and_back(2, Topology::NvLink, true, bytes);
    for (direct, relayed) in std::iter::zip(direct, relayed).map(|(a, b)| (gb_s(a), gb_s(b))) {
        println!("{direct:.1} GB/s, with a neighbour {relayed:.1} GB/s");
        // Measured on two H200s: 55.3 and 95.7 GB/s.
        assert!((direct / 55.3 - 1.0).abs() < 0.15 && (relayed / 95.7 - 1.0).abs() < 0.15);
    }
}

#[test]
fn relays_are_used_only_where_they_are_faster() {
    let bytes = 16 * MIB;
    let up = |count, topology, access| there_and_back(count, topology, access, bytes).0[0];
    let one = up(1, Topology::NvLink, true);
    let times = [2, 4, 8].map(|count| up(count, Topology::NvSwitch, true));
    assert!(
        times[0] < one / 1.5 && times[1] < times[0] / 1.25,
        "{one} us, {times:?} us"
    );
    assert!(
        (times[2] / times[1] - 1.0).abs() < 0.2,
        "at most three neighbours: {times:?} us"
    );
    for (count, topology, access) in [(2, Topology::Pcie, true), (4, Topology::NvLink, false)] {
        let time = up(count, topology, access);
        assert!(
            (time / one - 1.0).abs() < 0.01,
            "{topology:?}: {time} us, not {one}"
        );
    }
    let (_, copies) = there_and_back(2, Topology::NvLink, true, MIB);
    assert_eq!(copies, 1, "a small copy");
}

#[test]
fn a_capture_of_another_thread_ends_no_relay() {
    let (_sim, _devices, streams) = machine(1, Topology::NvLink);
    let captured = streams[0].capture(|_| {
        let relayed = || there_and_back(2, Topology::NvLink, true, 16 * MIB).1;
        let copies = std::thread::scope(|threads| threads.spawn(relayed).join().unwrap());
        assert!(copies > 1, "{copies}");
        Ok(())
    });
    captured.unwrap();
}

/// For later work of the stream, of other streams and of the host, a relayed copy is one piece of work.
#[test]
fn a_relayed_copy_is_in_order() {
    let bytes = 16 * MIB;
    let values = numbers(bytes);
    let count = values.len();
    for order in 0..6 {
        let (sim, devices, streams) = machine(4, Topology::NvLink);
        let _access = devices.enable_peer_access().unwrap();
        let add = Add::load(&devices[0]);
        let mut from = PinnedBuffer::from_slice(&devices[0], &values).unwrap();
        let mut to = PinnedBuffer::<u32>::zeroed(&devices[0], count).unwrap();
        let mut data = DeviceBuffer::<u32>::zeroed(&devices[0], count).unwrap();
        let other = devices[0].create_stream().unwrap();
        devices
            .iter()
            .for_each(|device| device.synchronize().unwrap());
        let held = sim.hold(order);
        add.launch(&other, count, (&mut data, count as u32, 9u32))
            .unwrap();
        streams[0].copy(&from, &mut data).unwrap();
        add.launch(&streams[0], count, (&mut data, count as u32, 1u32))
            .unwrap();
        other.copy(&data, &mut to).unwrap();
        assert_eq!(held.ended_by(), None, "no call waits");
        from.host_mut().unwrap().fill(0);
        drop(held);
        let expected = values.iter().map(|value| value.wrapping_add(1));
        assert!(
            to.host().unwrap().iter().copied().eq(expected),
            "order {order}"
        );
    }
}

/// The device's own link takes the part of a neighbour that is lost.
#[test]
fn a_lost_neighbour_takes_no_copy_with_it() {
    // Not checked for leaks: the memory of the neighbour is lost.
    let sim = Sim::builder().devices(3).topology(Topology::NvLink);
    let sim = sim.build().unwrap();
    let devices = Devices::all(&open(&sim)).unwrap();
    let _access = devices.enable_peer_access().unwrap();
    let stream = devices[0].create_stream().unwrap();
    let mut values = numbers(64 * MIB);
    let mut data = DeviceBuffer::<u32>::zeroed(&devices[0], values.len()).unwrap();
    for lost in [None, Some(1), Some(2)] {
        lost.into_iter().for_each(|device| sim.lose(device));
        values.reverse();
        let from = PinnedBuffer::from_slice(&devices[0], &values).unwrap();
        let before = calls(&sim, "cudaMemcpyAsync");
        stream.copy(&from, &mut data).unwrap();
        assert!(
            calls(&sim, "cudaMemcpyAsync") > before + 1,
            "a relayed copy"
        );
        assert!(data.to_vec().unwrap() == values, "{lost:?}");
    }
}
