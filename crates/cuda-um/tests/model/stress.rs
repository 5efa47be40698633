//! Many threads, streams and buffers of one runtime: reads return the written data, and nothing is leaked.
//!
//! Each thread makes random operations of the model on buffers whose contents it knows, in pools and on streams that all threads share, and hands
//! buffers over with their contents. The default is 2,000 operations for each thread. `CUDA_UM_STRESS_SECONDS=240` sets a time, and
//! `CUDA_UM_STRESS_SEED` repeats the random choices of a run (but not the order of the threads). A thread has at most 16 MiB of buffers.

use crate::number;
use crate::operation::{self, ALL, Operation, Reading};
use crate::pools::{POOLED, Pools};
use crate::replay::{MOST_BUFFERS, Replay, Slot};
use crate::world::{Machine, Spec};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::on_gpu;
use cuda_um_testkit::watchdog::{say, watch};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
/// For each thread, if no time is set.
const OPERATIONS: u64 = 2000;

/// One thread's random operations; returns their number.
///
/// # Errors
///
/// The first operation that went wrong.
fn works(
    mut machine: Machine,
    pools: Vec<Pools>,
    mut runner: TestRunner,
    (others, inbox): (Vec<Sender<Slot>>, Receiver<Slot>),
) -> Result<u64, String> {
    let seconds = number("CUDA_UM_STRESS_SECONDS", 0);
    let end = (seconds > 0).then(|| Duration::from_secs(seconds));
    let (start, watchdog, mut done) = (Instant::now(), watch(), 0);
    let mut replay = Replay::with(&mut machine, pools, true);
    while end.map_or(done < OPERATIONS, |end| start.elapsed() < end) {
        done += 1;
        watchdog.progress();
        let tree = operation::operation().new_tree(&mut runner);
        let operation = tree.map_err(|reason| reason.to_string())?.current();
        // Only an idle machine can be held.
        if !matches!(operation, Operation::Hold(_)) {
            let ended = replay.step(&operation);
            ended.map_err(|error| format!("{operation:?}: {error}"))?;
        }
        if replay.slots.len() < MOST_BUFFERS {
            replay.slots.extend(inbox.try_recv());
        }
        if done % 4 == 0
            && let Some(slot) = replay.slots.pop()
        {
            let to = &others[done as usize / 4 % THREADS];
            // A thread that has ended before leaves its inbox.
            replay
                .slots
                .extend(to.send(slot).err().map(|unsent| unsent.0));
        }
    }
    drop(others);
    while let Ok(slot) = inbox.recv() {
        replay.slots.push(slot);
        replay.read(replay.slots.len() - 1, ALL, Reading::ReadBack)?;
        replay.slots.pop();
    }
    replay.finish().map(|()| done)
}

#[test]
fn what_is_written_is_read_and_nothing_is_left() {
    let (gpu, cuda) = (Gpu::H200, CudaVersion::V13_0);
    let machine = Machine::new(match on_gpu() {
        true => Spec::Real,
        false => Spec::Simulated {
            gpu,
            cuda,
            devices: 1,
        },
    });
    let mut pools = Pools::default();
    for kind in POOLED {
        pools.of(kind, &machine.sides[0].device).unwrap();
    }
    let seed = number("CUDA_UM_STRESS_SEED", 1);
    let (others, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads = inboxes.into_iter().enumerate().map(|(number, inbox)| {
            let mut bytes = [number as u8; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
            let runner = TestRunner::new_with_rng(Config::default(), rng);
            let (machine, pools) = (machine.clone(), vec![pools.clone()]);
            let mail = (others.clone(), inbox);
            scope.spawn(move || works(machine, pools, runner, mail))
        });
        let threads: Vec<_> = threads.collect();
        drop(others);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    pools.trim();
    drop(pools);
    machine.nothing_left().unwrap();
    machine.close().unwrap();
    let errors: Vec<_> = outcomes
        .iter()
        .filter_map(|done| done.as_ref().err())
        .collect();
    let operations: u64 = outcomes.iter().flatten().sum();
    say(&format!(
        "stress: {THREADS} threads, {operations} operations, {} went wrong",
        errors.len()
    ));
    assert!(errors.is_empty(), "{errors:#?}");
}
