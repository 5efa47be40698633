//! Runs the program as a user does: on the simulator, or with CUDA_UM_TEST_RUNTIME=cuda on a GPU.

use serde_json::Value;
use std::process::{Command, Output};

fn program(arguments: &[&str]) -> Command {
    let program = match std::env::var("CUDA_UM_BIN_DIR") {
        Ok(folder) => folder + "/batch_recall",
        Err(_) => env!("CARGO_BIN_EXE_batch_recall").to_owned(),
    };
    let runtime = std::env::var("CUDA_UM_TEST_RUNTIME").unwrap_or("sim".into());
    let mut command = Command::new(program);
    command.env("CUDA_UM_RUNTIME", runtime).args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

/// The runs, and what the program says if it fails.
fn runs(arguments: &[&str]) -> Result<Vec<Value>, String> {
    let output = run(&[&["--json"], arguments].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice::<Value>(&output.stdout);
    let runs = report.map(|report| report["runs"].as_array().unwrap().clone());
    runs.map_err(|_| errors)
}

/// The same for a file of targets, which are the queries, too.
fn runs_of(dtype: &str, shape: &str, data: &[u8]) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    let header = format!("{{'descr': '{dtype}, 'shape': {shape}}}\n");
    let length = (header.len() as u16).to_le_bytes();
    let start = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
    std::fs::write(&file, [&start, data].concat()).unwrap();
    let file = file.to_str().unwrap();
    runs(&["-k2", "--targets", file, "--queries", file])
}

#[test]
fn all_three_buffers_find_what_numpy_found() {
    let expected = include_str!("../../../data/wordnet-1k/expected.json");
    let expected: Value = serde_json::from_str(expected).unwrap();
    let runs = runs(&[]).unwrap();
    let buffers: Vec<_> = runs.iter().map(|run| &run["buffer"]).collect();
    assert_eq!(buffers, ["unified", "cuda", "host"]);
    for run in runs {
        assert_eq!(run["recall_at_1"], expected["recall_at_1"]);
        assert_eq!(run["recall_at_10"], expected["recall_at_10"]);
        for row in expected["top5"].as_array().unwrap() {
            let found = &run["top"][row["query"].as_u64().unwrap() as usize];
            for rank in 0..5 {
                assert_eq!(found[rank]["target"], row["top5"][rank], "{row}");
                let cosines = [&found[rank]["cosine"], &row["cosine"][rank]];
                let [ours, right] = cosines.map(|cosine| cosine.as_f64().unwrap());
                assert!((ours - right).abs() <= 1e-5, "{row}: {ours}");
            }
        }
    }
}

#[test]
fn a_kernel_without_hints_faults_its_data_in() {
    let faults = |hints| {
        let runs = runs(&["--buffer=unified", hints]).unwrap();
        runs[0]["page_faults"]["device"].as_u64()
    };
    let Some(with) = faults("-k10") else {
        return eprintln!("NOT RUN: nothing counts page faults here (no CUPTI)");
    };
    let without = faults("--no-hints").unwrap();
    // A GPU has a few: the pool gives the targets a block that held read-mostly queries.
    assert!(with <= 16 && without > with, "{with}, {without}");
}

#[test]
fn every_allowed_type_and_order_gives_the_same() {
    let rows = [1.0f32, 0.0, 0.0, 2.0, -3.0, 0.0, 1.0, 1.0];
    let columns = [1.0f32, 0.0, -3.0, 1.0, 0.0, 2.0, 0.0, 1.0];
    let halves = rows.map(half::f16::from_f32);
    let [rows, columns] = [rows, columns].map(|values| bytemuck::pod_collect_to_vec(&values));
    let same = |kind, data: &[u8]| {
        for run in runs_of(kind, "(4, 2)", data).unwrap() {
            let target = |query, rank| &run["top"][query][rank]["target"];
            let top =
                [0, 1, 2, 3].map(|query: usize| [0, 1].map(|rank: usize| target(query, rank)));
            assert_eq!(top, [[0, 3], [1, 3], [2, 1], [3, 0]], "{kind}");
        }
    };
    same("<f4', 'fortran_order': False", &rows);
    same("<f4', 'fortran_order': True", &columns);
    same(
        "<f2', 'fortran_order': False",
        bytemuck::cast_slice(&halves),
    );
    // One long axis has one order.
    let line = bytemuck::cast_slice(&[1.0f32; 8]);
    runs_of("<f4', 'fortran_order': True", "(8, 1)", line).unwrap();
}

/// One line that names the file, its type and its shape.
#[test]
fn wrong_files_are_refused() {
    let refused = |dtype: &str, shape: &str, data: [f32; 2], problem: &str| {
        let dtype = format!("{dtype}', 'fortran_order': False");
        let errors = runs_of(&dtype, shape, bytemuck::cast_slice(&data)).unwrap_err();
        let is_one_line = errors.matches(char::is_control).count() == 1;
        let is_named = errors.contains("x.npy: ") && errors.contains(problem);
        assert!(is_one_line && is_named, "{errors} has no {problem}");
    };
    let ones = [1.0; 2];
    refused(
        "<f8",
        "(1, 1)",
        ones,
        "'<f8' of shape [1, 1]; allowed: '<f4' or '<f2'",
    );
    refused(">f4", "(1, 2)", ones, "'>f4' of shape [1, 2]; allowed");
    refused("<f4", "(2,)", ones, "'<f4' of shape [2]; allowed");
    refused("<f4", "(0, 2)", ones, "not empty");
    refused(
        "<f4",
        "(2, 2)",
        ones,
        "needs 16 bytes of data, and the file has 8",
    );
    refused(
        "<f4",
        "(4611686018427387904, 8)",
        ones,
        "needs 147573952589676412928",
    );
    refused("<f4", "(2, 1)", [1.0, f32::NAN], "row 1, column 0 is NaN");
    refused("<f4", "(2, 1)", [0.0, 1.0], "row 0 is a zero vector");
    refused("<f4", "\x1b[31m", ones, "not a .npy file");
    refused("<f4", &"(')',".repeat(40), ones, "more than 8 brackets");
    let lines = "\n".repeat(200) + &"[".repeat(40);
    refused("<f4", &lines, ones, "more than 8 brackets");
    let late = " ".repeat(10_000) + &"[".repeat(40);
    refused("<f4", &late, ones, "more than 10000 bytes");
}

#[test]
fn people_see_the_table_the_texts_and_a_page() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let page = page.path().to_str().unwrap();
    let text = String::from_utf8(run(&["--profile", page]).stdout).unwrap();
    for part in [
        "unified",
        "host",
        "0.853",
        "All 3 give the same top 10 cosines",
        "\"he prepared",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("targets"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_that_cannot_be_shown_is_a_status() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = program(&["--targets", "no such file"]);
    let status = command.stderr(full.unwrap()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
