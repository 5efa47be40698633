//! The published crates as packages: which, with which files, of which size.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The largest package, compressed. crates.io takes 10 MB; these should be quick to fetch.
const MOST_BYTES: u64 = 1_500_000;

/// A published crate.
pub struct Published {
    pub name: String,
    pub version: String,
    /// The features of the documentation on docs.rs: all, unless one needs more than Rust.
    pub features: Vec<String>,
}

/// A package as cargo made it.
pub struct Packed<'a> {
    pub of: &'a Published,
    pub file: PathBuf,
}

impl Packed<'_> {
    /// The name of the file.
    pub fn name(&self) -> String {
        format!("{}-{}.crate", self.of.name, self.of.version)
    }
}

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
    features: BTreeMap<String, Vec<String>>,
    metadata: serde_json::Value,
}

impl Package {
    /// The features that `[package.metadata.docs.rs]` selects.
    fn features_of_docs(&self) -> Result<Vec<String>> {
        let docs = &self.metadata["docs"]["rs"];
        ensure!(
            docs["rustdoc-args"] == serde_json::json!(["--cfg", "docsrs"]),
            "{} has no `rustdoc-args = [\"--cfg\", \"docsrs\"]` in [package.metadata.docs.rs]",
            self.name
        );
        let is_for_docs = |name: &&String| docs["all-features"] == true && *name != "default";
        Ok(self.features.keys().filter(is_for_docs).cloned().collect())
    }
}

/// The published crates. cargo packs and publishes each after those that it uses.
pub fn published() -> Result<Vec<Published>> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = metadata.output().context("cannot start cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata ended with {}",
        output.status
    );
    let Metadata { mut packages } = serde_json::from_slice(&output.stdout)?;
    packages.retain(|package| package.publish.is_none());
    let read = |package: Package| {
        Ok(Published {
            features: package.features_of_docs()?,
            name: package.name,
            version: package.version,
        })
    };
    packages.into_iter().map(read).collect()
}

/// The arguments that turn on the features of the documentation.
pub fn features(published: &[Published]) -> Vec<String> {
    let of_one = |one: &Published| {
        let named = |feature: &String| ["--features".into(), format!("{}/{feature}", one.name)];
        one.features.iter().flat_map(named).collect::<Vec<_>>()
    };
    published.iter().flat_map(of_one).collect()
}

/// The arguments that select the crates.
pub fn selected(published: &[Published]) -> impl Iterator<Item = &str> {
    published.iter().flat_map(|one| ["--package", &one.name])
}

/// Packs the crates; cargo takes the siblings from the packages of the same call.
pub fn pack(published: &[Published], allow_dirty: bool) -> Result<Vec<Packed<'_>>> {
    let mut cargo = workspace::cargo();
    // `alone` builds them, with less repeated work.
    cargo.args(["package", "--quiet", "--no-verify", "--target-dir"]);
    cargo.arg(workspace::target());
    if allow_dirty {
        cargo.arg("--allow-dirty");
    }
    workspace::run(cargo.args(selected(published)))?;
    let folder = workspace::target().join("package");
    let packed = published.iter().map(|of| Packed {
        of,
        file: folder.join(format!("{}-{}.crate", of.name, of.version)),
    });
    Ok(packed.collect())
}

/// Checks that each package has the texts of its licences.
pub fn contents(packed: &[Packed]) -> Result<()> {
    for one in packed {
        let output = Command::new("tar").arg("-tzf").arg(&one.file).output()?;
        ensure!(
            output.status.success(),
            "cannot read {}",
            one.file.display()
        );
        let list = String::from_utf8(output.stdout)?;
        for needed in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            let path = format!("{}-{}/{needed}", one.of.name, one.of.version);
            ensure!(
                list.lines().any(|line| line == path),
                "{} has no {needed}: add it to its folder and to `include`",
                one.of.name
            );
        }
    }
    Ok(())
}

/// Prints the sizes, and refuses a package above the limit.
pub fn sizes(packed: &[Packed]) -> Result<()> {
    let mut too_large = Vec::new();
    println!("{:>12}  package, compressed (bytes)", "size");
    for one in packed {
        let bytes = std::fs::metadata(&one.file)
            .with_context(|| format!("{}", one.file.display()))?
            .len();
        println!("{bytes:>12}  {} {}", one.of.name, one.of.version);
        if bytes > MOST_BYTES {
            too_large.push(&one.of.name);
        }
    }
    ensure!(
        too_large.is_empty(),
        "{too_large:?}: more than {MOST_BYTES} bytes; leave files out with `include`"
    );
    Ok(())
}
