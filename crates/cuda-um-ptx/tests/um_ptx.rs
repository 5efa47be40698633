//! The program `um_ptx`.

use std::process::{Command, Output};

const SAXPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/ptx/saxpy.ptx");

fn um_ptx(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_um_ptx"));
    program.args(arguments).output().unwrap()
}

/// Runs saxpy with these arguments; returns what it prints, or its error.
fn saxpy(arguments: [&str; 4]) -> Result<String, String> {
    let mut all = vec!["run", SAXPY, "--grid", "4", "--block", "256", "--show", "2"];
    arguments
        .iter()
        .for_each(|argument| all.extend(["--arg", argument]));
    let output = um_ptx(&all);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.code() {
        Some(0) => Ok(text(output.stdout)),
        Some(1) => Err(text(output.stderr)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kernel_runs_and_is_described() {
    let text = saxpy(["f32:2", "f32[1000]=ramp", "f32[1000]", "u64:1000"]).unwrap();
    assert!(text.contains("argument 2: 0 2 4 6 8 "), "{text}");
    assert!(
        text.contains("global: 8000 bytes read, 4000 written"),
        "{text}"
    );
    // Lanes access neighbours: no sector has a gap.
    assert!(
        text.contains("     125           125               0"),
        "{text}"
    );
}

#[test]
fn mistakes_are_named() {
    for (arguments, expected) in [
        (
            ["f32:2", "f32[1000]", "f32[999]", "u64:1000"],
            "thread (231, 0, 0) of block (3, 0, 0)",
        ),
        (
            ["f32:2", "f32[1000]=unwritten", "f32[1000]", "u64:1000"],
            "a read of memory that nothing has written",
        ),
        (
            ["f32:x", "f32[1]", "f32[1]", "u64:1"],
            "x as f32: invalid float literal",
        ),
        (
            ["f32:2", "many", "f32[1]", "u64:1"],
            "many is neither a value (u32:7) nor a buffer (f32[1000])",
        ),
        (
            ["f32:2", "f32[1]", "f32[1]", "u32:1"],
            "argument 3, u32:1, has 4 bytes, and its parameter 8",
        ),
    ] {
        let error = saxpy(arguments).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let output = um_ptx(&["run", SAXPY, "--entry", "daxpy"]);
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("there is no kernel daxpy; the file has saxpy_f32")
    );
    assert_eq!(
        um_ptx(&["list", SAXPY]).stdout,
        b"PTX 6.4 for sm_60\nsaxpy_f32: parameters of 4, 8, 8, 8 bytes\n"
    );
}
