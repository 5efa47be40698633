//! Several devices: their links, peer access, and the loss of one.

mod moves;
mod relays;

use cuda_um::cost::PeerLink;
use cuda_um::{DeviceBuffer, Devices, Error, PeerAccess, Runtime, Stream};
use cuda_um_sim::{Fail, Gpu, Sim, Topology};
use cuda_um_sys::cudaError;
use cuda_um_testkit::Checked;
use cuda_um_testkit::{Add, calls, open, simulated_with};
use std::time::Duration;

/// So many devices, and a stream on each.
fn machine(count: usize, topology: Topology) -> (Checked, Devices, Vec<Stream>) {
    let (sim, device, _) = simulated_with(|builder| builder.devices(count).topology(topology));
    let devices = Devices::all(device.runtime()).unwrap();
    let streams = devices.iter().map(|device| device.create_stream().unwrap());
    let streams = streams.collect();
    (sim, devices, streams)
}

/// The time of work on the virtual clock, in microseconds.
fn time(sim: &Sim, work: impl FnOnce()) -> f64 {
    let start: Duration = sim.now();
    work();
    (sim.now() - start).as_secs_f64() * 1e6
}

#[test]
fn devices_are_of_one_runtime_and_each_is_there_once() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let [a, b, c] = &devices[..] else {
        panic!("{devices:?}")
    };
    let some = Devices::of([c.clone(), a.clone()]).unwrap();
    let ordinals: Vec<u32> = some.iter().map(|device| device.ordinal()).collect();
    assert_eq!(ordinals, [2, 0]);
    let other = open(&sim).device(1).unwrap();
    let texts = [
        Devices::of([]),
        Devices::of([a.clone(), b.clone(), a.clone()]),
        Devices::of([a.clone(), other]),
    ]
    .map(|refused| refused.unwrap_err().to_string());
    assert_eq!(
        texts,
        [
            "the list of devices cannot be empty: name at least one device",
            "the list of devices cannot be one with device 0 twice: name each device once",
            "a device belongs to another runtime: use objects of one `Runtime`, which has all devices",
        ]
    );
    assert_eq!(some.peer_link(a, b), None, "b is not in the list");
    assert_eq!(some.peer_link(a, a), None);
    assert_eq!(some.pairs().count(), 2);
}

#[test]
fn links_are_what_the_machine_has() {
    for (topology, link, rate) in [
        (Topology::NvLink, PeerLink::NvLink, 395e9),
        (Topology::NvSwitch, PeerLink::NvLink, 395e9),
        (Topology::Pcie, PeerLink::Pcie, 55.5e9),
    ] {
        let (_sim, devices, _) = machine(4, topology);
        for (from, to) in devices.pairs() {
            assert_eq!(devices.peer_link(from, to), Some(link), "{topology:?}");
            assert_eq!(devices.peer_bytes_per_s(from, to), Some(rate));
            assert!(devices.can_access_peer(from, to));
        }
    }
    let (sim, device, _) = simulated_with(|builder| builder.gpu(Gpu::Maxwell).devices(2));
    let devices = Devices::all(device.runtime()).unwrap();
    assert_eq!(
        devices.peer_link(&devices[0], &devices[1]),
        Some(PeerLink::Host)
    );
    assert!(!devices.can_access_peer(&devices[0], &devices[1]));
    devices.enable_peer_access().unwrap().close().unwrap();
    assert_eq!(calls(&sim, "cudaDeviceEnablePeerAccess"), 0);
}

/// The calls that enabled and disabled a pair.
fn switched(sim: &Sim) -> (usize, usize) {
    (
        calls(sim, "cudaDeviceEnablePeerAccess"),
        calls(sim, "cudaDeviceDisablePeerAccess"),
    )
}

