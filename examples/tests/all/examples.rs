//! Runs the small examples: they verify their results, and print their tables.

use crate::{output_of, program, runtime};
use std::fs::File;
use std::process::Stdio;

fn printed(name: &str, built: &str) -> String {
    printed_with(name, built, &[])
}

/// The same with more options.
fn printed_with(name: &str, built: &str, options: &[&str]) -> String {
    output_of(
        program(name, built)
            .args(["--runtime", &runtime()])
            .args(options),
    )
}

#[test]
fn zero_copy() {
    let table = printed("zero_copy", env!("CARGO_BIN_EXE_zero_copy"));
    assert!(
        table.contains("mapped") && table.contains("16384 KiB"),
        "{table}"
    );
}

#[test]
fn reduction() {
    let table = printed("reduction", env!("CARGO_BIN_EXE_reduction"));
    assert!(
        table.contains("shared memory") && table.contains("4194304"),
        "{table}"
    );
}

#[test]
fn coalescing() {
    let table = printed("coalescing", env!("CARGO_BIN_EXE_coalescing"));
    assert!(
        table.contains("stride") && table.contains("1024"),
        "{table}"
    );
}

#[test]
fn prefetch_and_advice() {
    let table = printed(
        "prefetch_and_advice",
        env!("CARGO_BIN_EXE_prefetch_and_advice"),
    );
    let device_faults = |name: &str| {
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().rev().nth(1).unwrap().to_owned()
    };
    if table.contains("? = not counted") {
        return eprintln!("NOT RUN: nothing counts faults here: {table}");
    }
    for without in ["scale, no hints", "search, no hints"] {
        assert!(
            device_faults(without).parse::<f64>().unwrap() > 0.0,
            "{table}"
        );
    }
    assert_eq!(device_faults("scale, prefetched"), "0.0", "{table}");
    if runtime() == "sim" {
        assert_eq!(device_faults("search, three roles"), "0.0", "{table}");
        readme_has_the_figures(&table);
    }
}

/// README says what the simulator counts and predicts, within a tenth.
fn readme_has_the_figures(table: &str) {
    let readme = include_str!("../../../README.md").replace("\n  ", " ");
    let (_, said) = readme.split_once("The simulator counts ").unwrap();
    let said: Vec<f64> = said
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .take(3)
        .collect();
    let figures = |name: &str| {
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        let words = row[name.len()..].split_whitespace();
        let figures: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        (figures[0], figures[1])
    };
    let ((faulting, faults), (prefetched, _)) =
        (figures("scale, no hints"), figures("scale, prefetched"));
    for (said, found) in said.iter().zip([faults, faulting, prefetched]) {
        assert!(
            (said / found - 1.0).abs() < 0.1,
            "{said} in README, found {found}"
        );
    }
    assert_eq!(said.len(), 3);
}

#[test]
fn which_hint_helped() {
    let table = printed("which_hint_helped", env!("CARGO_BIN_EXE_which_hint_helped"));
    let row = |name: &str| -> Vec<String> {
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row[name.len()..]
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    // A row has: time, unit; bytes to the device and to the host, each with its unit; faults of the device and of the host.
    let faults = |name| (row(name)[6].clone(), row(name)[7].clone());
    assert_ne!(faults("no hints").0, "0", "{table}");
    assert_ne!(faults("no hints").1, "0", "{table}");
    assert_eq!(faults("prefetch").0, "0", "{table}");
    assert_eq!(faults("Auto by pattern, and prefetch").0, "0", "{table}");
    assert!(table.contains("prefetch it before the launch"), "{table}");
}

/// From the third round on, automatic prefetch is within a tenth of the best hints by hand.
#[test]
fn automatic_prefetch_is_as_good_as_the_best_hints() {
    let built = env!("CARGO_BIN_EXE_which_hint_helped");
    let text = printed_with("which_hint_helped", built, &["--auto-prefetch"]);
    let ratio = text.rsplit_once("ratio ").unwrap().1;
    let ratio: f64 = ratio.split_whitespace().next().unwrap().parse().unwrap();
    // On a GPU, times are the wall clock's, and decide nothing.
    let is_simulated = runtime() == "sim" && std::env::var_os("CUDA_UM_SIM_GPU").is_none();
    assert!(ratio <= 1.1 || !is_simulated, "{text}");
}

#[test]
fn a_closed_pipe_ends_a_program_quietly_and_a_full_output_with_one_line() {
    for (name, built) in [
        ("guide", env!("CARGO_BIN_EXE_guide")),
        ("zero_copy", env!("CARGO_BIN_EXE_zero_copy")),
        ("mini_framework", env!("CARGO_BIN_EXE_mini_framework")),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let outputs = [Stdio::from(writer), Stdio::from(full)];
        let [closed, full] = outputs.map(|output| {
            let mut command = program(name, built);
            command.stdout(output).stderr(Stdio::piped());
            let output = command.spawn().unwrap().wait_with_output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), text)
        });
        assert_eq!(closed, (Some(0), String::new()), "{name}");
        let line = "No space left on device (os error 28)\n";
        assert!(
            full.0 == Some(1) && full.1.ends_with(line),
            "{name}: {full:?}"
        );
        assert_eq!(full.1.lines().count(), 1, "{name}: {full:?}");
    }
}
