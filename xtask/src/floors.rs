//! `cargo xtask floors`: reads the sources of every crate, and fails on an import that points up and on an import cycle of
//! files.
//!
//! Rules:
//!
//! - A file imports another file if its code names an item that the other file defines: in a `use`, or by a path in a type, an
//!   expression or the tokens of a macro. Re-exports are followed to the file that defines the item.
//! - A parent that declares a child (`mod child;`) or re-exports from it (`pub use child::Item`) does not import it. A parent
//!   with code that uses the child's items imports it.
//! - Code under `#[cfg(test)]`, attributes and documentation do not count; code under any other `#[cfg]` does. A method call is
//!   not an import, independent of the location of the method.
//! - In a crate with rooms (`floors.toml` beside its `Cargo.toml`) an import of another room must go to a lower floor.
//! - In every crate the imports must have no cycle; the files of one concept (`one_concept`) count as one file.

mod check;
mod graph;
mod paths;
mod report;
mod resolve;
mod source;
mod table;
#[cfg(test)]
mod tests;

use crate::workspace;
use anyhow::{Context, Result, ensure};
use graph::Imports;
use std::fs;
use std::path::{Component, Path, PathBuf};
use table::Table;

/// Options of `cargo xtask floors`.
#[derive(clap::Args)]
pub struct Args {
    /// Check only this package.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Print every import: the importing file, the imported file, and the names.
    #[arg(long)]
    imports: bool,
}

/// Checks all crates.
pub fn run(args: &Args) -> Result<()> {
    let mut failures = Vec::new();
    let packages = packages(args.package.as_deref())?;
    if !args.imports {
        println!("{}", report::HEAD);
    }
    for package in &packages {
        let table = Table::read(&package.folder)?;
        let imports = imports(package)?;
        if args.imports {
            report::print_imports(&package.name, &imports);
        } else {
            let outcome = check::check(&imports, &table);
            report::print_summary(&package.name, &imports, &outcome);
            let of_package = |failure| format!("{}: {failure}", package.name);
            failures.extend(outcome.failures.iter().map(of_package));
        }
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    ensure!(failures.is_empty(), "{} rules are broken", failures.len());
    Ok(())
}

/// A package of the workspace, and the root files of its library and its programs.
struct Package {
    name: String,
    folder: PathBuf,
    roots: Vec<PathBuf>,
}

fn packages(only: Option<&str>) -> Result<Vec<Package>> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let output = metadata.output().context("cannot start cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let listed = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut packages = Vec::new();
    for package in listed(&metadata["packages"]) {
        let name = text(&package["name"]);
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().unwrap_or(Path::new("/")).to_path_buf();
        let roots = listed(&package["targets"])
            .iter()
            .filter(|target| {
                let kinds = listed(&target["kind"]);
                kinds
                    .iter()
                    .any(|kind| ["lib", "bin", "cdylib"].iter().any(|of| kind == of))
            })
            .map(|target| PathBuf::from(text(&target["src_path"])))
            // The library of cuda-um-loom has the files of cuda-um.
            .filter(|root| !root.components().any(|part| part == Component::ParentDir))
            .collect();
        packages.push(Package {
            name,
            folder,
            roots,
        });
    }
    ensure!(!packages.is_empty(), "no package has that name");
    Ok(packages)
}

fn imports(package: &Package) -> Result<Imports> {
    let mut imports = Imports::default();
    for root in &package.roots {
        let target = source::load(root, &|path| fs::read_to_string(path).ok())
            .with_context(|| format!("cannot read the sources of {}", package.name))?;
        imports.add(&target, &package.folder);
    }
    Ok(imports)
}
