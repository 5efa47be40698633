//! What the ranks exchange.

use crate::{Case, launch::Launcher};
use um_mpi::{Communicator, Mpi, MpiError};
use um_search::World;

pub const CASES: &[Case] = &[
    ("bytes_arrive", bytes_arrive, on_each_size),
    ("threads", threads, on_four),
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

/// What a rank sends: of another length and content for each rank and round, and nothing from rank 0.
fn message(rank: usize, round: usize) -> Vec<u8> {
    let mut bytes = vec![(rank * 31 + round) as u8; rank * [1, 1000, 20_000][round % 3]];
    for place in (0..bytes.len()).step_by(997) {
        bytes[place] = place as u8;
    }
    bytes
}

fn all_arrive(world: &Communicator, name: impl Fn(usize) -> usize, round: usize) {
    let mine = message(name(world.rank()), round);
    let all = world.all_gather(&mine).unwrap();
    let expected: Vec<Vec<u8>> = (0..world.size()).map(|r| message(name(r), round)).collect();
    assert!(all == expected, "round {round} of {world:?}");
    for root in 0..world.size() {
        let mut bytes = message(name(world.rank()), round);
        world.broadcast(&mut bytes, root).unwrap();
        assert!(
            bytes == message(name(root), round),
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
        all_arrive(world, |rank| rank, round);
        world.barrier().unwrap();
    }
    let parity = world.split(u64::MAX - rank as u64 % 2).unwrap();
    assert_eq!(parity.size(), (size + 1 - rank % 2) / 2);
    all_arrive(&parity, |of_parity| 2 * of_parity + rank % 2, 1);
    let single = parity.split(rank as u64).unwrap();
    assert_eq!((single.rank(), single.size()), (0, 1));
    all_arrive(&single, |_| rank, 2);
    drop(parity);
    all_arrive(world, |rank| rank, 1);
    println!("done");
}

/// Threads use communicators at the same time, and in another order on each rank.
fn threads(mpi: Mpi) {
    let world = mpi.world();
    let communicators = [(); 3].map(|()| world.split(0).unwrap());
    std::thread::scope(|scope| {
        for number in 0..3 {
            let one = &communicators[(number + world.rank()) % 3];
            scope.spawn(move || (0..20).for_each(|round| all_arrive(one, |rank| rank, round)));
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

    all_arrive(world, |rank| rank, 1);
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
        None => println!("test large ... skipped: needs 14 GiB and CUDA_UM_TEST_MPI_LARGE=1"),
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
    all_arrive(mpi.world(), |_| 3, 1);
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
    outcome.says("OtherLauncher { variable: \"OMPI_COMM_WORLD_SIZE\", value: \"4\"");
}
