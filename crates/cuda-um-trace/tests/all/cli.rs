//! `um_trace` on existing files, and on missing files.

use crate::support::{Builder, DEVICE};
use std::path::PathBuf;
use std::process::{Command, Output};

fn um_trace(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_um_trace"));
    command.args(arguments).output().unwrap()
}

fn file(name: &str, contents: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, contents).unwrap();
    path.to_str().unwrap().to_owned()
}

fn trace(name: &str) -> String {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", 3 << 20);
    builder.launch_faulting("cosine", &[(targets, false)]);
    builder.prefetch(targets, DEVICE);
    file(name, &builder.finish().to_json())
}

fn output(arguments: &[&str]) -> String {
    let output = um_trace(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let output = um_trace(arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_task_writes_what_it_says() {
    let trace = trace("tasks.json");
    let report = output(&["report", &trace]);
    assert!(
        report.contains("144 faults on `targets` during `cosine`: prefetch it before the launch"),
        "{report}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&output(&["report", &trace, "--json"])).unwrap();
    assert_eq!(json["total"]["gpu_faults"], 144);
    assert!(output(&["stats", &trace]).contains("\"targets\": read-only"));
    assert!(output(&["perfetto", &trace]).starts_with('{'));
    let page = file("page.html", "");
    assert_eq!(output(&["html", &trace, "-o", &page]), "");
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .starts_with("<!doctype html>")
    );
}

#[test]
fn another_cost_model_says_other_times() {
    let trace = trace("cost.json");
    let cost = file("model.json", &cuda_um_cost::CostModel::pascal().to_json());
    let times = |arguments: &[&str]| {
        let json: serde_json::Value = serde_json::from_str(&output(arguments)).unwrap();
        json["avoidable"]["time_ns"].as_u64().unwrap()
    };
    let h200 = times(&["report", &trace, "--json"]);
    // With prefetches over a slower link, less of the elapsed time can be saved.
    assert!(times(&["report", &trace, "--json", "--cost", &cost]) < h200);
}

#[test]
fn errors_name_the_file() {
    let missing = refusal(&["report", "no/such/trace.json"]);
    assert!(
        missing.starts_with("um_trace: no/such/trace.json: "),
        "{missing}"
    );
    let broken = file("broken.json", "{\"format\": 1, ");
    assert!(refusal(&["html", &broken]).contains("broken.json: this is not a trace: "));
    let newer = file("newer.json", "{\"format\": 99}");
    assert!(
        refusal(&["html", &newer])
            .contains("newer.json: the trace has format 99; this version reads 1")
    );
    let trace = trace("good.json");
    let cost = file("cost_broken.json", "[]");
    assert!(
        refusal(&["report", &trace, "--cost", &cost])
            .contains("cost_broken.json: a cost model is an object")
    );
    // The limit of a cost model, not that of a trace.
    let long = file("cost_long.json", &" ".repeat((64 << 10) + 1));
    assert!(
        refusal(&["report", &trace, "--cost", &long])
            .contains("cost_long.json: it is larger than 65536 bytes")
    );
    assert!(refusal(&["html", &trace, "-o", "no/such/page.html"]).contains("no/such/page.html: "));
}

#[test]
fn wrong_usage_is_told_apart() {
    assert_eq!(um_trace(&["paint", "x.json"]).status.code(), Some(2));
    assert!(output(&["--help"]).contains("ui.perfetto.dev"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_that_cannot_be_shown_is_a_status() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_um_trace"));
    command
        .args(["stats", "no such file"])
        .stderr(full.unwrap());
    assert_eq!(command.status().unwrap().code(), Some(1));
}
