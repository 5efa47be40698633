//! Kernels that were not written for this crate: those of Triton beside a GPU's answers, and wrong ones.

use crate::support::{Arrays, Parameters, Plain, program};
use cuda_um_ptx::math::float::{F16, Float};
use cuda_um_ptx::{Checks, Extent, Failure, FindingKind, Launch, Module};

/// Numbers from −0.5 to 0.5, the same as on the GPU.
fn ramp(len: usize, seed: u64) -> Vec<f32> {
    let number = |i: u64| (i * 1_103_515_245 + 12345 + seed * 7919) & 0x7fff_ffff;
    (0..len as u64)
        .map(|i| ((number(i) >> 15) as f64 / 65536.0 - 0.5) as f32)
        .collect()
}

fn halves(len: usize, seed: u64, scale: f32) -> Vec<u16> {
    let values = ramp(len, seed).into_iter();
    values
        .map(|value| F16::near((value * scale).into()).0)
        .collect()
}

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A kernel of Triton: grid, shared memory, arrays that it reads, and its scalars. The GPU's output and the machine's.
fn triton<T: Plain>(
    name: &str,
    grid: [u32; 3],
    shared_bytes: usize,
    inputs: impl FnOnce(&mut Arrays) -> Vec<u64>,
    scalars: impl FnOnce(Parameters) -> Parameters,
) -> (Vec<T>, Vec<T>) {
    let answers: Vec<T> = file(&format!("triton/{name}.bin"))
        .chunks_exact(T::SIZE)
        .map(T::from_bytes)
        .collect();
    let mut arrays = Arrays::default();
    let mut parameters = Parameters::default();
    for input in inputs(&mut arrays) {
        parameters = parameters.with(input);
    }
    let out = arrays.add(&vec![0u8; answers.len() * T::SIZE]);
    // The last two are the scratch memory of Triton and of its profiler, which these kernels do not use.
    let parameters = scalars(parameters.with(out)).with(0u64).with(0u64).0;
    let text = String::from_utf8(file(&format!("triton/{name}.ptx"))).unwrap();
    let module = Module::parse(&text).unwrap();
    let variables: Vec<u64> = (0..module.variables().count())
        .map(|index| arrays.add(&module.initial_bytes(index, &[])))
        .collect();
    let launch = Launch {
        grid,
        block: [128, 1, 1],
        shared_bytes,
        parameters: &parameters,
        variables: &variables,
        checks: Checks::ALL,
        ..Launch::default()
    };
    program(&text, name)
        .run(&launch, &arrays)
        .unwrap_or_else(|failure| panic!("{failure}"));
    (answers, arrays.get(out))
}

/// The largest difference.
fn apart(pairs: (Vec<f32>, Vec<f32>)) -> f32 {
    let differences = pairs.0.iter().zip(&pairs.1).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |a, b| if a >= b { a } else { b })
}

fn wide((gpu, machine): (Vec<u16>, Vec<u16>)) -> (Vec<f32>, Vec<f32>) {
    let wide = |values: Vec<u16>| values.into_iter().map(|bits| F16(bits).to_f64() as f32);
    (wide(gpu).collect(), wide(machine).collect())
}

const LEN: usize = 1000;

#[test]
fn triton_add_histogram_and_cumsum_are_equal() {
    let (gpu, machine) = triton::<f32>(
        "add",
        [1; 3],
        0,
        |arrays| [1, 2].map(|seed| arrays.add(&ramp(LEN, seed))).into(),
        |parameters| parameters.with(LEN as u32),
    );
    assert_eq!(gpu, machine);
    let numbers = |seed, number: fn(f32) -> i32| -> Vec<i32> {
        ramp(LEN, seed).into_iter().map(number).collect()
    };
    for (name, shared_bytes, values) in [
        (
            "histogram",
            512,
            numbers(6, |value| ((value + 0.5) * 128.0) as i32),
        ),
        ("cumsum", 128, numbers(10, |value| (value * 100.0) as i32)),
    ] {
        let (gpu, machine) = triton::<i32>(
            name,
            [1; 3],
            shared_bytes,
            |arrays| vec![arrays.add(&values)],
            |parameters| parameters.with(LEN as u32),
        );
        assert_eq!(gpu, machine, "{name}");
    }
}

#[test]
fn triton_matmul_and_attention_are_near() {
    // Products of 96 numbers below a half; the order of the sums is the device's.
    let (m, n, k) = (100, 70, 96);
    let distance = apart(triton(
        "matmul",
        [2, 2, 1],
        16384,
        |arrays| {
            let (a, b) = (halves(m * k, 4, 1.0), halves(k * n, 5, 1.0));
            vec![arrays.add(&a), arrays.add(&b)]
        },
        |parameters| {
            [m, n, k]
                .iter()
                .fold(parameters, |all, size| all.with(*size as u32))
        },
    ));
    assert!(distance <= 2e-6, "{distance}");
    // The output is f16, near 0.05.
    let distance = apart(wide(triton(
        "attention",
        [2, 1, 1],
        12288,
        |arrays| {
            [12, 13, 14]
                .map(|seed| arrays.add(&halves(6400, seed, 1.0)))
                .into()
        },
        |parameters| parameters.with(100u32).with(0.125f32),
    )));
    assert!(distance <= 1e-4, "{distance}");
}

