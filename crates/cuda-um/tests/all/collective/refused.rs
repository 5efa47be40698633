//! What is refused before NCCL is called, with the values; and nothing changes. More refusals: `wrong_uses` of um-backend.

use super::World;
use cuda_um::collective::{Communicator, Reduce, UniqueId, group};
use cuda_um::{DeviceBuffer, Devices, Error, ErrorKind, Result, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, open};
use std::time::Duration;

fn refused(outcome: Result<()>, words: &[&str]) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

#[test]
fn lengths_ranks_streams_and_memory_that_do_not_fit() {
    let world = World::new(Gpu::H200, 2);
    let (ranks, devices) = (&world.ranks, &world.devices);
    let a = DeviceBuffer::<u32>::zeroed(&devices[0], 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&devices[0], 19).unwrap();
    let before = calls(&world.sim, "ncclGroupStart");

    refused(ranks[0].all_gather_in_place(&mut b).run(), &["18", "19"]);
    let mut small = DeviceBuffer::<u32>::zeroed(&devices[0], 4).unwrap();
    let scatter = ranks[0].reduce_scatter(&a, &mut small, Reduce::Sum);
    refused(scatter.run(), &["ncclReduceScatter", "8", "10"]);
    let reduce = ranks[0].all_reduce(&a, &mut b, Reduce::Sum);
    refused(reduce.run(), &["10", "19"]);
    refused(
        ranks[0].send(&a, 0).run(),
        &["cannot be 0", "this one is 0"],
    );
    refused(
        ranks[0].receive(&mut b, 7).run(),
        &["cannot be 7", "2 ranks"],
    );
    let elsewhere = ranks[0].broadcast(&mut b, 0).on(&world.streams[1]);
    refused(elsewhere.run(), &["stream", "device 1", "device 0"]);
    let other = World::new(Gpu::H200, 1);
    let mut foreign = UnifiedBuffer::<u32>::zeroed(&other.devices[0], 19).unwrap();
    refused(
        ranks[0].broadcast(&mut foreign, 0).run(),
        &["another runtime"],
    );
    let many = (0..513).map(|_| ranks[0].send(&a, 1));
    refused(group(many), &["513", "512"]);
    assert_eq!(calls(&world.sim, "ncclGroupStart"), before);
    ranks.iter().for_each(|rank| rank.check().unwrap());
}

#[test]
fn ranks_of_a_group_that_do_not_agree() {
    let world = World::new(Gpu::H200, 2);
    let [first, second] = &world.ranks[..] else {
        unreachable!()
    };
    let mut a = DeviceBuffer::<u32>::zeroed(&world.devices[0], 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&world.devices[1], 9).unwrap();
    let mut c = DeviceBuffer::<f32>::zeroed(&world.devices[1], 10).unwrap();
    let mut before = DeviceBuffer::<u32>::zeroed(&world.devices[0], 10).unwrap();

    let lengths = group([first.broadcast(&mut a, 0), second.broadcast(&mut b, 0)]);
    refused(lengths, &["rank 1", "rank 0", "40 elements", "36 elements"]);
    let sum = Reduce::Sum;
    let types = group([
        first.all_reduce_in_place(&mut a, sum),
        second.all_reduce_in_place(&mut c, sum),
    ]);
    refused(types, &["AllReduce(ncclSum)", "ncclUint32", "ncclFloat32"]);
    let roots = group([first.broadcast(&mut a, 0), second.broadcast(&mut c, 1)]);
    refused(roots, &["root: 0", "root: 1"]);
    let numbers = group([
        first.broadcast(&mut a, 0),
        first.broadcast(&mut before, 0),
        second.broadcast(&mut c, 0),
    ]);
    refused(numbers, &["rank 1: no operation", "rank 0: Broadcast"]);
    let transfer = group([first.send(&a, 1), second.receive(&mut b, 0)]);
    refused(transfer, &["Receive", "Send", "40", "36"]);
    world.ranks.iter().for_each(|rank| rank.check().unwrap());
}

