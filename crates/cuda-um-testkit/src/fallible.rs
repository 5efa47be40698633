//! Finds the public functions that can fail in the sources of a crate, and compares them with a list that names cases for each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rows: file and function, and the cases for it.
fn rows(list: &str) -> Vec<(&str, &str)> {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
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
    // Unit tests come last, if they are not in a separate file.
    let inline = text.match_indices("#[cfg(test)]\nmod ");
    let mut inline = inline.filter(|(at, _)| {
        text[*at..]
            .lines()
            .nth(1)
            .is_some_and(|head| head.ends_with('{'))
    });
    let text = &text[..inline.next().map_or(text.len(), |(at, _)| at)];
    // The methods of a public trait are public without `pub`.
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

/// Checks that the list has every public function in `root` that can fail, and no other.
pub fn compare_with_sources(list: &str, root: &Path) {
    if !root.exists() {
        return eprintln!("NOT RUN: the sources are not on this machine");
    }
    let mut files = Vec::new();
    sources(root, &mut files);
    let mut found = BTreeSet::new();
    for file in files {
        let path = file.strip_prefix(root).unwrap().display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        found.extend(fallible(&text).iter().map(|name| format!("{path} {name}")));
    }
    assert!(found.len() > 50, "the sources were not read: {found:?}");
    let listed = rows(list).into_iter().map(|(row, _)| row.to_owned());
    let listed: BTreeSet<_> = listed.collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    let idle: Vec<_> = listed.difference(&found).collect();
    assert!(missing.is_empty(), "not in functions.txt: {missing:#?}");
    assert!(idle.is_empty(), "only in functions.txt: {idle:#?}");
}

/// Checks that the cases in the list exist.
pub fn compare_with_cases(list: &str, has: impl Fn(&str) -> bool) {
    let named = rows(list)
        .into_iter()
        .filter(|(_, cases)| !cases.starts_with('-'))
        .flat_map(|(_, cases)| cases.split(' '));
    let absent: Vec<_> = named.filter(|name| !has(name)).collect();
    assert!(absent.is_empty(), "no case of {absent:#?}");
}
