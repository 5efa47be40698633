//! Generated programs, on the machine, against the answers of a GPU (an H200).

use crate::generated::{self, Generator, Program};
use crate::support::Arrays;
use cuda_um_ptx::{Checks, Device, Launch, Module};
use std::sync::atomic::{AtomicUsize, Ordering};

const ANSWERS: &str = include_str!("../generated/answers.txt");

/// Closed programs for which the recorder (`examples/ptx_answers.rs`) had no answer to write.
const UNANSWERED: [u64; 6] = [91, 184, 443, 522, 698, 900];

/// Seed and hash.
fn answers() -> Vec<(u64, u64)> {
    let line = |line: &str| {
        let (seed, hash) = line.split_once(' ')?;
        Some((seed.parse().ok()?, u64::from_str_radix(hash, 16).ok()?))
    };
    ANSWERS.lines().map(|text| line(text).unwrap()).collect()
}

fn run(program: &Program, order: u64) -> Result<Vec<u32>, String> {
    let module = Module::parse(&program.text).map_err(|error| error.to_string())?;
    let kernel = module.kernel("main").ok_or("no kernel")?;
    let kernel = kernel
        .load(&Device::default())
        .map_err(|error| error.to_string())?;
    let mut arrays = Arrays::default();
    let from = arrays.add(&program.input);
    let out = arrays.add(&vec![0u32; program.words]);
    let variables: Vec<u64> = (0..module.variables().count())
        .map(|index| arrays.add(&module.initial_bytes(index, &[0; 8])))
        .collect();
    let parameters = with![from, out].0;
    let launch = Launch {
        grid: [program.grid, 1, 1],
        block: [program.block, 1, 1],
        parameters: &parameters,
        variables: &variables,
        threads: 1,
        checks: Checks::ALL,
        seed: order,
        ..Launch::default()
    };
    kernel
        .run(&launch, &arrays)
        .map_err(|failure| failure.to_string())?;
    Ok(arrays.get(out))
}

#[test]
fn the_machine_answers_as_a_gpu() {
    let answers = answers();
    let generator = Generator::new();
    let open = |seed: &u64| generated::is_open(*seed, &generator.program(*seed));
    let answered = |seed: &u64| answers.iter().any(|answer| answer.0 == *seed);
    let seeds = generator
        .seeds()
        .filter(|seed| !answered(seed) && !open(seed));
    assert_eq!(seeds.collect::<Vec<_>>(), UNANSWERED);
    let next = AtomicUsize::new(0);
    let check = |generator: &Generator, &(seed, hash): &(u64, u64)| {
        let program = generator.program(seed);
        // Of some programs the warps and blocks run in another order, too.
        let orders = if seed < generated::FORMS && seed % 7 == 0 {
            2
        } else {
            1
        };
        for order in 0..orders {
            match run(&program, order) {
                Ok(output) if generated::hash(&program, &output) == hash => {}
                Ok(_) => {
                    return Err(format!(
                        "{seed}: the machine is unlike the GPU: {}",
                        program.name
                    ));
                }
                Err(error) => return Err(format!("{seed} ({}): {error}", program.name)),
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let unlike: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let generator = Generator::new();
            let taken = std::iter::from_fn(|| answers.get(next.fetch_add(1, Ordering::Relaxed)));
            taken
                .filter_map(|answer| check(&generator, answer).err())
                .collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(
        unlike.is_empty(),
        "{} of {}:\n{}",
        unlike.len(),
        answers.len(),
        unlike.join("\n")
    );
}
