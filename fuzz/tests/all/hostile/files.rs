//! Cost models, plans and PTX.

use super::{SIZE, run};
use um_fuzz::{cost_model, plan, ptx};

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
fn programs_and_plans_that_are_long_or_deep() {
    let step = r#"{"name":"","uses":[{"buffer":0,"access":"read_write"}],"compute_seconds":0},"#;
    let buffer = r#"{"name":"","bytes":2097152,"role":"read_write"},"#;
    let program = |buffers: &str, steps: &str| {
        let lists = format!(r#""buffers":[{buffers}],"steps":[{steps}]"#);
        format!(r#"{{"version":1,"program":{{{lists},"repeat":"cyclic"}}}}"#)
    };
    let trimmed = |text: String| text.trim_end_matches(',').to_owned();
    let one = trimmed(buffer.to_owned());
    let many_steps = program(&one, &trimmed(repeated(step)));
    run("plan steps", plan, many_steps.as_bytes());
    let many_buffers = program(&trimmed(repeated(buffer)), "");
    run("plan buffers", plan, many_buffers.as_bytes());
    let used = program(&one, &trimmed(step.to_owned()));
    let head = r#"{"version":1,"digest":"0","budget":{"bytes":0},"steps":["#;
    for part in ["[", "[[],[]],", "{\"before\":[],\"after\":[]},", "0,"] {
        let text = format!("{used}\n{head}{}", repeated(part));
        run("plan lists", plan, text.as_bytes());
        run("plan program", plan, repeated(part).as_bytes());
    }
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
