//! `cargo xtask packages`: the published crates as packages: their licences, their sizes, and the starter of another workspace over them.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The largest package, compressed. crates.io takes 10 MB; these should be quick to fetch.
const MOST_BYTES: u64 = 1_500_000;

#[derive(serde::Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(serde::Deserialize)]
struct Package {
    name: String,
    version: String,
    /// The registries; `None` is each.
    publish: Option<Vec<String>>,
}

/// Packs all published crates, checks each, and compiles `examples/starter` against them, in a workspace of their own.
pub fn run() -> Result<()> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let Metadata { mut packages } = serde_json::from_slice(&metadata.output()?.stdout)?;
    packages.retain(|package| package.publish.is_none());
    let mut cargo = workspace::cargo();
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    cargo.arg("--target-dir").arg(workspace::target());
    cargo.args(packages.iter().flat_map(|one| ["--package", &one.name]));
    workspace::run(&mut cargo)?;
    let folder = workspace::target().join("unpacked");
    let _ = fs::remove_dir_all(&folder);
    let mut patch = String::new();
    for one in &packages {
        unpack(one, &folder.join(&one.name))?;
        patch += &format!("{0} = {{ path = {0:?} }}\n", one.name);
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"starter\"]\n\n[patch.crates-io]\n{patch}\n[profile.dev]\ndebug = false\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let root = workspace::root();
    // The versions of other crates that the repository is tested with.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    workspace::copy(&root.join("examples/starter"), &folder.join("starter"))?;
    let mut check = workspace::cargo();
    check.env("CARGO_TARGET_DIR", workspace::target().join("packages"));
    workspace::run(
        check
            .args(["check", "--package", "starter"])
            .current_dir(folder),
    )
}

/// Unpacks a package into a new folder, after a look at its size and its licences.
fn unpack(one: &Package, into: &Path) -> Result<()> {
    let name = format!("{}-{}", one.name, one.version);
    let file = workspace::target().join(format!("package/{name}.crate"));
    let bytes = fs::metadata(&file).context(name.clone())?.len();
    println!("{bytes:>9} bytes  {name}");
    ensure!(
        bytes <= MOST_BYTES,
        "{name} has more than {MOST_BYTES} bytes; leave files out with `include`"
    );
    fs::create_dir_all(into)?;
    let mut tar = Command::new("tar");
    // All files in a package have one old date, by which cargo would take the last build for that of this package.
    tar.args(["--touch", "--strip-components=1", "-xzf"]);
    workspace::run(tar.arg(&file).current_dir(into))?;
    for needed in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        ensure!(
            into.join(needed).is_file(),
            "{name} has no {needed}: add it to its folder and to `include`"
        );
    }
    Ok(())
}
