//! Other targets: the same bindings serve for them, which is checked against the headers as a compiler for the target reads them.

use super::headers::{self, Headers};
use super::items::Items;
use super::output::{self, Generated};
use super::spec;
use anyhow::{Result, bail};
use std::path::Path;

/// A target, and the file for the tests of its layouts; `None` if they are those of the host, which `tests/layout.rs` checks.
pub const TARGETS: [(&str, Option<&str>); 2] = [
    ("aarch64-unknown-linux-gnu", None),
    ("x86_64-pc-windows-gnu", Some("bindings/layout_windows.rs")),
];

/// Checks that the headers declare for the target what `items` has for the host, and returns the layouts of the target's C compiler as tests
/// at compile time.
///
/// `libc`: see [`headers::parse_for`].
///
/// # Errors
/// The headers or libclang are missing, or a declaration is another one for the target.
pub fn layout(
    (target, file): (&str, Option<&'static str>),
    libc: &Path,
    headers: &Headers,
    items: &Items,
) -> Result<Option<Generated>> {
    let mut parsed = headers::parse_for(target, libc, headers, &spec::covered())?;
    let (tests, declarations) = parsed.items.into_iter().partition(is_layout_test);
    parsed.items = declarations;
    let differences = Items::of_file(parsed)?.differences(items);
    if !differences.is_empty() {
        bail!(
            "declared in another way for {target}: {}",
            differences.join(", ")
        );
    }
    let tests = syn::File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items: tests,
    };
    Ok(file.map(|file| output::file(file, tests)))
}

/// bindgen writes them as `const _: () = { … };`.
fn is_layout_test(item: &syn::Item) -> bool {
    matches!(item, syn::Item::Const(it) if it.ident == "_")
}
