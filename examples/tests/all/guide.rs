//! The code of `docs/guide.md` and `docs/framework.md` is that of the programs, and the outputs there are what the programs print.

use crate::{output_of, program, runtime};

const GUIDE: &str = include_str!("../../../docs/guide.md");
const CODE: [&str; 8] = [
    include_str!("../../src/bin/guide/main.rs"),
    include_str!("../../src/bin/guide/share.rs"),
    include_str!("../../src/bin/guide/kernel.rs"),
    include_str!("../../src/bin/guide/profile.rs"),
    include_str!("../../src/bin/guide/advice.rs"),
    include_str!("../../src/bin/guide/errors.rs"),
    include_str!("../../src/bin/guide/add_tax.cu"),
    include_str!("../../../crates/cuda-um/tests/compile_fail/guard_across_launch.rs"),
];
const COMPILER: &str =
    include_str!("../../../crates/cuda-um/tests/compile_fail/guard_across_launch.stderr");

const FRAMEWORK: &str = include_str!("../../../docs/framework.md");
const FRAMEWORK_CODE: [&str; 10] = [
    include_str!("../../src/mini_framework/files.rs"),
    include_str!("../../src/mini_framework/kernels.cu"),
    include_str!("../../src/mini_framework/kernels.rs"),
    include_str!("../../src/mini_framework/layout.rs"),
    include_str!("../../src/mini_framework/ops.rs"),
    include_str!("../../src/mini_framework/places.rs"),
    include_str!("../../src/mini_framework/scalar.rs"),
    include_str!("../../src/mini_framework/tensor.rs"),
    include_str!("../../src/mini_framework/views.rs"),
    concat!(
        include_str!("mini_framework/concurrent.rs"),
        include_str!("mini_framework/memory.rs")
    ),
];

/// The blocks of a page, each with its language.
fn blocks(page: &'static str) -> Vec<(&'static str, &'static str)> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

/// True if the text has these lines, one after the other, with any indentation.
fn has_lines(text: &str, lines: &str) -> bool {
    let trimmed = |text: &str| {
        let lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
        lines.join("\n")
    };
    format!("\n{}\n", trimmed(text)).contains(&format!("\n{}\n", trimmed(lines)))
}

/// Runs a program on the simulator that the page describes, and returns its output.
fn printed(name: &str, built: &str, step: Option<&str>) -> String {
    let mut command = program(name, built);
    for variable in ["CUDA_UM_SIM_GPU", "CUDA_UM_SIM_CUDA", "CUDA_UM_SIM_DEVICES"] {
        command.env_remove(variable);
    }
    output_of(command.args(step))
}

#[test]
fn code_is_that_of_the_programs() {
    for (page, code) in [(GUIDE, &CODE[..]), (FRAMEWORK, &FRAMEWORK_CODE)] {
        for (language, block) in blocks(page) {
            let is_there = code.iter().any(|code| has_lines(code, block));
            assert!(is_there || !["rust", "c"].contains(&language), "{block}");
        }
    }
}

#[test]
fn outputs_are_what_the_programs_print() {
    let (mut steps, mut output) = (Vec::new(), String::new());
    for (language, block) in blocks(GUIDE) {
        if let Some((_, step)) = block.trim_end().rsplit_once("--bin guide -- ") {
            steps.push(step);
            output = printed("guide", env!("CARGO_BIN_EXE_guide"), Some(step));
        }
        // On a GPU the programs print other figures.
        if language == "text" && runtime() == "sim" {
            let is_said = has_lines(&output, block) || has_lines(COMPILER, block);
            assert!(
                is_said,
                "the guide says\n{block}\nand the program\n{output}"
            );
        }
    }
    assert_eq!(steps, ["share", "kernel", "profile", "advice", "errors"]);
}

#[test]
fn the_framework_prints_its_profile() {
    let built = env!("CARGO_BIN_EXE_mini_framework");
    let output = printed("mini_framework", built, None);
    for (language, block) in blocks(FRAMEWORK) {
        // On a GPU the program prints other figures.
        if language == "text" && runtime() == "sim" {
            assert!(
                has_lines(&output, block),
                "the page says\n{block}\nand the program\n{output}"
            );
        }
    }
}