#[test]
fn triton_softmax_layernorm_and_gelu_are_near() {
    // `ex2.approx`, of values up to 1.
    let distance = apart(triton(
        "softmax",
        [3, 1, 1],
        16,
        |arrays| {
            let values: Vec<f32> = ramp(3 * LEN, 3).iter().map(|value| value * 8.0).collect();
            vec![arrays.add(&values)]
        },
        |parameters| parameters.with(LEN as u32).with(LEN as u32),
    ));
    assert!(distance <= 1e-8, "{distance}");
    let distance = apart(triton(
        "layernorm",
        [3, 1, 1],
        16,
        |arrays| {
            let lens = [(3 * LEN, 7), (LEN, 8), (LEN, 9)];
            lens.map(|(len, seed)| arrays.add(&ramp(len, seed))).into()
        },
        |parameters| parameters.with(LEN as u32).with(LEN as u32).with(1e-5f32),
    ));
    assert!(distance <= 1e-6, "{distance}");
    // A unit in the last place of f16 is at most 2^-9 below 4.
    let distance = apart(wide(triton(
        "gelu",
        [1; 3],
        0,
        |arrays| vec![arrays.add(&halves(LEN, 11, 6.0))],
        |parameters| parameters.with(LEN as u32),
    )));
    assert!(distance <= 0.002, "{distance}");
}

/// What is to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Finding(FindingKind),
    /// The limit of instructions.
    Limit,
    /// Nothing: only its output is wrong.
    Output,
}

use Expected::{Finding, Limit, Output};
use FindingKind::{Deadlock, Misaligned, OutOfBounds, Race, ReadOnly, Trap, Unwritten};

/// Each wrong kernel of `wrong/wrong.cu`, and what is found.
const WRONG: [(&str, Expected); 24] = [
    ("reads_one_past_the_end", Finding(OutOfBounds)),
    ("has_no_bound_check", Finding(OutOfBounds)),
    ("reads_before_the_start", Finding(OutOfBounds)),
    ("loads_a_misaligned_pair", Finding(Misaligned)),
    ("writes_its_input", Finding(ReadOnly)),
    ("leaves_its_shared_array", Finding(OutOfBounds)),
    ("forgets_the_barrier", Finding(Race)),
    ("forgets_the_second_barrier", Finding(Race)),
    ("waits_in_one_branch", Finding(Deadlock)),
    ("adds_without_atomics", Finding(Race)),
    ("counts_in_shared_memory_without_atomics", Finding(Race)),
    ("sums_shared_memory_that_nobody_wrote", Finding(Unwritten)),
    ("adds_to_memory_that_nobody_wrote", Finding(Unwritten)),
    ("follows_a_null_pointer", Finding(OutOfBounds)),
    ("overflows_its_index", Finding(OutOfBounds)),
    ("writes_half_of_its_output", Output),
    ("reads_what_another_block_writes", Finding(Race)),
    ("never_ends", Limit),
    ("reads_doubles", Finding(OutOfBounds)),
    ("trusts_the_warp", Finding(Race)),
    (
        "shuffles_from_a_lane_that_left",
        Finding(FindingKind::Barrier),
    ),
    ("needs_dynamic_shared_memory", Finding(OutOfBounds)),
    ("adds_at_half_a_word", Finding(Misaligned)),
    ("asserts", Finding(Trap)),
];

#[test]
fn each_wrong_kernel_is_found_and_named() {
    let text = String::from_utf8(file("wrong/wrong.ptx")).unwrap();
    let mut unlike = Vec::new();
    for (name, expected) in WRONG {
        let len = match name {
            "has_no_bound_check" | "asserts" => 1000,
            _ => 1024,
        };
        let (grid, block) = match name {
            "waits_in_one_branch" => (16, 64),
            "trusts_the_warp" | "shuffles_from_a_lane_that_left" => (32, 32),
            _ => (8, 128),
        };
        let mut arrays = Arrays::default();
        let values: Vec<f32> = (0..len).map(|i| (i % 8) as f32).collect();
        let from = arrays.add(&values);
        let out = arrays.add(&vec![0f32; len]);
        if name == "adds_to_memory_that_nobody_wrote" {
            arrays.unwritten(out);
        }
        let extents = [(out, true), (from, false)].map(|(base, writable)| Extent {
            base,
            bytes: 4 * len as u64,
            writable,
            parameter: usize::from(!writable),
        });
        let parameters = with![out, from, len as u32].0;
        let mut launch = Launch {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            parameters: &parameters,
            extents: &extents,
            checks: Checks::ALL,
            instructions: 200_000,
            threads: 1,
            ..Launch::default()
        };
        let program = program(&text, name);
        let mut result = program.run(&launch, &arrays);
        // What these do is wrong in two ways, and the other one is found first.
        match (name, &result) {
            ("leaves_its_shared_array", Err(Failure::Finding(other))) if other.kind == Race => {
                launch.checks.races = false;
                result = program.run(&launch, &arrays);
            }
            ("forgets_the_barrier", Err(Failure::Finding(other))) if other.kind == Unwritten => {
                launch.checks.unwritten = false;
                result = program.run(&launch, &arrays);
            }
            _ => {}
        }
        let found = match result {
            Ok(_) => (Some(Output), "no finding".into()),
            Err(Failure::Finding(finding)) => {
                assert_eq!(finding.kernel, name);
                assert!(
                    finding.line != 0 && !finding.instruction.is_empty(),
                    "{finding}"
                );
                (Some(Finding(finding.kind)), finding.to_string())
            }
            Err(failure @ Failure::Limit { .. }) => (Some(Limit), failure.to_string()),
            Err(failure) => (None, failure.to_string()),
        };
        if found.0 != Some(expected) {
            unlike.push(format!("{name}: expected {expected:?}, {}", found.1));
        }
        if expected == Output {
            assert_ne!(arrays.get::<f32>(out), values);
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}
