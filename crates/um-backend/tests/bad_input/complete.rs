//! Checks that `functions.txt` has every public function that can fail, and that every case in it exists.

use std::path::Path;

use cuda_um_testkit::fallible;

const LIST: &str = include_str!("functions.txt");
/// The files with cases.
const CASES: [&str; 5] = [
    include_str!("backend.rs"),
    include_str!("buffers.rs"),
    include_str!("erased.rs"),
    include_str!("make.rs"),
    include_str!("place.rs"),
];

#[test]
fn every_function_that_can_fail_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    fallible::compare_with_sources(LIST, &root);
}

#[test]
fn every_case_that_is_listed_is_there() {
    fallible::compare_with_cases(LIST, |name| {
        let quoted = format!("\"{name}\"");
        CASES.iter().any(|text| text.contains(&quoted))
    });
}
