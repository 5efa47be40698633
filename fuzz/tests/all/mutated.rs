//! The seeds and their mutations: a short run that needs no fuzzer and no nightly toolchain.

use crate::support::Limits;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;
use um_fuzz::TARGETS;

/// Executions of each target: 1,000, or `PROPTEST_CASES`; `cargo fuzz` makes millions.
fn executions() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.map_or(1_000, |number| number.parse().unwrap())
}

/// Inputs have some KB and take milliseconds.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    bytes: 16 << 20,
    bytes_of_each: 100,
};

/// One change of the bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// Repeats a part.
    Repeat(Index, usize),
    /// Replaces a digit by many digits.
    Grow(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1_usize..64).prop_map(|(at, count)| Change::Remove(at, count)),
        (at(), 1_usize..64).prop_map(|(at, count)| Change::Repeat(at, count)),
        at().prop_map(Change::Grow),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let part = |at: &Index, count: usize, bytes: &[u8]| {
        let start = at.index(bytes.len());
        start..bytes.len().min(start + count)
    };
    match change {
        _ if bytes.is_empty() => {}
        Change::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Insert(at, new) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, new.iter().copied());
        }
        Change::Remove(at, count) => drop(bytes.drain(part(at, *count, bytes))),
        Change::Repeat(at, count) => {
            let part = part(at, *count, bytes);
            let (end, copy) = (part.end, bytes[part].to_vec());
            bytes.splice(end..end, copy);
        }
        Change::Grow(at) => {
            let digits: Vec<_> = (0..bytes.len())
                .filter(|&at| bytes[at].is_ascii_digit())
                .collect();
            if !digits.is_empty() {
                let at = digits[at.index(digits.len())];
                bytes.splice(at..at, *b"18446744073709551615");
            }
        }
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("each target has seeds")
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let seeds: Vec<_> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

#[test]
fn seeds_and_mutations() {
    let alone = crate::support::alone();
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        // Memory of the first execution stays, for example a simulated device.
        target(&seeds[0]);
        let most = Cell::new(0);
        let run = |bytes: &[u8]| most.set(most.get().max(alone.run(name, target, bytes, LIMITS)));
        seeds.iter().for_each(|seed| run(seed));
        let strategy = (any::<Index>(), vec(change(), 0..6)).prop_map(move |(seed, changes)| {
            let mut bytes = seed.get(&seeds).clone();
            changes.iter().for_each(|change| apply(&mut bytes, change));
            bytes
        });
        let config = Config {
            cases: executions(),
            failure_persistence: None,
            ..Config::default()
        };
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, random);
        let outcome = runner.run(&strategy, |bytes| {
            run(&bytes);
            Ok(())
        });
        if let Err(failure) = outcome {
            panic!("{name}: {failure}");
        }
        let most = most.get();
        let executions = executions();
        println!("{name}: {executions} executions, 0 crashes; at most {most} bytes of the heap");
    }
}
