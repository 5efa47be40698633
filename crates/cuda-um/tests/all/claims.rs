//! Every numbered claim of `docs/soundness.md` has a test that names it: `/// claim 3`. The worked diffs of `docs/architecture.md` are lines of the
//! sources.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

/// A document of the workspace; `None` in a packaged crate, which has none.
fn document(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(path.join(name));
    text.inspect_err(|error| println!("not checked: docs/{name} is not here ({error})"))
        .ok()
}

/// All sources below a folder of this crate, as one text.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = entries.map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path => fs::read_to_string(path).unwrap_or_default(),
    });
    texts.collect()
}

fn sources_of(folder: &str) -> String {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
}

/// The numbers of a line such as `/// claims 2 and 3: …`, which is above a test or at the head of a program.
fn named<'a>(line: &'a str, mut below: impl Iterator<Item = &'a str>) -> Vec<u32> {
    let text = line.trim().strip_prefix("/// claim");
    let Some(text) = text.or_else(|| line.strip_prefix("//! claim")) else {
        return Vec::new();
    };
    let is_test = line.starts_with("//!")
        || below
            .find(|line| !line.trim().starts_with("///"))
            .map(str::trim)
            == Some("#[test]");
    assert!(is_test, "not above a test: {line}");
    let numbers = text.split(':').next().unwrap_or_default();
    let numbers = numbers.split(|letter: char| !letter.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn every_claim_has_a_test_that_names_it() {
    let Some(document) = document("soundness.md") else {
        return;
    };
    let number = |line: &str| line.strip_prefix("| ")?.split_once(" |")?.0.parse().ok();
    let claims: Vec<u32> = document.lines().filter_map(number).collect();
    assert!(claims.len() > 40 && claims.iter().copied().eq(1..=claims.len() as u32));
    let sources = sources_of("tests") + &sources_of("src");
    let lines: Vec<&str> = sources.lines().collect();
    let each = (0..lines.len()).flat_map(|at| named(lines[at], lines[at + 1..].iter().copied()));
    let named: BTreeSet<u32> = each.collect();
    assert!(named.iter().eq(&claims), "tests name {named:?}");
}

#[test]
fn the_worked_diffs_are_lines_of_the_sources() {
    let Some(document) = document("architecture.md") else {
        return;
    };
    let sources = sources_of("..");
    let lines: HashSet<_> = sources.lines().map(str::trim).collect();
    let diffs = document.split("```diff").skip(1);
    let added: Vec<_> = diffs
        .filter_map(|diff| diff.split("```").next())
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix('+'))
        .collect();
    assert!(added.len() > 20, "the diffs were not found: {added:?}");
    let absent: Vec<_> = added
        .iter()
        .filter(|line| !lines.contains(line.trim()))
        .collect();
    assert!(absent.is_empty(), "not in the sources: {absent:#?}");
}
