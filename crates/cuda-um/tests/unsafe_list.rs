//! `docs/soundness.md` names every file of the workspace that holds `unsafe`, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose sources are shipped or run; tests launch kernels and are not in the list.
const FOLDERS: [&str; 7] = [
    "crates",
    "kernels",
    "xtask",
    "benches",
    "examples",
    "conformance",
    "fuzz",
];
const SKIPPED: [&str; 4] = ["target", "tests", "node_modules", "results"];
/// Generated: one row.
const BINDINGS: &str = "crates/cuda-um-sys/src/bindings/";
/// How many lines before an `unsafe` block its comment may be: a call can have many arguments.
const LOOK_BACK: usize = 12;

/// The workspace and its list; nothing in a packaged crate, which has neither.
fn workspace() -> Option<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match fs::read_to_string(root.join("docs/soundness.md")) {
        Ok(list) => Some((root, list)),
        Err(error) => {
            println!("not checked: docs/soundness.md is not here ({error})");
            None
        }
    }
}

/// Every source as (path from the root, text), in order.
fn sources(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == **skipped) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let parts = path.strip_prefix(root).unwrap().iter();
                let from_root: Vec<_> = parts.map(|part| part.to_string_lossy()).collect();
                found.push((from_root.join("/"), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The line without comments and without what is in quotes.
fn code(line: &str) -> String {
    let mut code = String::new();
    let mut quoted = false;
    let line = line.replace("'\"'", "");
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if quoted => drop(characters.next()),
            '"' => quoted = !quoted,
            '/' if !quoted && characters.peek() == Some(&'/') => break,
            _ if !quoted => code.push(character),
            _ => {}
        }
    }
    code
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .any(|found| found == word)
}

fn holds_unsafe(text: &str) -> bool {
    text.lines().map(code).any(|line| {
        has_word(&line, "unsafe") || has_word(&line, "unsafe_code") && !has_word(&line, "deny")
    })
}

#[test]
fn every_file_with_unsafe_is_listed() {
    let Some((root, list)) = workspace() else {
        return;
    };
    let listed: BTreeSet<String> = list
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|cell| cell.ends_with(".rs") || *cell == BINDINGS)
        .map(str::to_owned)
        .collect();
    let holding: BTreeSet<String> = sources(&root)
        .into_iter()
        .filter(|(_, text)| holds_unsafe(text))
        .map(|(path, _)| match path.starts_with(BINDINGS) {
            true => BINDINGS.to_owned(),
            false => path,
        })
        .collect();
    assert!(
        holding.len() > 10,
        "the sources were not found: {holding:?}"
    );
    let missing: Vec<_> = holding.difference(&listed).collect();
    let idle: Vec<_> = listed.difference(&holding).collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "docs/soundness.md: add a row for {missing:#?}; no `unsafe` (any more) in {idle:#?}"
    );
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

/// What nobody guards: rows of such tables without a test.
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

/// Whether the sources of a test binary (a file, or a folder) or of a module hold this test.
fn is_test(root: &Path, file: &str, test: &str) -> bool {
    let crate_root = root.join("crates/cuda-um");
    if file == "compile_fail" {
        let (source, said) = (format!("{test}.rs"), format!("{test}.stderr"));
        let folder = crate_root.join("tests/compile_fail");
        return folder.join(source).is_file() && folder.join(said).is_file();
    }
    let folder = fs::read_dir(crate_root.join("tests").join(file));
    let mut paths: Vec<_> = folder
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.push(crate_root.join(format!("tests/{file}.rs")));
    for folder in ["memory", "pool", "prefetch/batch"] {
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

#[test]
fn every_unsafe_block_says_why() {
    let Some((root, _)) = workspace() else {
        return;
    };
    let mut silent = Vec::new();
    for (path, text) in sources(&root) {
        if path.starts_with(BINDINGS) {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let code = code(line);
            let asks = code.contains("unsafe {") || code.trim_start().starts_with("unsafe impl");
            let before = &lines[at.saturating_sub(LOOK_BACK)..=at];
            if asks && !before.iter().any(|line| line.contains("SAFETY:")) {
                silent.push(format!("{path}:{}", at + 1));
            }
        }
    }
    assert!(silent.is_empty(), "no `// SAFETY:` before {silent:#?}");
}

#[test]
fn words_in_comments_and_quotes_are_not_code() {
    assert!(holds_unsafe("    let x = unsafe { f() }; // why"));
    assert!(holds_unsafe("#![allow(unsafe_code, reason = \"C\")]"));
    for none in [
        "// an unsafe block",
        "let text = \"unsafe { }\"; f('\"');",
        "let text = \"a \\\" unsafe\";",
        "#![deny(unsafe_code)]",
        "let unsafely = 1;",
    ] {
        assert!(!holds_unsafe(none), "{none}");
    }
}
