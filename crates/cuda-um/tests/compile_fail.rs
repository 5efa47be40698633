//! What would be unsound does not compile, and for the reason that is meant.
//!
//! Each file of `compile_fail/` is one misuse; the `.stderr` beside it is what the compiler says. After a change of the compiler's
//! wording: `TRYBUILD=overwrite cargo test -p cuda-um --test compile_fail`, and read the difference.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