#[test]
fn peer_access_is_counted_for_each_driver() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let other: Runtime = open(&sim);
    let first = devices.enable_peer_access().unwrap();
    assert_eq!(switched(&sim), (6, 0));
    let two = Devices::of([other.device(0).unwrap(), other.device(2).unwrap()]).unwrap();
    let second = two.enable_peer_access().unwrap();
    assert_eq!(switched(&sim), (6, 0), "enabled already");
    drop(first);
    devices.runtime().reclaim().unwrap();
    assert_eq!(switched(&sim), (6, 4), "two pairs are still needed");
    second.close().unwrap();
    assert_eq!(switched(&sim), (6, 6));
    let again = devices.enable_peer_access().unwrap();
    assert_eq!(switched(&sim), (12, 6));
    again.close().unwrap();
}

#[test]
#[allow(unsafe_code, reason = "calls CUDA as another library does")]
fn access_of_other_code_stays() {
    let (sim, devices, _) = machine(2, Topology::NvLink);
    let table = sim.table();
    // SAFETY: the functions take numbers; device 0 is the current device.
    let [enable, disable] = unsafe {
        [(table.cudaDeviceEnablePeerAccess)(1, 0), {
            devices.enable_peer_access().unwrap().close().unwrap();
            assert_eq!(switched(&sim), (3, 1), "the other direction is ours");
            (table.cudaDeviceDisablePeerAccess)(1)
        }]
    };
    assert_eq!(
        (enable, disable),
        (cudaError::cudaSuccess, cudaError::cudaSuccess)
    );
}

#[test]
fn access_ends_after_the_work_that_needs_it() {
    let (sim, devices, streams) = machine(2, Topology::NvLink);
    let add = Add::load(&devices[0]);
    let mut there = DeviceBuffer::<u32>::zeroed(&devices[1], 100).unwrap();
    let launch =
        |there: &mut DeviceBuffer<u32>| add.launch(&streams[0], 100, (there, 100u32, 3u32));
    let refused = launch(&mut there).unwrap_err();
    assert!(matches!(refused, Error::DeviceMismatch { .. }), "{refused}");
    let access = devices.enable_peer_access().unwrap();
    devices[1].synchronize().unwrap();
    let paused = sim.pause();
    launch(&mut there).unwrap();
    drop(access);
    drop(paused);
    devices.runtime().reclaim().unwrap();
    assert_eq!(switched(&sim), (2, 2));
    assert_eq!(there.to_vec().unwrap(), [3; 100], "the kernel had access");
    let refused = launch(&mut there).unwrap_err();
    assert!(matches!(refused, Error::DeviceMismatch { .. }), "{refused}");
}

/// A copy between two devices takes their link on a stream of any device.
#[test]
fn access_ends_after_the_work_of_all_devices() {
    let ends: [fn(PeerAccess); 2] = [drop, |access| access.close().unwrap()];
    for end in ends {
        let (sim, devices, _) = machine(3, Topology::NvLink);
        let two = Devices::of(devices[..2].iter().cloned()).unwrap();
        let access = two.enable_peer_access().unwrap();
        sim.clear_trace();
        end(access);
        devices.runtime().reclaim().unwrap();
        let trace = sim.trace();
        let before = trace.iter().map(|call| call.name);
        let before = before.take_while(|name| *name != "cudaDeviceDisablePeerAccess");
        let waits = before.filter(|name| *name == "cudaDeviceSynchronize");
        assert_eq!((waits.count(), switched(&sim).1), (3, 2));
    }
}

/// Otherwise the wait for the devices might come before the work, and the end of the access after its begin.
#[test]
#[allow(unsafe_code, reason = "has a closure that runs during an enqueue")]
fn access_does_not_end_while_work_is_enqueued() {
    let (sim, devices, streams) = machine(2, Topology::NvLink);
    let mut far = DeviceBuffer::<u32>::zeroed(&devices[1], 100).unwrap();
    let access = devices.enable_peer_access().unwrap();
    // SAFETY: it enqueues nothing.
    let ended = unsafe {
        streams[0].enqueue_foreign((&mut far,), |_| {
            drop(access);
            devices.runtime().reclaim().unwrap();
            switched(&sim)
        })
    };
    assert_eq!(ended.unwrap(), (2, 0));
    devices.runtime().reclaim().unwrap();
    assert_eq!(switched(&sim), (2, 2));
}