#[test]
fn cliques_that_cannot_be() {
    let world = World::new(Gpu::H200, 2);
    let device = &world.devices[0];
    let all = |devices: &[cuda_um::Device]| Communicator::all(devices).map(drop);
    refused(all(&[]), &["list of devices cannot be empty"]);
    let second = open(&world.sim).device(1).unwrap();
    refused(all(&[device.clone(), second]), &["another runtime"]);
    let id = UniqueId::new(device).unwrap();
    assert_eq!(UniqueId::from_bytes(id.to_bytes()), id);
    assert_ne!(UniqueId::new(device).unwrap(), id);
    let limit = Duration::from_secs(60);
    let joined = Communicator::join(device, &id, 2, 2, limit);
    refused(joined.map(drop), &["2 of 2"]);
    let limited = Communicator::join(device, &id, 0, 1, limit).unwrap();
    let mut a = DeviceBuffer::<u32>::zeroed(device, 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(device, 10).unwrap();
    let both = [
        limited.broadcast(&mut a, 0),
        world.ranks[0].broadcast(&mut b, 0),
    ];
    refused(group(both), &["with and without a limit"]);
}

/// Their handles mean nothing to the library of the first.
#[test]
fn a_group_with_ranks_of_two_drivers() {
    let (one, other) = (World::new(Gpu::H200, 1), World::new(Gpu::H200, 1));
    let mut a = DeviceBuffer::<u32>::zeroed(&one.devices[0], 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&other.devices[0], 10).unwrap();
    let both = [
        one.ranks[0].broadcast(&mut a, 0),
        other.ranks[0].broadcast(&mut b, 0),
    ];
    refused(group(both), &["communicator", "another runtime"]);
}

/// The kernels of the other ranks use it, too, and they may have no access.
#[test]
fn memory_of_a_peer_is_refused_with_peer_access() {
    let world = World::new(Gpu::H200, 2);
    let devices = Devices::of(world.devices.iter().cloned()).unwrap();
    let _access = devices.enable_peer_access().unwrap();
    let mut far = DeviceBuffer::<u32>::zeroed(&devices[1], 10).unwrap();
    refused(
        world.ranks[0].broadcast(&mut far, 0).run(),
        &["buffer of the operation", "device 1", "device 0"],
    );
}

#[test]
fn a_clique_with_more_ranks_than_there_can_be() {
    let world = World::new(Gpu::H200, 1);
    let device = &world.devices[0];
    let id = UniqueId::new(device).unwrap();
    let limit = Duration::from_secs(60);
    let error = Communicator::join(device, &id, 0, i32::MAX as usize, limit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Collective, "{error}");
}

#[test]
fn captures_and_aborted_communicators() {
    let world = World::new(Gpu::H200, 1);
    let (rank, stream) = (&world.ranks[0], &world.streams[0]);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&world.devices[0], 10).unwrap();
    let captured = stream.capture(|_| rank.broadcast(&mut buffer, 0).on(stream).run());
    assert_eq!(captured.unwrap_err().kind(), ErrorKind::Capture);
    rank.broadcast(&mut buffer, 0).run().unwrap();
    rank.abort().unwrap();
    rank.abort().unwrap();
}

#[test]
fn a_runtime_without_nccl() {
    // The table of a runtime that has nothing but CUDA's names.
    let sim = cuda_um_sim::Sim::builder().build().unwrap();
    let mut resolve = |name: &std::ffi::CStr| match name.to_str().unwrap() {
        name if name.starts_with("nccl") => std::ptr::null(),
        name => sim.symbol(name),
    };
    #[allow(unsafe_code, reason = "fills a table with the simulator's functions")]
    // SAFETY: the functions are the simulator's, which lives as long as the table.
    let table = unsafe {
        cuda_um::sys::Table::from_symbols(std::sync::Arc::new(sim.clone()), Some(13), &mut resolve)
    };
    let runtime = cuda_um::Runtime::from_table(table.unwrap().into()).unwrap();
    let device = runtime.device(0).unwrap();
    let error = Communicator::all(&[device]).unwrap_err();
    assert!(matches!(error, Error::NotSupported { .. }), "{error}");
    assert!(error.to_string().contains("NCCL 2.17"), "{error}");
}
