//! Every claim of `docs/soundness.md` names the tests that guard it, and they exist. The worked diffs of `docs/architecture.md` are lines of
//! the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace and `docs/soundness.md`; `None` in a packaged crate, which has neither.
fn workspace() -> Option<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match fs::read_to_string(root.join("docs/soundness.md")) {
        Ok(document) => Some((root, document)),
        Err(error) => {
            println!("not checked: docs/soundness.md is not here ({error})");
            None
        }
    }
}

/// The tests that the tables name, as (file, test): the last column of those that end with "guarded by".
fn guarding(document: &str) -> Vec<(&str, &str)> {
    let mut is_table = false;
    let rows = document.lines().filter(|line| {
        is_table = line.starts_with('|') && (is_table || line.ends_with("| guarded by |"));
        is_table
    });
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    cells
        .flat_map(|cell| cell.split('`'))
        .filter_map(|name| name.split_once("::").or_else(|| name.split_once('/')))
        .collect()
}

/// Rows of such tables that name no test.
fn unguarded(document: &str) -> Vec<&str> {
    let mut is_table = false;
    let rows = document.lines().filter(|line| {
        let begins = line.ends_with("| guarded by |");
        let is_row = is_table && line.starts_with("| ");
        is_table = line.starts_with('|') && (is_table || begins);
        is_row
    });
    rows.filter(|row| !row.ends_with("` |")).collect()
}

/// Returns true if the sources of a test program or module (a file, or a folder) have this test.
fn is_test(root: &Path, file: &str, test: &str) -> bool {
    let crate_root = root.join("crates/cuda-um");
    if file == "compile_fail" {
        let (source, said) = (format!("{test}.rs"), format!("{test}.stderr"));
        let folder = crate_root.join("tests/compile_fail");
        return folder.join(source).is_file() && folder.join(said).is_file();
    }
    let mut paths = Vec::new();
    for tests in ["tests", "tests/all"] {
        let entries = fs::read_dir(crate_root.join(tests).join(file));
        paths.extend(
            entries
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path()),
        );
        paths.push(crate_root.join(format!("{tests}/{file}.rs")));
    }
    for folder in [".", "resource/pool", "managed/batch"] {
        paths.push(crate_root.join(format!("src/{folder}/{file}.rs")));
    }
    paths.iter().any(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let head = format!("fn {test}(");
        text.match_indices(&head).any(|(at, _)| {
            let before: Vec<_> = text[..at].lines().rev().take(2).collect();
            before.iter().any(|line| line.trim() == "#[test]")
        })
    })
}

#[test]
fn every_claim_is_guarded_by_tests_that_exist() {
    let Some((root, document)) = workspace() else {
        return;
    };
    let named = guarding(&document);
    assert!(named.len() > 50, "the tables were not found: {named:?}");
    let unguarded = unguarded(&document);
    assert!(unguarded.is_empty(), "no test guards {unguarded:#?}");
    let absent: Vec<_> = named
        .iter()
        .filter(|(file, test)| !is_test(&root, file, test))
        .collect();
    assert!(absent.is_empty(), "no such tests: {absent:#?}");
    assert!(!is_test(&root, "guards", "no_such_test"));
}

/// All sources below a folder, as one text.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = entries.map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path => fs::read_to_string(path).unwrap_or_default(),
    });
    texts.collect()
}

#[test]
fn the_worked_diffs_are_lines_of_the_sources() {
    let Some((root, _)) = workspace() else {
        return;
    };
    let document = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let sources = sources(&root.join("crates"));
    let lines: std::collections::HashSet<_> = sources.lines().map(str::trim).collect();
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
