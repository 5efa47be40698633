//! Ranks on threads of their own, ranks that are lost, and failures of NCCL.

use super::World;
use cuda_um::collective::{Communicator, Reduce, UniqueId, group};
use cuda_um::{Device, DeviceBuffer, ErrorKind, UnifiedBuffer};
use cuda_um_sim::{Fail, Gpu, Leak, Misuse};
use cuda_um_sys::cudaError;
use cuda_um_testkit::watchdog::watch;
use std::time::Duration;

/// Longer than any of these operations takes if all ranks are there.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

/// A rank on a thread for each device.
fn on_threads<R: Send>(
    devices: &[Device],
    limit: Duration,
    work: impl Fn(Communicator) -> cuda_um::Result<R> + Sync,
) -> Vec<cuda_um::Result<R>> {
    let id = UniqueId::new(&devices[0]).unwrap();
    std::thread::scope(|scope| {
        let each = devices.iter().enumerate().map(|(rank, device)| {
            let (id, work) = (&id, &work);
            scope.spawn(move || {
                let joined = Communicator::join(device, id, rank, devices.len(), limit);
                joined.and_then(work)
            })
        });
        let threads: Vec<_> = each.collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_on_each_thread() {
    let world = World::new(Gpu::H200, 4);
    for limit in [LONG, Duration::MAX] {
        let outcomes = on_threads(&world.devices, limit, |rank| {
            assert_eq!(rank.ranks(), 4);
            let mut buffer = UnifiedBuffer::from_slice(rank.device(), &[rank.rank() as u64; 100])?;
            for _ in 0..10 {
                rank.all_reduce_in_place(&mut buffer, Reduce::Sum).run()?;
            }
            let sum = 6 * 4u64.pow(9);
            assert!(buffer.host()?.iter().all(|it| *it == sum));
            rank.close()
        });
        outcomes.into_iter().for_each(|it| it.unwrap());
    }
}

#[test]
fn a_rank_that_does_not_join_is_reported_at_the_limit() {
    let world = World::new(Gpu::H200, 2);
    let id = UniqueId::new(&world.devices[0]).unwrap();
    let error = Communicator::join(&world.devices[0], &id, 0, 2, SHORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Collective);
    let text = error.to_string();
    assert!(text.contains("rank 0 of 2: ncclTimeout (8)"), "{text}");
}

#[test]
fn ranks_with_different_sizes_of_the_clique_fail() {
    let world = World::new(Gpu::H200, 2);
    let id = UniqueId::new(&world.devices[0]).unwrap();
    let join = |rank: usize, ranks: usize| {
        Communicator::join(&world.devices[rank], &id, rank, ranks, LONG).map(drop)
    };
    let outcomes = std::thread::scope(|scope| {
        let both = [scope.spawn(|| join(0, 3)), scope.spawn(|| join(1, 2))];
        both.map(|it| it.join().unwrap())
    });
    for outcome in outcomes {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("ncclInvalidUsage"), "{text}");
    }
    let is_it = |it: &Misuse| matches!(it, Misuse::Collective { .. });
    world.sim.misuses(1, "wrong sizes", is_it);
}

#[test]
fn a_lost_rank_ends_the_wait_of_the_others_and_the_buffers_live() {
    let world = World::new(Gpu::H200, 2);
    let (rank, stream) = (&world.ranks[0], &world.streams[0]);
    let mut buffer = DeviceBuffer::from_slice(&world.devices[0], &[3u32; 100]).unwrap();
    // The other rank never calls.
    rank.all_reduce_in_place(&mut buffer, Reduce::Sum)
        .on(stream)
        .run()
        .unwrap();
    assert!(!stream.is_idle().unwrap());
    let error = rank.wait(stream, SHORT).unwrap_err();
    assert!(
        error.to_string().contains("rank 0 of 2: ncclTimeout"),
        "{error}"
    );
    // The work is over: guards, copies and drops do not wait for ever. The simulator has written nothing.
    assert_eq!(buffer.to_vec().unwrap(), [3; 100]);
    // The failure has ended all work.
    let other = world.ranks[1].wait(&world.streams[1], LONG).unwrap_err();
    assert!(other.to_string().contains("ncclRemoteError"), "{other}");
    let again = Communicator::all(&world.devices).unwrap();
    let mut second = DeviceBuffer::from_slice(&world.devices[1], &[4u32; 100]).unwrap();
    group([
        again[0].all_reduce_in_place(&mut buffer, Reduce::Sum),
        again[1].all_reduce_in_place(&mut second, Reduce::Sum),
    ])
    .unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
}

#[test]
fn a_failed_query_of_the_stream_aborts_nothing() {
    let world = World::new(Gpu::H200, 1);
    let (rank, stream) = (&world.ranks[0], &world.streams[0]);
    let failure = Fail::call("cudaStreamQuery").with(cudaError::cudaErrorNotPermitted);
    world.sim.fail(failure);
    let error = rank.wait(stream, LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Call, "{error}");
    rank.wait(stream, LONG).unwrap();
}

#[test]
fn ranks_that_call_in_another_order_see_an_error_and_do_not_hang() {
    let world = World::new(Gpu::H200, 2);
    let outcomes = on_threads(&world.devices, LONG, |rank| {
        let stream = rank.device().create_stream()?;
        let mut buffer = DeviceBuffer::from_slice(rank.device(), &[1u32; 10])?;
        let called = match rank.rank() {
            0 => rank.broadcast(&mut buffer, 0).on(&stream).run(),
            _ => rank
                .all_reduce_in_place(&mut buffer, Reduce::Sum)
                .on(&stream)
                .run(),
        };
        called.and_then(|()| rank.wait(&stream, LONG))
    });
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Collective);
    }
    let is_it = |it: &Misuse| matches!(it, Misuse::Collective { .. });
    world.sim.misuses(1, "another order", is_it);
}

