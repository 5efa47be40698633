//! The program `um_weights`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Folder, safetensors};

/// The program of this build, or that of a bundle.
fn program() -> String {
    match std::env::var("CUDA_UM_BIN_DIR") {
        Ok(folder) => folder + "/um_weights",
        Err(_) => env!("CARGO_BIN_EXE_um_weights").to_owned(),
    }
}

fn run(arguments: &[&str], folder: &Folder) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder.path(""));
    command.env("CUDA_UM_RUNTIME", "sim").output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn model(folder: &Folder) {
    let bytes = safetensors(&[
        ("first\\u001b[2J", "BF16", &[2, 300], 1200),
        ("second", "F4", &[8], 4),
    ]);
    folder.file("model.safetensors", &bytes);
}

#[test]
fn info_shows_what_a_file_has() {
    let folder = Folder::new();
    model(&folder);
    let text = out(&run(&["info", "model.safetensors"], &folder));
    for part in [
        "model.safetensors (safetensors)",
        "BF16",
        "1200 bytes  [2, 300]",
        "2 tensors, 1204 bytes",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\u{1b}'));
    let json: Value = serde_json::from_str(&out(&run(
        &["info", "model.safetensors", "--json"],
        &folder,
    )))
    .unwrap();
    assert_eq!(json["bytes"], 1204);
    assert_eq!(json["tensors"][1]["shape"], serde_json::json!([8]));
}

#[test]
fn load_tells_the_speed() {
    let folder = Folder::new();
    model(&folder);
    for to in ["unified", "cuda", "pinned", "host"] {
        let file = "model.safetensors";
        let arguments = ["load", file, "--to", to, "--times", "2", "--json"];
        let json: Value = serde_json::from_str(&out(&run(&arguments, &folder))).unwrap();
        assert_eq!(
            (&json["to"], &json["bytes"]),
            (&Value::from(to), &Value::from(1204))
        );
        assert!(json["gb_per_s"][1].as_f64() > Some(0.0));
    }
    let text = out(&run(
        &["load", "model.safetensors", "--times", "3"],
        &folder,
    ));
    // One after each load.
    let speeds = text.lines().filter(|line| line.contains(" GB/s ("));
    assert_eq!(speeds.count(), 3, "{text}");
    assert!(
        text.contains("2 tensors, 1204 bytes to cuda memory of"),
        "{text}"
    );
    assert!(text.contains("peak memory of the process: "), "{text}");
}

#[test]
fn a_failure_is_one_line_and_status_1() {
    let folder = Folder::new();
    folder.file("short", b"12");
    for (arguments, reason) in [
        (&["info", "missing"][..], "missing: open: "),
        (
            &["info", "short"],
            "short: at byte 2: a safetensors file begins with 8 bytes",
        ),
        (&["load", "short"], "short: at byte 2"),
    ] {
        let output = run(arguments, &folder);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.starts_with("um_weights: ") && text.contains(reason),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_output_is_quiet_and_a_full_one_is_an_error() {
    let folder = Folder::new();
    model(&folder);
    let command = || {
        let mut command = Command::new(program());
        command
            .args(["info", "model.safetensors"])
            .current_dir(folder.path(""));
        command
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = command().stdout(writer).output().unwrap();
    assert!(
        closed.status.success() && closed.stderr.is_empty(),
        "{closed:?}"
    );
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let full = command().stdout(full).output().unwrap();
    assert_eq!(full.status.code(), Some(1));
    let text = String::from_utf8(full.stderr).unwrap();
    assert!(
        text.starts_with("um_weights: standard output: ") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn no_control_character_reaches_the_terminal() {
    let folder = Folder::new();
    let bytes = safetensors(&[("a\\u009b2J\\u202e", "U8", &[1], 1)]);
    let name = "model\u{1b}[2J";
    folder.file(name, &bytes);
    for json in [&["info", name][..], &["info", name, "--json"]] {
        let text = out(&run(json, &folder));
        let is_shown = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(text.chars().all(is_shown), "{text:?}");
    }
    let json: Value = serde_json::from_str(&out(&run(&["info", name, "--json"], &folder))).unwrap();
    assert_eq!(json["tensors"][0]["name"], "a\u{9b}2J\u{202e}");
}
