//! Every wrong input gives one line that names the file and the value, exit status 1, and nothing on standard output.

use crate::cli::files::{Folder, batch_recall, dictionary, f32s, npy};
use std::process::Command;

fn refused(mut command: Command, file: &str, value: &str) {
    for json in [false, true] {
        if json {
            command.arg("--json");
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.starts_with("batch_recall: "), "{errors}");
        assert!(
            errors.contains(file) && errors.contains(value),
            "{errors} lacks {file} or {value}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// Targets with this content are refused with `value`, and so are queries.
fn refused_file(content: &[u8], value: &str) {
    for name in ["targets.npy", "queries.npy"] {
        let folder = Folder::new();
        folder.write(name, content);
        refused(folder.command(), name, value);
    }
}

#[test]
fn a_missing_file_and_a_folder() {
    let folder = Folder::new();
    let mut command = folder.command();
    command.args(["--target-texts", "nowhere.txt"]);
    refused(command, "nowhere.txt", "No such file");

    let mut command = batch_recall();
    command.args(["--targets", "nowhere.npy"]);
    refused(command, "nowhere.npy", "No such file");
    let mut command = batch_recall();
    command.args(["--targets", "."]);
    refused(command, ".", "not a regular file");
}

#[test]
fn budgets_without_meaning() {
    let with = |arguments: &[&str]| {
        let mut command = batch_recall();
        command.args(["--budget", "1MiB"]).args(arguments);
        command
    };
    refused(with(&["--buffer", "host"]), "--budget", "--buffer host");
    refused(with(&["--filter", "off"]), "--budget", "--filter off");
    let mut command = batch_recall();
    command.args(["--budget", "64KiB"]);
    refused(command, "65536", "at least");
}

#[test]
fn what_is_no_npy() {
    refused_file(b"", "not a .npy file");
    refused_file(b"\x93NUMP", "not a .npy file");
    refused_file(b"PK\x03\x04 something else altogether", "not a .npy file");
    refused_file(b"\x93NUMPY\x07\x01 0123456789", "version 7.1");
}

#[test]
fn headers_that_lie_or_are_garbage() {
    refused_file(b"\x93NUMPY\x01\x00\x76", "ends inside its header");
    refused_file(
        b"\x93NUMPY\x01\x00\x76\x00{'descr': ",
        "ends inside its header",
    );
    refused_file(
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': ",
        "4294967295 bytes",
    );
    refused_file(b"\x93NUMPY\x01\x00\x00\x00", "descr, fortran_order, shape");
    refused_file(
        b"\x93NUMPY\x01\x00\x01\x00\nxxxxxxxxxxxxxx",
        "descr, fortran_order, shape",
    );
    refused_file(&npy("{'descr': ", &[]), "{'descr':");
    refused_file(
        &npy("{'descr': '<f4', 'shape': (1, 1), }", &[0; 4]),
        "'shape': (1, 1)",
    );
    refused_file(&npy("\u{1b}[31m\nred", &[]), "\\u{1b}[31m\\nred");
    refused_file(&npy(&dictionary("<f4", "(-1, 2)"), &[0; 8]), "(-1, 2)");
    refused_file(
        &npy(
            &dictionary("<f4", "(340282366920938463463374607431768211456, 2)"),
            &[0; 8],
        ),
        "34028236",
    );
    refused_file(&npy(&"(".repeat(5000), &[]), "((((");
    // The length of the header, which has four bytes from version 2 on, is not in the error.
    let second = b"\x93NUMPY\x02\x00\x08\x00\x00\x00{'d': 1}";
    refused_file(second, "(descr, fortran_order, shape): \"{'d': 1}\"");
}

/// 195 bytes took a minute, and 300 never ended.
#[test]
fn headers_that_nest() {
    for literal in ["(')',", "[']',", "{'}':"] {
        let header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': {}",
            literal.repeat(40)
        );
        refused_file(&npy(&header, &[]), "descr, fortran_order, shape");
    }
}

#[test]
fn other_types_and_orders() {
    refused_file(
        &npy(&dictionary(">f4", "(1, 2)"), &[0; 8]),
        "'>f4' is big-endian",
    );
    refused_file(&npy(&dictionary("<f8", "(1, 2)"), &[0; 16]), "'<f8'");
    refused_file(&npy(&dictionary("|O", "(1, 2)"), &[0; 16]), "'|O'");
    let record = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 2), }";
    refused_file(&npy(record, &[0; 8]), "('x', '<f4')");
    let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }";
    refused_file(&npy(fortran, &[0; 8]), "Fortran order");
}

#[test]
fn other_shapes() {
    refused_file(&npy(&dictionary("<f4", "()"), &[0; 4]), "shape []");
    refused_file(&npy(&dictionary("<f4", "(2,)"), &[0; 8]), "shape [2]");
    refused_file(
        &npy(&dictionary("<f4", "(1, 1, 2)"), &[0; 8]),
        "shape [1, 1, 2]",
    );
    refused_file(&f32s(0, 2, &[]), "shape [0, 2]");
    refused_file(&f32s(2, 0, &[]), "shape [2, 0]");
}

