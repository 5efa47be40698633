//! The tables of `docs/reference.md` are what the sources say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../docs/reference.md");
/// Names in the sources that no user sets: of processes that tests start, and misspelt names in a test of `settings.rs`.
const OWN: [&str; 4] = ["TEST_CHILD", "TEST_TOUCH", "SIM_CHILD", "SIM_CRASH"];

/// In two parts: a test of cuda-um searches the sources for names of variables.
const PREFIX: &str = concat!("CUDA", "_UM_");

type Names = BTreeSet<String>;

/// The root of the repository, unless this program runs without the sources.
fn root() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if root.join("SECURITY.md").exists() {
        return Some(root);
    }
    println!("not checked: the sources are not here");
    None
}

/// The words in backticks in the first `cells` cells of a section's rows; several cells are joined with a space.
fn listed(section: &str, cells: usize) -> Names {
    let (_, text) = PAGE.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap_or_default();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.flat_map(|row| {
        let cells: Vec<_> = row.split('|').skip(1).take(cells).map(str::trim).collect();
        let joined = cells.join(" ");
        let names = joined.split(", ").map(|name| name.replace('`', ""));
        names.collect::<Vec<_>>()
    })
    .collect()
}

fn assert_same(listed: &Names, found: &Names) {
    let missing: Vec<_> = found.difference(listed).collect();
    let idle: Vec<_> = listed.difference(found).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "docs/reference.md: add {missing:?}; remove {idle:?}"
    );
}

/// The files below a folder with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("libfuzzer") {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The text between a line that is `start` and the next section.
fn table<'a>(manifest: &'a str, start: &str) -> &'a str {
    let (_, rest) = manifest.split_once(start).unwrap_or_default();
    rest.split("\n[").next().unwrap_or_default()
}

#[test]
fn every_feature_is_listed() {
    let Some(root) = root() else { return };
    let mut found = Names::new();
    for path in files(&root, "Cargo.toml") {
        let manifest = fs::read_to_string(path).unwrap();
        let name = table(&manifest, "[package]\nname = \"")
            .split('"')
            .next()
            .unwrap();
        for line in table(&manifest, "\n[features]\n").lines() {
            match line.split_once(" = ") {
                Some((feature, _)) if !feature.starts_with('#') && feature != "default" => {
                    found.insert(format!("{name} {feature}"));
                }
                _ => {}
            }
        }
    }
    assert_same(&listed("Features", 2), &found);
}

#[test]
fn every_variable_is_listed() {
    let Some(root) = root() else { return };
    let mut found = Names::new();
    for path in files(&root, ".rs") {
        if path.ends_with("settings.rs") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for rest in text.split(&format!("\"{PREFIX}")).skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            if is_name && !name.is_empty() && !name.ends_with('_') && !OWN.contains(&name) {
                found.insert(format!("{PREFIX}{name}"));
            }
        }
    }
    assert_same(&listed("Variables", 1), &found);
}

#[test]
fn every_example_is_listed() {
    let Some(root) = root() else { return };
    let mut found = Names::new();
    for folder in [
        "examples/src/bin",
        "crates/um-backend/examples",
        "crates/cuda-um-plan/examples",
        "crates/cuda-um-trace/examples",
    ] {
        for entry in fs::read_dir(root.join(folder)).unwrap().flatten() {
            let path = entry.path();
            found.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    assert_same(&listed("Examples", 1), &found);
}

#[test]
fn the_versions_of_rust_are_those_of_the_manifests() {
    let Some(root) = root() else { return };
    for (file, key) in [
        ("Cargo.toml", "rust-version = \""),
        ("rust-toolchain.toml", "channel = \""),
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let version = text.split(key).nth(1).unwrap().split('"').next().unwrap();
        assert!(PAGE.contains(version), "docs/reference.md: {key}{version}");
    }
}