#[test]
fn access_whose_wait_failed_ends_with_the_next_one() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let two = |from: usize| Devices::of(devices[from..from + 2].iter().cloned()).unwrap();
    let [first, second] = [0, 1].map(|from| two(from).enable_peer_access().unwrap());
    let failure = Fail::call("cudaDeviceSynchronize");
    sim.fail(failure.with(cudaError::cudaErrorNotPermitted));
    first.close().unwrap_err();
    assert_eq!(switched(&sim), (4, 0));
    second.close().unwrap();
    assert_eq!(switched(&sim), (4, 4));
}

#[test]
fn a_failed_call_leaves_no_pair_enabled() {
    let (sim, devices, _) = machine(3, Topology::NvLink);
    let failure = Fail::call("cudaDeviceEnablePeerAccess").nth(4);
    sim.fail(failure.with(cudaError::cudaErrorTooManyPeers));
    let error = devices.enable_peer_access().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("device 1 and the memory of device 2"),
        "{error}"
    );
    devices.runtime().reclaim().unwrap();
    assert_eq!(switched(&sim), (4, 3));
    devices.enable_peer_access().unwrap().close().unwrap();
    assert_eq!(switched(&sim), (10, 9));
}

/// A device is lost while every device works: the error names it, and the shards of the others have their contents.
#[test]
fn a_lost_device_takes_no_other_with_it() {
    for count in [2, 4, 8] {
        let lost = count as u32 / 2;
        // Not checked for leaks: the memory of the device is lost, too.
        let sim = Sim::builder().devices(count).build().unwrap();
        let devices = Devices::all(&open(&sim)).unwrap();
        let streams = devices.iter().map(|device| device.create_stream().unwrap());
        let streams: Vec<Stream> = streams.collect();
        let access = devices.enable_peer_access().unwrap();
        let adds: Vec<Add> = devices.iter().map(Add::load).collect();
        let mut shards: Vec<_> = devices
            .iter()
            .map(|device| DeviceBuffer::<u32>::zeroed(device, 1000).unwrap())
            .collect();
        let each = |shards: &mut [DeviceBuffer<u32>]| -> Vec<cuda_um::Result<()>> {
            let all = std::iter::zip(&adds, &streams).zip(shards);
            all.map(|((add, stream), shard)| add.launch(stream, 1000, (shard, 1000u32, 1u32)))
                .collect()
        };
        each(&mut shards)
            .into_iter()
            .for_each(|launched| launched.unwrap());
        for device in &devices {
            device.synchronize().unwrap();
        }
        sim.lose(lost);
        for (ordinal, launched) in each(&mut shards).into_iter().enumerate() {
            match ordinal == lost as usize {
                false => launched.unwrap(),
                true => {
                    let error = launched.unwrap_err();
                    assert!(error.is_sticky(), "{error}");
                }
            }
        }
        let error = devices[lost as usize].synchronize().unwrap_err();
        assert!(
            error.to_string().contains(&format!("device {lost}:")),
            "{error}"
        );
        for (ordinal, shard) in shards.iter_mut().enumerate() {
            let values = shard.to_vec();
            let next = &devices[(ordinal + 1) % count];
            match ordinal == lost as usize {
                false => assert_eq!(values.unwrap(), [2; 1000]),
                true => {
                    assert!(values.unwrap_err().is_sticky());
                    let moved = shard.migrate(next, &streams[next.ordinal() as usize]);
                    assert!(moved.unwrap_err().is_sticky());
                    assert_eq!(shard.device().ordinal(), lost, "it is where it was");
                }
            }
        }
        drop(shards);
        drop(access);
        let error = devices.runtime().reclaim().unwrap_err();
        assert!(
            error.to_string().contains(&format!("device {lost}")),
            "{error}"
        );
    }
}
