//! The known names are those that the sources read, and `SECURITY.md` lists every environment variable that they read, and no other.

use super::{KNOWN, OWN, refusal};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 7] = [
    "crates", "kernels", "xtask", "benches", "examples", "extras", "fuzz",
];
/// `settings` knows the names of all variables, and reads none.
const SKIPPED: [&str; 5] = [
    "target",
    "tests",
    "cuda-um-testkit",
    "settings",
    "settings.rs",
];
/// Capitalised words in files that read variables, which are not variables: names of values in usage texts, nvcc's options, MPI's names, libraries, what
/// is only set for another program, kinds of calls.
const NO_VARIABLES: [&str; 16] = [
    "LD_LIBRARY_PATH",
    "BYTES",
    "FILE",
    "FOLDER",
    "DIR",
    "SM",
    "DEVICES",
    "SECTION",
    "MPI_COMM_WORLD",
    "CUPTI",
    "WARP_SZ",
    "KERNEL",
    "COPY",
    "SET",
    "HOST",
    "ALLOCATE",
];

fn is_name(word: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    word.len() > 1 && word.as_bytes()[0].is_ascii_uppercase() && word.bytes().all(rest)
}

/// The names of variables in a source that reads variables.
fn variables(text: &str) -> BTreeSet<String> {
    let reads = ["env::var", "env = \"", "variable("];
    if !reads.iter().any(|reads| text.contains(reads)) {
        return BTreeSet::new();
    }
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let quoted = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    quoted
        .filter(|word| is_name(word) && !NO_VARIABLES.contains(word))
        .map(str::to_owned)
        .collect()
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if SKIPPED.iter().any(|skipped| name == **skipped) {
            continue;
        }
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(variables(&fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_variable_that_is_read_is_known_and_listed() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(document) = fs::read_to_string(root.join("SECURITY.md")) else {
        // A packaged crate has neither the document nor the other crates.
        println!("not checked: SECURITY.md is not here");
        return;
    };
    let mut read = BTreeSet::new();
    FOLDERS
        .iter()
        .for_each(|folder| collect(&root.join(folder), &mut read));
    assert!(read.len() > 10, "the sources were not found: {read:?}");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" |").next());
    let listed: BTreeSet<String> = cells
        .flat_map(|cell| cell.split('`'))
        .filter(|word| is_name(word))
        .map(str::to_owned)
        .collect();
    let (missing, idle): (Vec<_>, Vec<_>) = (
        read.difference(&listed).collect(),
        listed.difference(&read).collect(),
    );
    assert!(
        missing.is_empty() && idle.is_empty(),
        "SECURITY.md: add {missing:?}; remove {idle:?}, which no source reads"
    );
    let own = |name: &str| OWN.iter().any(|own| name.starts_with(own));
    let ours = read.iter().filter_map(|name| name.strip_prefix("CUDA_UM_"));
    let ours: Vec<_> = ours.filter(|name| !own(name)).collect();
    assert_eq!(ours, KNOWN.map(|known| &known["CUDA_UM_".len()..]));
}

#[test]
fn misspelt_names_are_refused() {
    let refusal = |name| refusal(OsStr::new(name)).map(|error| error.to_string());
    let text = refusal("CUDA_UM_RUNTIM").unwrap();
    let end = "cannot be CUDA_UM_RUNTIM: nothing reads it: the names are CUDA_UM_COST_MODEL, ";
    assert!(text.contains(end), "{text}");
    for known in ["CUDA_UM_POOLS", "CUDA_UM_TEST_RUNTIME", "CUDA_HOME", "PATH"] {
        assert_eq!(refusal(known), None);
    }
}
