//! The programs made from seeds, against `math` where it knows the answer; all of them run without a finding.

#[path = "../generated/mod.rs"]
mod programs;

use cuda_um_ptx::{Checks, Device, Launch, Module};

use crate::support::{Arrays, Parameters};

fn output(program: &programs::Program, seed: u64) -> Vec<u32> {
    let module =
        Module::parse(&program.text).unwrap_or_else(|error| panic!("{}: {error}", program.name));
    let kernel = module.kernel("main").unwrap().load(&Device::default());
    let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", program.name));
    let mut arrays = Arrays::default();
    let (from, out) = (
        arrays.add(&program.input),
        arrays.add(&vec![0u32; program.words]),
    );
    // The variables hold no addresses of each other.
    let variables: Vec<u64> = (0..module.variables().count())
        .map(|index| arrays.add(&module.initial_bytes(index, &[0; 8])))
        .collect();
    let parameters = Parameters::default().with(from).with(out).0;
    let launch = Launch {
        grid: [program.grid, 1, 1],
        block: [program.block, 1, 1],
        parameters: &parameters,
        variables: &variables,
        threads: 1,
        checks: Checks::ALL,
        seed,
        ..Launch::default()
    };
    kernel
        .run(&launch, &arrays)
        .unwrap_or_else(|failure| panic!("{}: {failure}", program.name));
    arrays.get(out)
}

#[test]
fn each_form_is_what_math_says() {
    let generator = programs::Generator::new();
    let mut wrong = Vec::new();
    for seed in generator.seeds().skip_while(|seed| *seed < programs::FORMS) {
        let program = generator.program(seed);
        let Some(expected) = &program.expected else {
            continue;
        };
        let output = output(&program, 0);
        let same = match program.bound {
            Some(bound) => programs::differences(bound, expected, &output).is_empty(),
            None => output[..expected.len()] == expected[..],
        };
        if !same {
            let at = (0..expected.len()).find(|&at| output[at] != expected[at]);
            wrong.push((
                program.name.clone(),
                at.map(|at| (at, output[at], expected[at])),
            ));
        }
    }
    assert!(wrong.is_empty(), "{} forms: {wrong:x?}", wrong.len());
}

#[test]
fn programs_of_many_statements_run_and_do_not_depend_on_the_order() {
    let generator = programs::Generator::new();
    for seed in (0..programs::FORMS).step_by(7) {
        let program = generator.program(seed);
        assert_eq!(
            output(&program, 0),
            output(&program, 1),
            "{seed}: {}",
            program.name
        );
    }
}
