//! The shipped set, compared with the results of NumPy.

use crate::cli::files::{Folder, batch_recall, f32s};
use crate::runtime;
use serde_json::Value;
use um_examples::shipped::ShippedSet;

fn run(arguments: &[&str]) -> Value {
    let output = batch_recall()
        .arg("--json")
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn run_of<'a>(result: &'a Value, buffer: &str) -> &'a Value {
    let runs = result["runs"].as_array().unwrap();
    runs.iter().find(|run| run["buffer"] == buffer).unwrap()
}

#[test]
fn all_three_buffers_find_what_numpy_found() {
    let file = ShippedSet::find().file("expected.json");
    let expected: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let result = run(&[]);
    assert_eq!(result["runs"].as_array().unwrap().len(), 3);
    for buffer in ["unified", "cuda", "host"] {
        let run = run_of(&result, buffer);
        assert_eq!(run["recall_at_1"], expected["recall_at_1"], "{buffer}");
        assert_eq!(run["recall_at_10"], expected["recall_at_10"], "{buffer}");
        let top = run["top"].as_array().unwrap();
        assert_eq!(top.len(), 1000);
        assert!(top.iter().all(|row| row.as_array().unwrap().len() == 10));
        let rows = expected["top5"].as_array().unwrap();
        assert_eq!(rows.len(), 20);
        for row in rows {
            let found = &top[row["query"].as_u64().unwrap() as usize];
            for rank in 0..5 {
                assert_eq!(found[rank]["target"], row["top5"][rank], "{buffer}, {row}");
                let difference =
                    found[rank]["cosine"].as_f64().unwrap() - row["cosine"][rank].as_f64().unwrap();
                assert!(difference.abs() <= 1e-5, "{buffer}, {row}: {difference}");
            }
        }
    }
}

#[test]
fn vectors_are_the_buffers_where_the_device_accesses_them() {
    if runtime() != "sim" {
        return eprintln!("NOT RUN: plays other machines");
    }
    let on = |gpu| {
        let mut command = batch_recall();
        let arguments = ["--json", "--runtime", "sim"];
        let output = command.args(arguments).env("CUDA_UM_SIM_GPU", gpu).output();
        serde_json::from_slice::<Value>(&output.unwrap().stdout).unwrap()
    };
    let expected = on("h200");
    let memory = |result: &Value, kind| run_of(result, kind)["memory"].as_str().unwrap().to_owned();
    assert!(memory(&expected, "unified").contains("H200, whose pageable memory access is false"));
    for gpu in ["gh200", "gb10"] {
        let found = on(gpu);
        for kind in ["unified", "host"] {
            assert_eq!(
                memory(&found, kind),
                "the vectors themselves, without a copy"
            );
            let cuda = &run_of(&found, kind)["cuda"];
            assert_eq!(cuda["copied_bytes"], 0, "{gpu}, {kind}");
            // The workspace of the search, once; none for vectors and results.
            let most = u64::from(kind == "unified");
            assert!(
                cuda["allocations"].as_u64().unwrap() <= most,
                "{gpu}, {kind}: {cuda}"
            );
            // The device computes for the host's buffers, too.
            let same = run_of(&found, kind)["top"] == run_of(&expected, "unified")["top"];
            assert!(same, "{gpu}, {kind}");
        }
    }
}

/// Values between -1 and 1, always the same.
fn values(count: usize) -> Vec<f32> {
    let hash = |index: usize| (index as u32).wrapping_mul(0x9e37_79b9) ^ 0x5bd1;
    (0..count)
        .map(|index| hash(index).wrapping_mul(0x85eb_ca6b) as i32 as f32 / i32::MAX as f32)
        .collect()
}

#[test]
fn a_budget_changes_the_memory_and_not_the_lists() {
    let folder = Folder::new();
    folder.write("targets.npy", &f32s(6000, 64, &values(6000 * 64)));
    folder.write("queries.npy", &f32s(8, 64, &values(8 * 64)));
    let run = |arguments: &[&str]| {
        let output = folder
            .command()
            .arg("--json")
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let expected = run(&["--buffer", "cuda", "--filter", "off"]);
    for (budget, what) in [("448KiB", "pieces"), ("4MiB", "all of their copy")] {
        let result = run(&["--budget", budget]);
        let runs = result["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{budget}");
        assert_eq!(runs[0]["buffer"], "cuda");
        assert_eq!(runs[0]["top"], expected["runs"][0]["top"], "{budget}");
        assert_eq!(runs[0]["filter"]["format"], "int8");
        let note = runs[0]["notes"][0].as_str().unwrap();
        assert!(note.contains(what), "{note}");
    }
}

#[test]
fn faults_are_counted_without_hints_and_none_with_them() {
    let with = run(&["--buffer", "unified", "--runtime", &runtime()]);
    let without = run(&["--buffer", "unified", "--runtime", &runtime(), "--no-hints"]);
    if run_of(&with, "unified")["page_faults"]["device"].is_null() {
        return eprintln!("NOT RUN: nothing counts page faults here (no CUPTI)");
    }
    let faults = |result: &Value| {
        run_of(result, "unified")["page_faults"]["device"]
            .as_u64()
            .unwrap()
    };
    let to_device = |result: &Value| {
        run_of(result, "unified")["migrated_bytes"]["to_device"]
            .as_u64()
            .unwrap()
    };
    // A GPU has a few: the pool gives the targets a block that held read-mostly queries, and the first writes fault on its last page.
    let most = if runtime() == "sim" { 0 } else { 16 };
    assert!(faults(&with) <= most, "{}", faults(&with));
    assert!(faults(&without) > faults(&with), "{}", faults(&without));
    let vectors = 2 * 1000 * 768 * 4;
    assert_eq!(to_device(&with), 0, "the copies go straight to the device");
    assert!(to_device(&without) >= vectors, "{}", to_device(&without));
    assert_eq!(
        run_of(&with, "unified")["top"],
        run_of(&without, "unified")["top"]
    );
}

/// The lists of one device and of four, for each kind of buffer.
#[test]
fn several_devices_find_what_one_finds() {
    if runtime() != "sim" {
        return eprintln!("NOT RUN: needs a machine with four devices");
    }
    let on = |arguments: &[&str]| {
        let mut command = batch_recall();
        command.args(["--json", "--runtime", "sim"]).args(arguments);
        let output = command.env("CUDA_UM_SIM_DEVICES", "4").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(),
            text,
        )
    };
    let (right, _) = on(&["--buffer", "cuda"]);
    for (devices, rows) in [
        (
            "all",
            "0..250 on device 0, 250..500 on device 1, 500..750 on device 2, 750..1000 on device 3",
        ),
        ("3,1", "0..500 on device 3, 500..1000 on device 1"),
    ] {
        let (found, errors) = on(&["--devices", devices]);
        assert_eq!(found["runs"].as_array().map(Vec::len), Some(2), "{errors}");
        for buffer in ["unified", "cuda"] {
            let run = run_of(&found, buffer);
            assert_eq!(
                run["top"],
                run_of(&right, "cuda")["top"],
                "{devices}, {buffer}"
            );
            let note = format!("rows of the targets: {rows}");
            assert!(
                run["notes"].as_array().unwrap().contains(&note.into()),
                "{run}"
            );
        }
    }
    let (_, errors) = on(&["--devices", "0,4"]);
    assert_eq!(
        errors,
        "batch_recall: there is no device 4: the runtime has 4, numbered from 0\n"
    );
}
