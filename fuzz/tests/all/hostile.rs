//! Cost models and PTX of about 1 MB that are built to need much time or memory: each target must process them within limits.

use crate::support::{self, Limits};
use std::time::Duration;
use um_fuzz::{cost_model, ptx};

/// The approximate size of the inputs.
const SIZE: usize = 1 << 20;

/// The targets process an input in several steps, and keep some of the results.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    bytes: 64 << 20,
    bytes_of_each: 64,
};

/// Runs a target on an input.
fn run(name: &str, target: um_fuzz::Target, input: &[u8]) {
    let alone = support::alone();
    let started = std::time::Instant::now();
    let bytes = alone.run(name, target, input, LIMITS);
    let (size, took) = (input.len(), started.elapsed());
    println!("{name}: {size} bytes took {took:?} and {bytes} bytes of the heap");
}

/// A text that repeats a part up to the size of the inputs.
fn repeated(part: &str) -> String {
    part.repeat(SIZE / part.len())
}

#[test]
fn cost_models_that_are_long_or_deep() {
    for part in ["[", "{\"a\":", "[0],", "9", "\\u0000", "0.0000000000", " "] {
        run("cost model", cost_model, repeated(part).as_bytes());
        run(
            "cost model field",
            cost_model,
            format!("{{\"format\":{}", repeated(part)).as_bytes(),
        );
        run(
            "cost model text",
            cost_model,
            format!("{{\"source\":\"{}", repeated(part)).as_bytes(),
        );
    }
    let fields: Vec<String> = (0..SIZE / 10)
        .map(|field| format!("\"{field}\":0"))
        .collect();
    run(
        "cost model fields",
        cost_model,
        format!("{{{}}}", fields.join(",")).as_bytes(),
    );
}

#[test]
fn ptx_with_many_entries_and_open_ends() {
    let head = ".version 6.4\n.target sm_50\n.address_size 64\n";
    let names: String = (0..SIZE / 25)
        .map(|entry| format!(".entry e{entry}() {{}}\n"))
        .collect();
    run("ptx names", ptx, format!("{head}{names}").as_bytes());
    for part in [
        ".entry add() {}\n",
        ".entry ",
        ".entry",
        ".entry a(",
        ".entry a() {",
        "/",
        "/**/",
        "/*",
        "//\n",
        "{",
        ".maxntid 1 ",
        ".version 6.4\n",
        "\u{1}",
    ] {
        run("ptx", ptx, format!("{head}{}", repeated(part)).as_bytes());
    }
    for part in [".shared .b8 a[1];", ".shared ", ";", "{}"] {
        let body = format!("{head}.entry add() {{ {} }}", repeated(part));
        run("ptx body", ptx, body.as_bytes());
    }
    for part in [".u8,", ",", ".param .b8 a[1],", ".b8 a[", " "] {
        let list = format!("{head}.entry add({}) {{ ret; }}", repeated(part));
        run("ptx parameters", ptx, list.as_bytes());
    }
}
