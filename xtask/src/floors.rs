//! `cargo xtask floors`: fails on an import inside of cuda-um that points up.
//!
//! The sources are read as text: each path that begins with `crate::`, or with enough `super::`, names a module of the crate's root. Cargo
//! checks the imports between crates. Tests and documentation do not count.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of cuda-um's root, lowest floor first. A file imports only from its own module and from lower floors.
const FLOORS: [&[&str]; 9] = [
    &[
        "element",
        "error",
        "fork",
        "label",
        "process_end",
        "range",
        "scalar",
        "sync",
        "telemetry",
        "unblock",
        "windows",
    ],
    &["driver"],
    &["context"],
    &["resource"],
    &["buffer"],
    &["kernel"],
    &["managed"],
    &["graph"],
    &["observe"],
];

/// Checks all sources of cuda-um.
pub fn run() -> Result<()> {
    let sources = workspace::root().join("crates/cuda-um/src");
    let mut files = Vec::new();
    collect(&sources, &mut files)?;
    let mut failures = Vec::new();
    for file in &files {
        let inner = file.strip_prefix(&sources)?;
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        failures.extend(check(inner, &text)?);
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    ensure!(failures.is_empty(), "{} imports point up", failures.len());
    println!(
        "{} files of cuda-um import only from lower floors",
        files.len()
    );
    Ok(())
}

/// The sources below a folder, without tests.
pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if ["tests", "cases"].contains(&&*name)
            || name.ends_with("_tests")
            || name.contains("properties")
        {
            continue;
        }
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

/// The imports of a file that point up. `file` is relative to the folder of the sources.
fn check(file: &Path, text: &str) -> Result<Vec<String>> {
    let modules: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let own = &modules[0];
    if own == "lib" {
        return Ok(Vec::new());
    }
    let own_floor = floor(own).with_context(|| {
        format!("{own} is on no floor: add it to FLOORS in xtask/src/floors.rs")
    })?;
    // The root of the crate, seen from this file.
    let roots = ["crate::".to_owned(), "super::".repeat(modules.len())];
    let mut failures = Vec::new();
    for (place, named) in roots.iter().flat_map(|root| named_after(text, root)) {
        let points_up =
            |floor| floor > own_floor || (floor == own_floor && floor > 0 && named != *own);
        if floor(named).is_some_and(points_up) {
            let line = text[..place].lines().count();
            failures.push(format!(
                "crates/cuda-um/src/{}:{line}: imports {named}, which is not on a lower floor",
                file.display()
            ));
        }
    }
    Ok(failures)
}

/// The modules that are named after each `root` in the code, with their places.
fn named_after<'a>(text: &'a str, root: &str) -> Vec<(usize, &'a str)> {
    let code = text
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let mut named = Vec::new();
    for (place, _) in code.match_indices(root) {
        let line = code[..place].rsplit('\n').next().unwrap_or_default();
        let before = line.chars().last().unwrap_or(' ');
        if line.contains("//") || before.is_alphanumeric() || "_$:".contains(before) {
            continue;
        }
        let rest = &code[place + root.len()..];
        // In a group, the first name of each item at its first level.
        let (mut depth, mut begins) = (0, true);
        for (at, character) in rest.char_indices() {
            if begins && character.is_ascii_lowercase() {
                let name = rest[at..]
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next();
                named.push((place, name.unwrap_or_default()));
                begins = false;
            }
            match character {
                '{' => (depth, begins) = (depth + 1, depth == 0),
                '}' => depth -= 1,
                ',' => begins = depth == 1,
                _ if !character.is_whitespace() => begins = false,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(file: &str, text: &str) -> usize {
        check(Path::new(file), text).unwrap().len()
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        assert_eq!(failures("driver/api.rs", "use crate::context::Stream;"), 1);
        assert_eq!(failures("driver/api.rs", "use crate::error::Error;"), 0);
        assert_eq!(
            failures("driver/api.rs", "fn f() { crate::buffer::g() }"),
            1
        );
        assert_eq!(failures("driver.rs", "use super::kernel::Module;"), 1);
        assert_eq!(
            failures(
                "context/stream/order.rs",
                "use super::super::super::resource::Pool;"
            ),
            1
        );
        assert_eq!(
            failures("kernel/launch.rs", "use crate::managed::Prefetched;"),
            1
        );
        let group = "use crate::{\n    error::{Error, Result},\n    resource::Pool,\n};";
        assert_eq!(failures("context/stream.rs", group), 1);
        assert_eq!(failures("buffer/copy.rs", group), 0);
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        assert_eq!(
            failures("driver/api.rs", "/// [`crate::context::Stream`]"),
            0
        );
        assert_eq!(
            failures(
                "driver/api.rs",
                "\n#[cfg(test)]\nmod tests { use crate::context::Stream; }"
            ),
            0
        );
    }

    #[test]
    fn a_module_on_no_floor_is_an_error() {
        assert!(check(Path::new("attic.rs"), "").is_err());
    }
}
