//! The program, and the size of the wrapper.

use crate::{output_of, program, runtime};

#[test]
fn the_program_descends_in_every_kind_of_memory() {
    let mut command = program("mini_framework", env!("CARGO_BIN_EXE_mini_framework"));
    let table = output_of(command.args(["--runtime", &runtime()]));
    for kind in ["unified", "cuda", "host", "pinned"] {
        assert!(
            table
                .lines()
                .any(|line| line.starts_with(kind) && line.ends_with("after 50 steps")),
            "{table}"
        );
    }
    // The steps of a place whose kernels run on the GPU are recorded.
    let recorded = table.matches("as a graph: the same bits").count();
    assert_eq!(recorded, 3, "{table}");
}

/// What the library needs before its first operation: at most 45 lines of code on `um-backend`.
#[test]
fn the_wrapper_is_small() {
    let source = include_str!("../../../src/mini_framework/tensor.rs");
    let (_, wrapper) = source.split_once("// wrapper begins\n").unwrap();
    let (wrapper, _) = wrapper.split_once("// wrapper ends\n").unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = wrapper.lines().filter(is_code).count();
    assert!(lines <= 45, "{lines}");
    let page = include_str!("../../../../docs/framework.md");
    assert!(page.contains(&format!("These {lines} lines are the whole wrapper")));
}