#[test]
fn more_or_less_data_than_the_header_says() {
    let whole = f32s(2, 2, &[1.0; 4]);
    refused_file(
        &whole[..whole.len() - 1],
        "needs 16 bytes of data, the file has 15",
    );
    refused_file(
        &npy(&dictionary("<f4", "(1000000000, 1000000)"), &[0; 8]),
        "4000000000000000 bytes",
    );
    refused_file(
        &npy(&dictionary("<f4", "(4611686018427387904, 8)"), &[0; 8]),
        "does not fit in memory",
    );
    refused_file(
        &npy(&dictionary("<f4", "(4611686018427387903, 2)"), &[0; 8]),
        "does not fit in memory",
    );
    let longer = [whole.as_slice(), &[0]].concat();
    refused_file(
        &longer,
        "needs 16 bytes of data, but the file goes on to 17",
    );
}

#[test]
fn numbers_without_a_cosine() {
    refused_file(
        &f32s(2, 2, &[1.0, 2.0, f32::NAN, 1.0]),
        "row 1, column 0 is NaN",
    );
    refused_file(
        &f32s(2, 2, &[1.0, f32::INFINITY, 1.0, 1.0]),
        "row 0, column 1 is inf",
    );
    refused_file(
        &f32s(3, 2, &[1.0, 2.0, 1.0, 1.0, 0.0, 0.0]),
        "row 2 is a zero vector",
    );
    let halves = [0x3c00_u16, 0x7c00, 0x3c00, 0x3c00];
    let halves = npy(&dictionary("<f2", "(2, 2)"), bytemuck::cast_slice(&halves));
    refused_file(&halves, "row 0, column 1 is inf");
}

#[test]
fn vectors_of_two_lengths() {
    let folder = Folder::new();
    folder.write("queries.npy", &f32s(1, 3, &[1.0; 3]));
    refused(
        folder.command(),
        "queries.npy",
        "vectors of 3 numbers, but those of targets.npy have 2",
    );
}

#[test]
fn k_beyond_the_targets() {
    for k in ["0", "5", "18446744073709551615"] {
        let folder = Folder::new();
        let mut command = batch_recall();
        let files = ["targets.npy", "queries.npy"].map(|name| folder.path(name));
        command
            .arg("--targets")
            .arg(&files[0])
            .arg("--queries")
            .arg(&files[1])
            .args(["-k", k]);
        refused(
            command,
            "targets.npy",
            &format!("k = {k} is not in 1 ..= 4"),
        );
    }
}

#[test]
fn texts_that_do_not_match() {
    let folder = Folder::new();
    folder.write("texts.txt", b"one\ntwo\nthree\n");
    let mut command = folder.command();
    command.args(["--target-texts", "texts.txt"]);
    refused(
        command,
        "texts.txt",
        "3 lines, but targets.npy has 4 vectors",
    );
    let mut command = folder.command();
    command.args(["--query-texts", "texts.txt"]);
    refused(
        command,
        "texts.txt",
        "3 lines, but queries.npy has 2 vectors",
    );
    folder.write("texts.txt", b"one\n\xff\n");
    let mut command = folder.command();
    command.args(["--query-texts", "texts.txt"]);
    refused(command, "texts.txt", "line 2 is not UTF-8");
}

#[test]
fn truth_that_does_not_match() {
    let with = |name: &str, content: &[u8], value: &str| {
        let folder = Folder::new();
        folder.write(name, content);
        let mut command = folder.command();
        command.args(["--truth", name]);
        refused(command, name, value);
    };
    with("truth.txt", b"0\nfour\n", "line 2: \"four\"");
    with("truth.txt", b"0\n4\n", "query 1 belongs to target 4");
    with(
        "truth.txt",
        b"0\n",
        "1 lines, but queries.npy has 2 vectors",
    );
    with(
        "truth.npy",
        &npy(&dictionary("<i8", "(1,)"), &[0; 8]),
        "1 lines, but queries.npy has 2 vectors",
    );
    with(
        "truth.npy",
        &npy(&dictionary("<f4", "(2,)"), &[0; 8]),
        "'<f4'",
    );

    let folder = Folder::new();
    folder.write("queries.npy", &f32s(5, 2, &[1.0; 10]));
    let mut command = folder.command();
    command.args(["--truth", "identity"]);
    refused(
        command,
        "queries.npy",
        "query 4 belongs to target 4, but there are 4 targets",
    );
}

#[test]
fn no_gpu_where_one_is_demanded() {
    let mut command = batch_recall();
    command
        .args(["--runtime", "cuda"])
        .env("CUDA_UM_CUDART", "/nowhere/libcudart.so");
    refused(command, "/nowhere/libcudart.so", "");
}

#[test]
fn wrong_usage_is_status_two() {
    for arguments in [
        &["--buffer", "paper"][..],
        &["-k", "many"],
        &["--runtime", "opencl"],
        &["extra"],
    ] {
        let output = batch_recall().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}
