//! Ranks that end too early: the job ends, and the rank is named.
#![allow(unsafe_code, reason = "kills this process")]

use crate::Case;
use crate::launch::{Launcher, Outcome, says_when};
use std::time::Duration;
use um_mpi::{Mpi, MpiError};
use um_search::World;

pub const CASES: &[Case] = &[
    ("killed", killed, killed_is_told),
    ("exits", exits, exits_is_told),
    ("vanishes", vanishes, vanishes_is_told),
    ("panics", panics, panics_is_told),
    ("gives_up", gives_up, gives_up_is_told),
    ("hangs", hangs, hangs_is_told),
    ("no_memory", no_memory, no_memory_is_told),
    ("forks", forks, children_made_by_fork_do_not_call_mpi),
];

/// The aim: the job ends within this time after the loss of a rank.
const SOON: Duration = Duration::from_secs(5);

/// Rank 1 does something, and the others wait for it. A rank that learns it says so.
fn rank_one(mpi: &Mpi, does: impl FnOnce()) {
    let world = mpi.world();
    world.barrier().unwrap();
    if world.rank() == 1 {
        says_when();
        does();
    }
    match world.all_gather(&[0; 100]) {
        Ok(_) => println!("all are there"),
        Err(error) => println!("rank {} learns: {error}", world.rank()),
    }
    // It does not change.
    let again = world.barrier();
    if let Err(error) = again {
        println!("rank {} learns again: {error}", world.rank());
    }
}

fn fails_soon(outcome: &Outcome) {
    assert!(!outcome.success, "{}", outcome.text);
    assert!(
        outcome.since_the_event() < SOON,
        "{:?}:\n{}",
        outcome.since_the_event(),
        outcome.text
    );
}

/// Another rank than 1 found out by itself, and what it learns later is the same. The first one ends all, so the other may have no time for that,
/// and it may have none for a second call.
fn another_learns(outcome: &Outcome, what: &str) {
    let learns = |rank: usize| {
        let again = format!("rank {rank} learns again: ");
        let mut lines = outcome.text.lines();
        let is_same = lines.all(|line| {
            line.strip_prefix(&again)
                .is_none_or(|told| told.starts_with(what))
        });
        outcome
            .text
            .contains(&format!("rank {rank} learns: {what}"))
            && is_same
    };
    assert!(learns(0) || learns(2), "{}", outcome.text);
}

fn killed(mpi: Mpi) {
    // SAFETY: a plain system call.
    rank_one(&mpi, || unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
    });
}

fn killed_is_told(launcher: &Launcher) {
    // The launcher kills the others.
    let outcome = launcher.run(3);
    fails_soon(&outcome);
    outcome.says("um-mpi: rank 1 of 3 (PID ");
    for other in ["rank 0 of 3 (PID", "rank 2 of 3 (PID"] {
        assert!(!outcome.text.contains(other), "{}", outcome.text);
    }
}

fn exits(mpi: Mpi) {
    rank_one(&mpi, || std::process::exit(0));
}

fn exits_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    fails_soon(&outcome);
    outcome.says(
        "um-mpi: rank 1 of 3: the process exits without MPI_Finalize; MPI_Abort ends all ranks",
    );
}

fn vanishes(mpi: Mpi) {
    // SAFETY: a plain system call.
    rank_one(&mpi, || unsafe { libc::_exit(0) });
}

/// MPICH's launcher kills the others, or not, and may report success.
fn vanishes_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    assert!(outcome.since_the_event() < SOON, "{}", outcome.text);
    outcome.says("um-mpi: rank 1 of 3 (PID ");
    // The launcher does nothing: the others find out by themselves.
    let outcome = launcher.option("-disable-auto-cleanup").run(3);
    fails_soon(&outcome);
    another_learns(&outcome, "rank 1 of 3 (PID ");
    outcome.says(
        "ended without MPI_Finalize: it was killed, crashed, or left the program early; MPI_Abort ends all ranks",
    );
}

fn panics(mpi: Mpi) {
    rank_one(&mpi, || panic!("as the test wants"));
}

fn panics_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    fails_soon(&outcome);
    outcome.says("um-mpi: rank 1 of 3: the program panicked; MPI_Abort ends all ranks");
}

/// Rank 1 has an error of its own, and returns from `main`.
fn gives_up(mpi: Mpi) {
    let world = mpi.world();
    if world.rank() == 1 {
        return drop(mpi);
    }
    let error = world.all_gather(&[]).unwrap_err();
    let error: MpiError = *error.downcast().unwrap();
    println!("rank {} learns: {error}", world.rank());
}

fn gives_up_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    assert!(outcome.success, "{}", outcome.text);
    for rank in [0, 2] {
        outcome.says(&format!("rank {rank} learns: rank 1 called the end of MPI"));
    }
}

fn hangs(mpi: Mpi) {
    mpi.world().set_time_limit(Some(Duration::from_millis(300)));
    rank_one(&mpi, || std::thread::sleep(Duration::from_secs(60)));
}

fn hangs_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    assert!(!outcome.success);
    outcome.says("all_gather waited 300ms for the other ranks");
}

/// Rank 1 has no memory for the messages of the others.
fn no_memory(mpi: Mpi) {
    let (world, message) = (mpi.world(), vec![0; 20 << 20]);
    if world.rank() == 1 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let rlim_cur = pages * 4096 + (10 << 20);
        let limit = libc::rlimit {
            rlim_cur,
            rlim_max: rlim_cur,
        };
        // SAFETY: a plain system call.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    }
    println!("{:?}", world.all_gather(&message).map(drop));
}

fn no_memory_is_told(launcher: &Launcher) {
    let outcome = launcher.run(3);
    assert!(!outcome.success);
    outcome.says("um-mpi: rank 1 of 3: no host memory for the 62914560 bytes that the ranks send");
}

fn forks(mpi: Mpi) {
    // SAFETY: this process has no other threads that hold locks; the child ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let forked = |error| matches!(error, MpiError::Forked { parent, .. } if parent != std::process::id());
        let is_refused =
            forked(mpi.world().barrier().unwrap_err()) && forked(Mpi::init().unwrap_err());
        drop(mpi);
        std::process::exit(if is_refused { 42 } else { 1 })
    }
    let mut status = 0;
    // SAFETY: waits for the child, and writes its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 42);
    mpi.world().barrier().unwrap();
    println!("done");
}

fn children_made_by_fork_do_not_call_mpi(launcher: &Launcher) {
    launcher.succeeds(2);
}
