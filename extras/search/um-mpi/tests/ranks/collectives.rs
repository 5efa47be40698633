//! What the ranks exchange.

use crate::{Case, launch::Launcher};
use std::time::Duration;
use um_mpi::{Communicator, Mpi, MpiError};
use um_search::World;

pub const CASES: &[Case] = &[
    ("bytes_arrive", bytes_arrive, on_each_size),
    ("threads", threads, on_four_with_a_folder),
    ("order", order, on_four),
    ("large", large, large_if_asked),
    ("alone", alone, alone_and_not),
];

fn on_each_size(launcher: &Launcher) {
    for ranks in [1, 2, 3, 4, 8] {
        launcher.succeeds(ranks);
    }
}

fn on_four(launcher: &Launcher) {
    launcher.succeeds(4);
}

fn on_four_with_a_folder(launcher: &Launcher) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    on_four(&launcher.variable("CUDA_UM_TEST_FOLDER", path));
}

/// What a rank sends: of another length and content for each rank and round, and nothing from rank 1.
fn message(rank: usize, round: usize) -> Vec<u8> {
    let mut bytes = vec![(rank * 31 + round) as u8; (rank ^ 1) * [1, 1000, 20_000][round % 3]];
    for place in (0..bytes.len()).step_by(997) {
        bytes[place] = place as u8;
    }
    bytes
}

fn all_arrive(world: &Communicator, round: usize) {
    let mine = message(world.rank(), round);
    let all = world.all_gather(&mine).unwrap();
    let expected: Vec<Vec<u8>> = (0..world.size()).map(|r| message(r, round)).collect();
    assert!(all == expected, "round {round} of {world:?}");
    for root in 0..world.size() {
        let mut bytes = message(world.rank(), round);
        world.broadcast(&mut bytes, root).unwrap();
        assert!(
            bytes == message(root, round),
            "from {root} in round {round} of {world:?}"
        );
    }
}

fn bytes_arrive(mpi: Mpi) {
    let world = mpi.world();
    let (rank, size) = (world.rank(), world.size());
    assert!(rank < size);
    // All ranks are on this machine.
    assert_eq!(mpi.local_rank(), rank);
    assert_eq!(mpi.device_for_local_rank(2), Ok(rank % 2));
    assert_eq!(mpi.device_for_local_rank(0), Err(MpiError::NoDevice));
    assert_eq!(Mpi::init().err(), Some(MpiError::AlreadyInitialized));
    for round in 0..6 {
        all_arrive(world, round);
        world.barrier().unwrap();
    }
    // Equally long on all ranks: as much as a header holds, and more.
    for len in [1024, 1025] {
        let of = |rank| vec![rank as u8; len];
        let all: Vec<_> = (0..size).map(of).collect();
        assert!(world.all_gather(&of(rank)).unwrap() == all, "{len}");
    }
    println!("done");
}

/// Threads that share a communicator take turns; a limit for later operations is set beside one.
fn threads(mpi: Mpi) {
    let world = mpi.world();
    let folder = std::env::var_os("CUDA_UM_TEST_FOLDER").unwrap();
    let is_set = std::path::Path::new(&folder).join("is_set");
    std::thread::scope(|scope| {
        if world.rank() == 0 {
            scope.spawn(|| world.barrier().unwrap());
            std::thread::sleep(Duration::from_millis(100));
            world.set_time_limit(None);
            std::fs::write(&is_set, "").unwrap();
        } else {
            while !is_set.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            world.barrier().unwrap();
        }
    });
    world.barrier().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| world.barrier().unwrap()));
        }
    });
    println!("done");
}

/// Ranks that call different things get errors, and go on.
fn order(mpi: Mpi) {
    let world = mpi.world();
    let rank = world.rank();
    let mut bytes = vec![rank as u8];
    let error = match rank {
        0 => world.barrier().unwrap_err(),
        1 => *world.all_gather(&bytes).unwrap_err().downcast().unwrap(),
        _ => *world
            .broadcast(&mut bytes, rank)
            .unwrap_err()
            .downcast()
            .unwrap(),
    };
    let calls = [
        "barrier",
        "all_gather",
        "broadcast from rank 2",
        "broadcast from rank 3",
    ];
    let other = usize::from(rank == 0);
    let expected = MpiError::Order {
        rank: other,
        theirs: calls[other].to_owned(),
        ours: calls[rank].to_owned(),
    };
    assert_eq!(error, expected);
    // The bytes of a broadcast that did not happen are those that were there.
    assert_eq!(bytes, [rank as u8]);

    let error = world.broadcast(&mut bytes, 4).unwrap_err();
    let expected = MpiError::NoSuchRank { root: 4, size: 4 };
    assert_eq!(error.downcast_ref(), Some(&expected));
    // A root that only rank 2 has wrong does not leave the others waiting.
    let root = if rank == 2 { 4 } else { 0 };
    let error = world.broadcast(&mut bytes, root).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(MpiError::Order { .. })),
        "{error}"
    );

    all_arrive(world, 1);
    // Rank 1 leaves; the others learn it.
    if rank != 1 {
        let error = world.barrier().unwrap_err();
        assert!(
            matches!(&error, MpiError::Order { rank: 1, theirs, .. } if theirs.contains("dropped its Mpi")),
            "{error}"
        );
    }
    println!("done");
}

const LARGE: usize = (1 << 31) + 4096;

fn large_if_asked(launcher: &Launcher) {
    match std::env::var_os("CUDA_UM_TEST_MPI_LARGE") {
        Some(_) => drop(launcher.succeeds(2)),
        None => println!("test large ... skipped: needs 9 GiB and CUDA_UM_TEST_MPI_LARGE=1"),
    }
}

/// More bytes than 31 bits can count.
fn large(mpi: Mpi) {
    let world = mpi.world();
    let is_first = world.rank() == 0;
    // Pages of one byte each.
    let page = |number: usize| [number as u8; 4096];
    let mut bytes = Vec::new();
    if is_first {
        (0..LARGE / 4096).for_each(|number| bytes.extend_from_slice(&page(number)));
    }
    let right = |bytes: &[u8]| {
        let mut pages = bytes.chunks(4096).enumerate();
        bytes.len() == LARGE && pages.all(|(number, bytes)| bytes == page(number))
    };
    world.broadcast(&mut bytes, 0).unwrap();
    assert!(right(&bytes));
    if !is_first {
        bytes.truncate(5);
    }
    let all = world.all_gather(&bytes).unwrap();
    drop(bytes);
    assert!(right(&all[0]));
    assert_eq!(all[1], [0; 5]);
    println!("done");
}

fn alone(mpi: Mpi) {
    assert_eq!((mpi.world().rank(), mpi.world().size()), (0, 1));
    all_arrive(mpi.world(), 1);
    println!("done");
}

fn alone_and_not(launcher: &Launcher) {
    let outcome = launcher.run_alone();
    assert!(
        outcome.success && outcome.text.contains("done"),
        "{}",
        outcome.text
    );
    // The launcher of another library started it.
    let outcome = launcher.variable("OMPI_COMM_WORLD_SIZE", "4").run_alone();
    assert!(!outcome.success);
    outcome.says(
        "the launcher says OMPI_COMM_WORLD_SIZE=4, but for the MPI library this process is alone",
    );
}
