//! Checks that `functions.txt` has every public function that can fail, and that every case that it names exists.

use cuda_um_testkit::fallible;
use std::path::Path;

const LIST: &str = include_str!("functions.txt");
/// The files with cases.
const CASES: [&str; 9] = [
    include_str!("allocate.rs"),
    include_str!("foreign.rs"),
    include_str!("length.rs"),
    include_str!("location.rs"),
    include_str!("imports.rs"),
    include_str!("module.rs"),
    include_str!("pool.rs"),
    include_str!("view.rs"),
    concat!(include_str!("range.rs"), include_str!("settings.rs")),
];

#[test]
fn every_function_that_can_fail_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    fallible::compare_with_sources(LIST, &root);
}

#[test]
fn every_case_that_is_listed_is_there() {
    fallible::compare_with_cases(LIST, |name| {
        // Macros create the names of several buffers.
        let (owner, function) = name.rsplit_once("::").unwrap_or(("", name));
        let whole = format!("\"{name}\"");
        let made = format!("$name, \"::{function}\"");
        let of = format!("\"{owner}\" ");
        CASES
            .iter()
            .any(|text| text.contains(&whole) || text.contains(&made) && text.contains(&of))
    });
}
