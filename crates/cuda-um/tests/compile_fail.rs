//! Unsound code does not compile, and the compiler gives the expected reason.
//!
//! Each file of `compile_fail/` is one misuse; the `.stderr` file is the compiler's output. If a new compiler changes its
//! messages: run `TRYBUILD=overwrite cargo test -p cuda-um --test compile_fail`, and read the difference.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
