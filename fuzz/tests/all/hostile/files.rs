//! Files of vectors, texts, cost models and PTX.

use super::{SIZE, run};
use um_fuzz::{cost_model, npy, ptx, texts};

/// A `.npy` file of version 2 with this header.
fn npy_with(header: &str) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x02\x00".to_vec();
    file.extend(u32::try_from(header.len()).unwrap().to_le_bytes());
    file.extend(header.bytes());
    file
}

/// A text that repeats a part up to the size of the inputs.
fn repeated(part: &str) -> String {
    part.repeat(SIZE / part.len())
}

/// 195 bytes of the first took a minute, and 300 never ended: each level was parsed several times.
#[test]
fn npy_headers_that_nest() {
    for part in [
        "(')',",
        "[']',",
        "{'}':",
        "((1,),",
        "{'a':{'b':",
        "((((((((",
    ] {
        for begin in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': ",
            "{'descr': ",
            "",
        ] {
            let header = format!("{begin}{}", part.repeat(9_900 / part.len()));
            run("npy nests", npy, &npy_with(&header));
        }
    }
}

#[test]
fn npy_headers_with_many_extents_and_keys() {
    for part in ["1,", "1L, ", "'descr': '<f4',", "                "] {
        let many = part.repeat(9_000 / part.len());
        let header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({many}), {many}}}");
        run("npy extents", npy, &npy_with(&header));
    }
}

#[test]
fn texts_of_many_lines_or_one() {
    for part in ["\n", "\r\n", "a\n", "a", "\u{1b}", "ä"] {
        run("texts", texts, repeated(part).as_bytes());
    }
    let last_is_wrong = [repeated("a\n").as_bytes(), b"\xff"].concat();
    run("texts not UTF-8", texts, &last_is_wrong);
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
