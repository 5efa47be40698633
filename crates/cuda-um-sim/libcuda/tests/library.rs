//! Programs over the simulator's libraries, each in a process of its own that finds them through `LD_LIBRARY_PATH`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs, unsafe_code, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output};

use cuda_um_testkit::sim_libraries;
// Cargo builds the library for its dependents.
use cuda_um_sim_lib as _;

/// An example of this package, with the simulator's libraries and without settings of the test's own environment.
fn program(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let examples = test.parent().unwrap().with_file_name("examples");
    let mut command = Command::new(examples.join(name));
    command.env("LD_LIBRARY_PATH", sim_libraries());
    command
}

/// Runs a program that succeeds; returns its standard output and standard error.
fn run(command: &mut Command) -> (String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let texts = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(
        status.success(),
        "{command:?}: {status}\n{}\n{}",
        texts[0],
        texts[1]
    );
    texts.into()
}

#[test]
fn a_program_that_knows_only_cudarc_runs_unchanged() {
    let (output, errors) = run(&mut program("only_cudarc"));
    assert!(output.contains("scaled 1000 elements\n"), "{output}");
    assert_eq!(errors, "");
}

#[test]
fn cudarc_and_cuda_um_share_a_memory_space() {
    let (output, _) = run(&mut program("beside_cudarc"));
    assert!(output.ends_with("one memory space\n"), "{output}");
}

#[test]
fn every_function_that_cuda_um_calls_is_exported() {
    let library = sim_libraries().join("libcudart.so.13");
    // SAFETY: the library runs no code when it is loaded.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // It looks names up as `c"cudaMalloc"`.
    let text = std::fs::read_to_string(crates.join("cuda-um-sys/src/table.rs")).unwrap();
    let names: Vec<&str> = text
        .split("(c\"")
        .skip(1)
        .filter_map(|it| it.split('"').next())
        .collect();
    for name in &names {
        // SAFETY: the address is not used.
        let symbol = unsafe { library.get::<*const ()>(name.as_bytes()) };
        assert!(symbol.is_ok(), "{name}");
    }
    assert!(names.len() > 70, "{names:?}");
}

#[test]
fn settings_that_cannot_be_used_are_an_error_with_the_reason() {
    for (name, value) in [
        ("CUDA_UM_SIM_GPU", "h2000"),
        ("CUDA_UM_SIM_KERNEL_CHECKS", "some"),
    ] {
        let output = program("only_cudarc").env(name, value).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{name}");
        assert!(errors.contains(name) && errors.contains(value), "{errors}");
        assert!(errors.contains("CUDA_ERROR_NOT_INITIALIZED"), "{errors}");
    }
}

#[test]
fn each_machine_of_the_simulator_works() {
    // The kernel is not for Maxwell; cudarc, as it is built here, calls a function that 11.8 and 12.2 do not have.
    let gpus = ["pascal", "gh200", "no-concurrent"].map(|gpu| ("CUDA_UM_SIM_GPU", gpu));
    let versions = ["11.8", "12.2", "12.9", "13.0", "13.4"].map(|cuda| ("CUDA_UM_SIM_CUDA", cuda));
    for (name, value) in gpus.into_iter().chain(versions) {
        run(program("beside_cudarc").env(name, value));
        if !["11.8", "12.2"].contains(&value) {
            run(program("only_cudarc").env(name, value));
        }
    }
}
