//! Several devices: their links, peer access, and the loss of one.

use cuda_um::cost::PeerLink;
use cuda_um::{DeviceBuffer, Devices, Error, Stream, constant};
use cuda_um_sim::{Fail, Gpu, Sim, Topology};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, Checked, calls, fails, open, simulated_with};

/// So many devices, and a stream on each.
fn machine(count: usize, topology: Topology) -> (Checked, Devices, Vec<Stream>) {
    let (sim, device, _) = simulated_with(|builder| builder.devices(count).topology(topology));
    let devices = Devices::all(device.runtime()).unwrap();
    let streams = devices.iter().map(|device| device.create_stream().unwrap());
    let streams = streams.collect();
    (sim, devices, streams)
}

#[test]
fn devices_are_of_one_runtime_and_each_is_there_once() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let [a, b, c] = &devices[..] else {
        panic!("{devices:?}")
    };
    let some = Devices::of([c.clone(), a.clone()]).unwrap();
    assert!(some.iter().map(|device| device.ordinal()).eq([2, 0]));
    let other = open(&sim).device(1).unwrap();
    for (refused, text) in [
        (Devices::of([]), "the list of devices cannot be empty"),
        (
            Devices::of([a.clone(), b.clone(), a.clone()]),
            "cannot be one with device 0 twice",
        ),
        (
            Devices::of([a.clone(), other]),
            "a device belongs to another runtime",
        ),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    assert_eq!(some.peer_link(a, b), None, "b is not in the list");
    assert_eq!(some.peer_link(a, a), None);
    assert_eq!(some.pairs().count(), 2);
}

#[test]
fn links_are_what_the_machine_has() {
    for (topology, link) in [
        (Topology::NvLink, PeerLink::NvLink),
        (Topology::Pcie, PeerLink::Pcie),
    ] {
        let (_sim, devices, _) = machine(4, topology);
        for (from, to) in devices.pairs() {
            assert_eq!(devices.peer_link(from, to), Some(link), "{topology:?}");
            assert!(devices.can_access_peer(from, to));
        }
    }
    let (sim, device, _) = simulated_with(|builder| builder.gpu(Gpu::Maxwell).devices(2));
    let devices = Devices::all(device.runtime()).unwrap();
    let (first, second) = (&devices[0], &devices[1]);
    assert_eq!(devices.peer_link(first, second), Some(PeerLink::Host));
    assert!(!devices.can_access_peer(first, second));
    devices.enable_peer_access().unwrap();
    assert_eq!(enabled(&sim), 0);
}

fn enabled(sim: &Sim) -> usize {
    calls(sim, "cudaDeviceEnablePeerAccess")
}

#[test]
#[allow(unsafe_code, reason = "calls CUDA as another library does")]
fn a_pair_that_other_code_enabled_is_no_error() {
    let (sim, devices, streams) = machine(2, Topology::NvLink);
    let table = sim.table();
    // SAFETY: the function takes numbers; device 0 is the current device.
    let theirs = unsafe { (table.cudaDeviceEnablePeerAccess)(1, 0) };
    assert_eq!(theirs, cudaError::cudaSuccess);
    devices.enable_peer_access().unwrap();
    let mut there = DeviceBuffer::<u32>::zeroed(&devices[1], 100).unwrap();
    Add::load(&devices[0]).run(&streams[0], &mut there, 100, 3);
    assert_eq!(there.to_vec().unwrap(), [3; 100]);
}

/// Peer access does not end, so the launches of the graph can rely on it.
#[test]
fn a_graph_keeps_memory_of_another_device() {
    let (sim, devices, streams) = machine(2, Topology::NvLink);
    devices.enable_peer_access().unwrap();
    let (add, stream) = (Add::load(&devices[0]), &streams[0]);
    let mut sum = DeviceBuffer::<u32>::zeroed(&devices[0], 100).unwrap();
    let mut there = DeviceBuffer::<u32>::zeroed(&devices[1], 100).unwrap();
    let graph = stream.capture(|_| {
        let arguments = (&mut there, constant(100u32), constant(3u32));
        add.launch(stream, 100, arguments)?;
        stream.copy(&there, &mut sum)?;
        drop(there);
        Ok(())
    });
    drop(devices);
    let mut exec = graph.unwrap().instantiate().unwrap();
    for round in 1..=2 {
        exec.launch(stream, (&mut sum,)).unwrap();
        assert_eq!(sum.to_vec().unwrap(), [3 * round; 100]);
    }
    assert_eq!(calls(&sim, "cudaDeviceDisablePeerAccess"), 0);
}

#[test]
fn a_pair_is_enabled_once_for_each_driver_and_again_after_a_failure() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let failure = Fail::call("cudaDeviceEnablePeerAccess").nth(4);
    sim.fail(failure.with(cudaError::cudaErrorTooManyPeers));
    let says = "device 1 and the memory of device 2";
    fails!(devices.enable_peer_access(), Error::Call { .. }, says);
    assert_eq!(enabled(&sim), 4);
    for again in [devices, Devices::all(&open(&sim)).unwrap()] {
        again.enable_peer_access().unwrap();
        assert_eq!(enabled(&sim), 7, "three pairs were there, and then all");
    }
}

/// A device is lost while every device works: the error names it, and the shards of the others have their contents.
#[test]
fn a_lost_device_takes_no_other_with_it() {
    for count in [2, 4, 8] {
        let lost = count / 2;
        // Not checked for leaks: the memory of the device is lost, too.
        let sim = Sim::builder().devices(count).build().unwrap();
        let devices = Devices::all(&open(&sim)).unwrap();
        devices.enable_peer_access().unwrap();
        let parts = devices.iter().map(|device| {
            let shard = DeviceBuffer::<u32>::zeroed(device, 1000).unwrap();
            (Add::load(device), device.create_stream().unwrap(), shard)
        });
        let mut parts: Vec<_> = parts.collect();
        for (add, stream, shard) in &mut parts {
            add.run(stream, shard, 1000, 1);
            stream.device().synchronize().unwrap();
        }
        sim.lose(lost as u32);
        for (ordinal, (add, stream, shard)) in parts.iter_mut().enumerate() {
            let launched = add.launch(stream, 1000, (&mut *shard, 1000u32, 1u32));
            let values = shard.to_vec();
            if ordinal == lost {
                assert!(launched.unwrap_err().is_sticky());
                assert!(values.unwrap_err().is_sticky());
            } else {
                launched.unwrap();
                assert_eq!(values.unwrap(), [2; 1000]);
            }
        }
        let error = devices[lost].synchronize().unwrap_err().to_string();
        assert!(error.contains(&format!("device {lost}:")), "{error}");
    }
}
