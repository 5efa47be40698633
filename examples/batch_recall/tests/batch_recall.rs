//! Runs the program as a user does: on the simulator, or with CUDA_UM_TEST_RUNTIME=cuda on a GPU.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let program = match std::env::var_os("CUDA_UM_BIN_DIR") {
        Some(folder) => Path::new(&folder).join("batch_recall"),
        None => env!("CARGO_BIN_EXE_batch_recall").into(),
    };
    let runtime = std::env::var("CUDA_UM_TEST_RUNTIME").unwrap_or("sim".into());
    let mut command = Command::new(program);
    command.env("CUDA_UM_RUNTIME", runtime).args(arguments);
    command.output().unwrap()
}

fn runs(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[&["--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["runs"].as_array().unwrap().clone()
}

/// Runs with these targets, and with the same queries.
fn run_file(header: &str, data: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    let length = (header.len() as u16).to_le_bytes();
    let start = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()];
    std::fs::write(&file, [&start.concat(), data].concat()).unwrap();
    let file = file.to_str().unwrap();
    run(&["--json", "-k2", "--targets", file, "--queries", file])
}

fn header(dtype: &str, is_fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{dtype}', 'fortran_order': {is_fortran}, 'shape': {shape}}}\n")
}

#[test]
fn all_three_buffers_find_what_numpy_found() {
    let expected = include_str!("../../../data/wordnet-1k/expected.json");
    let expected: Value = serde_json::from_str(expected).unwrap();
    let runs = runs(&[]);
    let buffers: Vec<_> = runs.iter().map(|run| &run["buffer"]).collect();
    assert_eq!(buffers, ["unified", "cuda", "host"]);
    for run in runs {
        assert_eq!(run["recall_at_1"], expected["recall_at_1"]);
        assert_eq!(run["recall_at_10"], expected["recall_at_10"]);
        for row in expected["top5"].as_array().unwrap() {
            let found = &run["top"][row["query"].as_u64().unwrap() as usize];
            for rank in 0..5 {
                assert_eq!(found[rank]["target"], row["top5"][rank], "{row}");
                let [ours, right] = [&found[rank]["cosine"], &row["cosine"][rank]];
                let difference = ours.as_f64().unwrap() - right.as_f64().unwrap();
                assert!(difference.abs() <= 1e-5, "{row}: {difference}");
            }
        }
    }
}

#[test]
fn a_kernel_without_hints_faults_its_data_in() {
    let faults = |more: &[&str]| {
        let run = &runs(&[&["--buffer", "unified"], more].concat())[0];
        run["page_faults"]["device"].as_u64()
    };
    let Some(with) = faults(&[]) else {
        return eprintln!("NOT RUN: nothing counts page faults here (no CUPTI)");
    };
    let without = faults(&["--no-hints"]).unwrap();
    // A GPU has a few: the pool gives the targets a block that held read-mostly queries.
    assert!(with <= 16 && without > with, "{with}, {without}");
}

#[test]
fn every_allowed_type_and_order_gives_the_same() {
    let rows = [1.0f32, 0.0, 0.0, 2.0, -3.0, 0.0, 1.0, 1.0];
    let columns = [1.0f32, 0.0, -3.0, 1.0, 0.0, 2.0, 0.0, 1.0];
    let halves = rows.map(half::f16::from_f32);
    let same = |header: String, data| {
        let output = run_file(&header, data);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        for run in report["runs"].as_array().unwrap() {
            let top =
                [0, 1, 2, 3].map(|query| [0, 1].map(|rank| &run["top"][query][rank]["target"]));
            assert_eq!(top, [[0, 3], [1, 3], [2, 1], [3, 0]], "{header}");
        }
    };
    same(
        header("<f4", "False", "(4, 2)"),
        bytemuck::cast_slice(&rows),
    );
    same(
        header("<f4", "True", "(4, 2)"),
        bytemuck::cast_slice(&columns),
    );
    same(
        header("<f2", "False", "(4, 2)"),
        bytemuck::cast_slice(&halves),
    );
    // One long axis: both orders are the same.
    let line = run_file(
        &header("<f4", "True", "(8, 1)"),
        bytemuck::cast_slice(&[1.0f32; 8]),
    );
    assert!(line.status.success());
}

/// One line that names the file, its type and shape, and nothing on standard output.
#[test]
fn wrong_files_are_refused() {
    let refused = |header: &str, data: [f32; 2], problem: &str| {
        let output = run_file(header, bytemuck::cast_slice(&data));
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_one_line = errors.matches(char::is_control).count() == 1;
        let is_named = errors.contains("x.npy: ") && errors.contains(problem);
        assert!(is_one_line && is_named, "{errors} has no {problem}");
        assert_eq!((output.status.code(), output.stdout), (Some(1), vec![]));
    };
    let array = |dtype, shape, problem| refused(&header(dtype, "False", shape), [1.0; 2], problem);
    array(
        "<f8",
        "(1, 1)",
        "'<f8' of shape [1, 1]; allowed: '<f4' or '<f2'",
    );
    array(">f4", "(1, 2)", "'>f4' of shape [1, 2]; allowed");
    array("<f4", "(2,)", "'<f4' of shape [2]; allowed");
    array("<f4", "(0, 2)", "not empty");
    array(
        "<f4",
        "(2, 2)",
        "needs 16 bytes of data, and the file has 8",
    );
    array(
        "<f4",
        "(4611686018427387904, 8)",
        "needs 147573952589676412928",
    );
    let pair = header("<f4", "False", "(2, 1)");
    refused(&pair, [1.0, f32::NAN], "row 1, column 0 is NaN");
    refused(&pair, [0.0, 1.0], "row 0 is a zero vector");
    refused("\x1b[31m\n", [1.0; 2], "not a .npy file");
    refused(&"(')',".repeat(40), [1.0; 2], "more than 8 brackets");
}

#[test]
fn people_see_the_table_the_texts_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = run(&["--show", "1", "--profile", page.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "unified",
        "cuda",
        "host",
        "0.56",
        "0.853",
        "All 3 give the same top 10.",
        "\"he prepared",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("targets"));
}
