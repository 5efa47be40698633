//! Generates the bindings and the function table from NVIDIA's headers.
//!
//! The code has two callers: `cargo xtask bindgen` writes the checked-in files; this crate's build script, with the feature
//! `generate`, writes files for the toolkit of this machine.
//!
//! The callers pass the paths of the headers; this module does not search for them.

mod headers;
mod items;
mod major;
mod output;
mod spec;
mod split;
mod table;
#[allow(dead_code, reason = "used only by xtask")]
mod target;

use anyhow::Result;

pub use headers::Headers;
pub use items::Items;
pub use major::Major;
pub use output::Generated;
#[allow(unused_imports, reason = "used only by xtask")]
pub use target::{TARGETS, layout};

/// Reads the declarations of the covered interface from the headers of one version.
///
/// # Errors
/// The headers or libclang are missing, or they do not fit together.
pub fn read(headers: &Headers) -> Result<Items> {
    Items::of_file(headers::parse(headers, &spec::covered())?)
}

/// Adds functions that `items` lacks, from a later minor version of the same major version. Types keep the form in which they
/// first appeared.
#[allow(
    dead_code,
    reason = "used only by xtask; the build script reads one toolkit"
)]
pub fn add_later_functions(items: &mut Items, headers: &Headers) -> Result<()> {
    items.add_missing_functions(read(headers)?);
    Ok(())
}

/// Splits the items of the three major versions into common ones and different ones, and writes all files.
///
/// # Errors
/// A function of the table is missing, or it changed and `spec.rs` has no rule for it.
pub fn files(v11: Items, v12: Items, v13: Items) -> Result<Vec<Generated>> {
    let split = split::split([v11, v12, v13])?;
    let table = table::table(&split)?;
    Ok(vec![
        output::file("bindings/common.rs", split.common.to_file(false)),
        output::file("bindings/v11.rs", split.versions[0].to_file(true)),
        output::file("bindings/v12.rs", split.versions[1].to_file(true)),
        output::file("bindings/v13.rs", split.versions[2].to_file(true)),
        output::file("table.rs", table),
    ])
}

/// Reads the output of an earlier run for one major version: the text of `common.rs` and of that version's file.
#[allow(
    dead_code,
    reason = "used only by the build script; xtask generates all major versions"
)]
pub fn read_back(common: &str, version: &str) -> Result<Items> {
    let mut items = Items::of_file(syn::parse_file(common)?)?;
    items.extend(Items::of_file(syn::parse_file(version)?)?);
    Ok(items)
}
