//! The code of `docs/guide.md` is that of the programs, and its outputs are what the programs print.

use std::path::{Path, PathBuf};
use std::process::Command;

const GUIDE: &str = include_str!("../../docs/guide.md");
const CODE: [&str; 8] = [
    include_str!("../src/bin/guide/main.rs"),
    include_str!("../src/bin/guide/share.rs"),
    include_str!("../src/bin/guide/kernel.rs"),
    include_str!("../src/bin/guide/profile.rs"),
    include_str!("../src/bin/guide/advice.rs"),
    include_str!("../src/bin/guide/errors.rs"),
    include_str!("../src/bin/guide/add_tax.cu"),
    include_str!("../../crates/cuda-um/tests/compile_fail/guard_across_launch.rs"),
];
const COMPILER: &str =
    include_str!("../../crates/cuda-um/tests/compile_fail/guard_across_launch.stderr");

/// The blocks of the guide, each with its language.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = GUIDE.split("```").skip(1).step_by(2);
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

/// The runtime of the tests: `cuda` if `CUDA_UM_TEST_RUNTIME` says so, otherwise `sim`.
fn runtime() -> String {
    std::env::var("CUDA_UM_TEST_RUNTIME").unwrap_or_else(|_| "sim".into())
}

/// Runs a step from cargo's target folder or from the folder of the bundle, and returns its output.
fn printed(step: &str) -> String {
    let program = match std::env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join("guide"),
        None => PathBuf::from(env!("CARGO_BIN_EXE_guide")),
    };
    let output = Command::new(program)
        .arg(step)
        .env("CUDA_UM_RUNTIME", runtime())
        .env_remove("CUDA_UM_SIM_GPU")
        .env_remove("CUDA_UM_SIM_CUDA")
        .env_remove("CUDA_UM_SIM_DEVICES")
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{step}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn code_is_that_of_the_programs() {
    for (language, block) in blocks() {
        let is_there = CODE.iter().any(|code| has_lines(code, block));
        assert!(is_there || !["rust", "c"].contains(&language), "{block}");
    }
}

#[test]
fn outputs_are_what_the_programs_print() {
    let (mut steps, mut output) = (Vec::new(), String::new());
    for (language, block) in blocks() {
        if let Some((_, step)) = block.trim_end().rsplit_once("--bin guide -- ") {
            steps.push(step);
            output = printed(step);
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
