//! The list of cases is consistent, and every function that the library calls has a case.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use um_conformance::cases;

/// Functions without a case, each with the reason.
const EXEMPT: &[(&str, &str)] = &[];

/// The functions of the tables that a source calls: names after a dot, without the ending for their signature.
fn called(source: &str) -> BTreeSet<String> {
    let code = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split('.').skip(1))
        .map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default()
        })
        .filter(|name| {
            let rest = name
                .strip_prefix("cuda")
                .or_else(|| name.strip_prefix("cu"));
            rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
        })
        .map(|name| match name.rsplit_once("_v") {
            Some((plain, version)) if version.parse::<u32>().is_ok() => plain.to_owned(),
            _ => name.to_owned(),
        })
        .collect()
}

#[test]
fn every_function_that_the_library_calls_has_a_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cuda-um/src");
    let (mut sources, mut folders) = (vec![folder.join("driver.rs")], vec![folder.join("driver")]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let (inner, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
        folders.extend(inner);
        sources.extend(files);
    }
    let called: BTreeSet<String> = sources
        .iter()
        .flat_map(|path| called(&fs::read_to_string(path).unwrap()))
        .collect();
    assert!(called.len() > 50, "the calls were not found: {called:?}");
    let covered: BTreeSet<&str> = cases::all().flat_map(|case| case.calls).copied().collect();
    let exempt: BTreeSet<&str> = EXEMPT.iter().map(|(name, _)| *name).collect();
    let missing: Vec<_> = called
        .iter()
        .filter(|name| !covered.contains(name.as_str()) && !exempt.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no case calls {missing:?}");
    let idle: Vec<_> = exempt
        .iter()
        .filter(|name| covered.contains(**name))
        .collect();
    assert!(idle.is_empty(), "exempt, and there is a case: {idle:?}");
}

#[test]
fn names_are_unique_and_say_their_group() {
    let mut rules = BTreeMap::new();
    for case in cases::all() {
        assert!(
            rules.insert(case.name, case.rule).is_none(),
            "{} is there twice",
            case.name
        );
        let group = case.name.split_once('.').map(|(group, _)| group);
        assert!(
            group.is_some_and(|group| !group.is_empty()),
            "{} names no group",
            case.name
        );
        assert!(
            case.rule.ends_with('.') && case.rule.len() > 15,
            "{}: {}",
            case.name,
            case.rule
        );
        let linked = case.source.starts_with("https://docs.nvidia.com/");
        // Not the text for the table: the comparison writes that one.
        assert!(
            linked || case.source.starts_with("docs/results/") && case.source.ends_with(".json"),
            "{}: {}",
            case.name,
            case.source
        );
    }
    assert!(rules.len() > 200, "{} cases", rules.len());
}

#[test]
fn calls_are_found_behind_a_dot_and_not_in_comments() {
    let found = called(
        "(self.table.cudaFree)(p); x.cudaMemAdvise_v13 // .cudaMalloc\n sys::cudaError d.cuMemsetD8Async",
    );
    let found: Vec<_> = found.iter().map(String::as_str).collect();
    assert_eq!(found, ["cuMemsetD8Async", "cudaFree", "cudaMemAdvise"]);
}
