//! Makes the bindings and the function table from NVIDIA's headers.
//!
//! One code, two callers: `cargo xtask bindgen`, which writes the checked-in files, and this crate's
//! build script under the feature `generate`, which writes files for the toolkit of this machine.
//!
//! It does not look for headers: the callers say where they are.

mod headers;
mod items;
mod major;
mod output;
mod spec;
mod split;
mod table;

use anyhow::Result;

pub use headers::Headers;
pub use items::Items;
pub use major::Major;
pub use output::Generated;

/// What the headers of one version declare of the covered interface.
///
/// # Errors
/// The headers are not there, libclang is not there, or the two do not fit together.
pub fn read(headers: &Headers) -> Result<Items> {
    Items::of_file(headers::parse(headers, &spec::covered())?)
}

/// Adds from a later minor version of the same major the functions that `items` lacks, and only those:
/// types keep the form in which they first appeared.
#[allow(
    dead_code,
    reason = "the build script reads one toolkit; xtask reads more"
)]
pub fn add_later_functions(items: &mut Items, headers: &Headers) -> Result<()> {
    items.add_missing_functions(read(headers)?);
    Ok(())
}

/// Splits the items of the three majors into what is common and what differs, and writes all files.
///
/// # Errors
/// A function of the table is missing, or changed where no rule in `spec.rs` says what to do.
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

/// What an earlier run wrote for one major: the text of `common.rs` and of that major's file.
#[allow(
    dead_code,
    reason = "xtask makes all majors anew; the build script reads back the others"
)]
pub fn read_back(common: &str, version: &str) -> Result<Items> {
    let mut items = Items::of_file(syn::parse_file(common)?)?;
    items.extend(Items::of_file(syn::parse_file(version)?)?);
    Ok(items)
}
