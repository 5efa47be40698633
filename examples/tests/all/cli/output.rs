//! The output, and its destination.

use crate::cli::files::{Folder, batch_recall, dictionary, npy};
use crate::runtime;
use serde_json::{Value, json};
use std::process::{Output, Stdio};

fn json_of(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn targets(run: &Value) -> Vec<Vec<u64>> {
    let rows = run["top"].as_array().unwrap().iter();
    rows.map(|row| {
        row.as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["target"].as_u64().unwrap())
            .collect()
    })
    .collect()
}

#[test]
fn json_is_one_object_with_the_promised_keys() {
    let folder = Folder::new();
    let result = json_of(&folder.command().arg("--json").output().unwrap());
    assert_eq!(result["runtime"], runtime().as_str());
    assert!(!result["device"].as_str().unwrap().is_empty());
    let runs = result["runs"].as_array().unwrap();
    let buffers: Vec<_> = runs
        .iter()
        .map(|run| run["buffer"].as_str().unwrap())
        .collect();
    assert_eq!(buffers, ["unified", "cuda", "host"]);
    for run in runs {
        assert_eq!(run["recall_at_1"], Value::Null);
        assert_eq!(run["recall_at_10"], Value::Null);
        for phase in ["load", "place", "compute", "to_vec"] {
            assert!(run["phases_us"][phase].as_f64().unwrap() >= 0.0, "{phase}");
        }
        for key in ["to_device", "to_host"] {
            assert!(run["migrated_bytes"].as_object().unwrap().contains_key(key));
        }
        for key in ["device", "host"] {
            assert!(run["page_faults"].as_object().unwrap().contains_key(key));
        }
        // Four targets need no filter.
        let filter = &run["filter"];
        assert_eq!(filter["format"], Value::Null);
        assert!(!filter["reason"].as_str().unwrap().is_empty());
        assert_eq!(filter["fallback_queries"], json!(0));
        assert_eq!(targets(run), [[0, 3], [1, 3]]);
        let cosine = run["top"][0][0]["cosine"].as_f64().unwrap();
        assert!((cosine - 0.5 / 0.26_f64.sqrt()).abs() < 1e-6, "{cosine}");
    }
}

#[test]
fn half_precision_on_either_side_gives_the_same() {
    let folder = Folder::new();
    let halves = |values: &[f32]| {
        values
            .iter()
            .flat_map(|&value| half::f16::from_f32(value).to_le_bytes())
            .collect()
    };
    let targets_f16: Vec<u8> = halves(&[1.0, 0.0, 0.0, 2.0, -3.0, 0.0, 1.0, 1.0]);
    let queries_f16: Vec<u8> = halves(&[0.5, 0.1, -0.01, 7.0]);
    folder.write(
        "targets.npy",
        &npy(&dictionary("<f2", "(4, 2)"), &targets_f16),
    );
    for _ in 0..2 {
        let result = json_of(&folder.command().arg("--json").output().unwrap());
        for run in result["runs"].as_array().unwrap() {
            assert_eq!(targets(run), [[0, 3], [1, 3]]);
        }
        folder.write(
            "queries.npy",
            &npy(&dictionary("<f2", "(2, 2)"), &queries_f16),
        );
    }
}

#[test]
fn truth_from_a_file_gives_recall_even_beyond_k() {
    let folder = Folder::new();
    folder.write("truth.txt", b"2\n1\n");
    folder.write(
        "truth.npy",
        &npy(
            &dictionary("<i4", "(2,)"),
            bytemuck::cast_slice(&[2_i32, 1]),
        ),
    );
    for truth in ["truth.txt", "truth.npy"] {
        let result = json_of(
            &folder
                .command()
                .args(["--json", "--truth", truth])
                .output()
                .unwrap(),
        );
        for run in result["runs"].as_array().unwrap() {
            assert_eq!(run["recall_at_1"], json!(0.5));
            assert_eq!(
                run["recall_at_10"],
                json!(1.0),
                "query 0's target 2 is its last of four"
            );
            assert_eq!(targets(run), [[0, 3], [1, 3]], "k stays 2");
        }
    }
}

#[test]
fn extreme_lengths_do_not_change_the_cosines() {
    let folder = Folder::new();
    let values = [2e38_f32, 0.0, 0.0, 3e-42, -1e30, 0.0, 1e-30, 1e-30];
    folder.write(
        "targets.npy",
        &npy(&dictionary("<f4", "(4, 2)"), bytemuck::cast_slice(&values)),
    );
    let result = json_of(&folder.command().arg("--json").output().unwrap());
    for run in result["runs"].as_array().unwrap() {
        assert_eq!(targets(run), [[0, 3], [1, 3]]);
    }
}

#[test]
fn people_see_the_table_and_the_texts() {
    let folder = Folder::new();
    folder.write("targets.txt", b"right\nup\nleft\x1b[2J\nright and up\n");
    let output = folder
        .command()
        .args(["--target-texts", "targets.txt", "--show", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "unified",
        "cuda",
        "host",
        "place",
        "compute",
        "read back",
        "\"query 0\"",
        "right and up",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(text.contains("All 3 give the same top 2."), "{text}");
    assert!(
        !text.contains("query 1") && !text.contains('\u{1b}') && !text.contains("recall"),
        "{text}"
    );
}

#[test]
fn auto_says_in_one_line_why_it_simulates() {
    let folder = Folder::new();
    let mut command = folder.command();
    command
        .args(["--json", "--runtime", "auto"])
        .env("CUDA_UM_CUDART", "/nowhere/libcudart.so");
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(json_of(&output)["runtime"], "sim");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.contains("/nowhere/libcudart.so") && errors.contains("simulator"),
        "{errors}"
    );
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = batch_recall()
        .args(["--buffer", "host", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
}

#[test]
fn help_names_every_option_and_shows_examples() {
    let output = batch_recall().arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "--buffer",
        "--runtime",
        "--targets",
        "--queries",
        "--target-texts",
        "--query-texts",
        "-k",
        "--truth",
        "--json",
        "Examples:",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_trace_names_the_kernels_and_where_the_buffers_were_made() {
    let folder = Folder::new();
    let path = std::env::temp_dir().join(format!("batch-recall-{}.json", std::process::id()));
    let page_path = path.with_extension("html");
    let mut command = folder.command();
    command.arg("--trace").arg(&path);
    let output = command.arg("--profile").arg(&page_path).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let page = std::fs::read_to_string(&page_path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("targets"));
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&page_path).unwrap();
    let of = |list: &str| trace[list].as_array().unwrap().clone();
    let launches = of("operations");
    let launches = launches
        .iter()
        .filter(|operation| operation["operation"] == "launch")
        .count();
    assert!(launches > 0);
    assert_eq!(of("kernels").len(), launches);
    assert!(
        of("kernels")
            .iter()
            .all(|run| run["operation"].is_u64() && run["end"].as_u64() >= run["start"].as_u64())
    );
    let buffers = of("buffers");
    for name in ["targets", "queries", "scores", "indices"] {
        let named = |buffer: &&Value| buffer["name"] == name && buffer["managed"] == true;
        let buffer = buffers.iter().find(named).unwrap();
        let site = buffer["site"].as_str().unwrap();
        assert!(site.contains("batch_recall.rs"), "{site}");
    }
    assert_eq!(trace["dropped_records"], 0);
}
