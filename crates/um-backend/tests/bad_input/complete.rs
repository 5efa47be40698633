//! `functions.txt` has every public function that can fail, and every case that it names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("functions.txt");
/// The files with cases.
const CASES: [&str; 4] = [
    include_str!("backend.rs"),
    include_str!("buffers.rs"),
    include_str!("make.rs"),
    include_str!("place.rs"),
];

/// The rows: file and function, and what there is for it.
fn rows() -> Vec<(&'static str, &'static str)> {
    let rows = LIST.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split_once(": ").expect("`file function: cases`"))
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The public functions of a source that return a `Result`.
fn fallible(text: &str) -> Vec<&str> {
    // Unit tests come last.
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    // The methods of a public trait are public without the word.
    let methods: &[&str] = if text.contains("pub trait Buffer<") {
        &["\n    fn "]
    } else {
        &[]
    };
    let words = ["pub fn ", "pub async fn ", "pub unsafe fn "]
        .iter()
        .chain(methods);
    let starts = words.flat_map(|word| {
        let at = text.match_indices(*word);
        at.map(|(at, word)| &text[at + word.len()..])
    });
    let mut names = Vec::new();
    for rest in starts {
        let signature = rest.split(['{', ';']).next().unwrap_or_default();
        let returns = signature.rsplit("->").next().unwrap_or_default();
        if signature.contains("->") && returns.contains("Result<") {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            names.push(&rest[..end.unwrap_or(rest.len())]);
        }
    }
    names
}

#[test]
fn every_function_that_can_fail_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !root.exists() {
        return eprintln!("NOT RUN: the sources are not on this machine");
    }
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = BTreeSet::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        found.extend(fallible(&text).iter().map(|name| format!("{path} {name}")));
    }
    assert!(found.len() > 50, "the sources were not read: {found:?}");
    let listed: BTreeSet<_> = rows().iter().map(|(row, _)| (*row).to_owned()).collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    let idle: Vec<_> = listed.difference(&found).collect();
    assert!(missing.is_empty(), "not in functions.txt: {missing:#?}");
    assert!(idle.is_empty(), "in functions.txt alone: {idle:#?}");
}

#[test]
fn every_case_that_is_listed_is_there() {
    let has = |name: &&str| {
        let quoted = format!("\"{name}\"");
        CASES.iter().any(|text| text.contains(&quoted))
    };
    let absent: Vec<_> = rows()
        .iter()
        .filter(|(_, cases)| !cases.starts_with('-'))
        .flat_map(|(_, cases)| cases.split(' '))
        .filter(|name| !has(name))
        .collect();
    assert!(absent.is_empty(), "no case of {absent:#?}");
}
