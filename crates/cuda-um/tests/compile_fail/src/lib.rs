//! Unsound code does not compile, and the compiler gives the expected reason.
//!
//! Each file beside `src/` is one misuse; the `.stderr` file is the compiler's output. If a new compiler changes its messages: run
//! `TRYBUILD=overwrite cargo test -p cuda-um-compile-fail`, and read the difference.
#![cfg(test)]

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("*.rs");
}