#[test]
fn a_failed_call_aborts_the_communicators_of_the_group() {
    for call in ["ncclGroupEnd", "ncclBroadcast"] {
        let world = World::new(Gpu::H200, 2);
        let mut a = DeviceBuffer::<u32>::zeroed(&world.devices[0], 10).unwrap();
        let mut b = DeviceBuffer::<u32>::zeroed(&world.devices[1], 10).unwrap();
        world.sim.fail(Fail::call(call).with_code(2));
        let mut both = || {
            group([
                world.ranks[0].broadcast(&mut a, 0),
                world.ranks[1].broadcast(&mut b, 0),
            ])
        };
        let text = both().unwrap_err().to_string();
        assert!(
            text.starts_with(call) && text.contains("ncclSystemError (2)"),
            "{text}"
        );
        let text = both().unwrap_err().to_string();
        assert!(text.contains("was aborted"), "{text}");
        let is_it = |it: &Leak| matches!(it, Leak::Communicator);
        world.sim.leaves(0, "aborted", is_it);
    }
}

/// Another device than that of the group's first rank.
#[test]
fn the_error_of_a_group_names_the_device_that_is_lost() {
    let world = World::new(Gpu::H200, 2);
    world.sim.breaks("a device is lost");
    let mut a = DeviceBuffer::<u32>::zeroed(&world.devices[0], 10).unwrap();
    let mut b = DeviceBuffer::<u32>::zeroed(&world.devices[1], 10).unwrap();
    world.sim.fail(Fail::call("ncclGroupEnd").with_code(1));
    world.sim.lose(1);
    let both = group([
        world.ranks[0].broadcast(&mut a, 0),
        world.ranks[1].broadcast(&mut b, 0),
    ]);
    let error = both.unwrap_err();
    assert!(error.is_sticky(), "{error}");
    assert!(error.to_string().contains("rank 1 of 2"), "{error}");
}

/// NCCL waits there for the ranks of other processes, which may wait for this thread.
#[test]
fn a_drop_does_not_wait_for_the_end_of_a_rank() {
    let _watchdog = watch();
    let world = World::new(Gpu::H200, 2);
    let ranks = on_threads(&world.devices, LONG, Ok);
    ranks.iter().for_each(|it| assert!(it.is_ok()));
    let (go, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    world.sim.on_wait(move |call| {
        if call == "ncclCommDestroy" {
            let _ = held.lock().unwrap().recv();
        }
    });
    drop(ranks);
    // The thread that frees memory does not wait, either.
    world.devices[0].runtime().reclaim().unwrap();
    drop(go);
    let is_it = |it: &&Leak| matches!(it, Leak::Communicator);
    while world.sim.leaks().iter().filter(is_it).count() > world.ranks.len() {
        std::thread::yield_now();
    }
}

#[test]
fn the_error_of_a_close_names_its_rank() {
    let World { ranks, sim, .. } = World::new(Gpu::H200, 2);
    sim.fail(Fail::call("ncclCommDestroy").nth(2).with_code(2));
    let error = ranks.into_iter().map(Communicator::close).nth(1);
    let error = error.unwrap().unwrap_err().to_string();
    assert!(error.contains("rank 1 of 2"), "{error}");
    let is_it = |it: &Leak| matches!(it, Leak::Communicator);
    sim.leaves(1, "not destroyed", is_it);
}
