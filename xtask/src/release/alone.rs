//! The packages in an empty folder outside of the repository: each is built and tested there against the others.

use super::packages::{Packed, Published, features, selected};
use crate::{nightly, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The members that are programs of a new user.
const README: &str = "readme-program";
const GUIDE: &str = "guide-programs";
const STARTER: &str = "starter";

/// The unpacked packages, as the members of a workspace whose `[patch]` stands for the registry.
pub struct Alone<'a> {
    folder: PathBuf,
    published: &'a [Published],
}

impl<'a> Alone<'a> {
    /// Unpacks the packages, and writes the programs of a new user beside them.
    pub fn unpack(published: &'a [Published], packed: &[Packed]) -> Result<Self> {
        let folder = std::env::temp_dir().join("cuda-um-packages");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut members = format!("{README:?}, {GUIDE:?}, {STARTER:?}");
        let mut patch = String::new();
        for one in packed {
            let name = &one.of.name;
            let into = folder.join(name);
            fs::create_dir_all(&into)?;
            let mut tar = Command::new("tar");
            // All files in a package have one old date, by which cargo would take the last build for that of this package.
            tar.args(["--touch", "--strip-components=1", "-xzf"]);
            tar.arg(&one.file);
            workspace::run(tar.current_dir(&into))?;
            members += &format!(", {name:?}");
            patch += &format!("{name} = {{ path = {name:?} }}\n");
        }
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patch}\n\
             [profile.dev]\ndebug = false\n\n[profile.dev.package.um-search]\nopt-level = 3\n\n\
             [profile.dev.package.cuda-um-sim]\nopt-level = 1\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        // The versions of other crates that the repository is tested with.
        fs::copy(
            workspace::root().join("Cargo.lock"),
            folder.join("Cargo.lock"),
        )?;
        let alone = Self { folder, published };
        alone.write_programs()?;
        Ok(alone)
    }

    /// The program of README, those of the guide, and the starter: each is a crate with the dependencies that the page names.
    fn write_programs(&self) -> Result<()> {
        let root = workspace::root();
        let (readme, guide) = (self.folder.join(README), self.folder.join(GUIDE));
        for (name, into) in [(README, &readme), (GUIDE, &guide)] {
            fs::create_dir_all(into.join("src"))?;
            let manifest = format!("[package]\nname = {name:?}\nedition = \"2024\"\n");
            fs::write(into.join("Cargo.toml"), manifest)?;
        }
        workspace::copy(&root.join("examples/starter"), &self.folder.join(STARTER))?;
        workspace::copy(&root.join("examples/src/bin/guide"), &guide.join("src"))?;
        let text = fs::read_to_string(root.join("README.md"))?;
        let (_, program) = text
            .split_once("```rust\n")
            .context("README.md has no block of rust")?;
        let (program, _) = program.split_once("```").unwrap_or_default();
        fs::write(readme.join("src/main.rs"), program)?;
        for (page, into) in [("README.md", &readme), ("docs/guide.md", &guide)] {
            let text = fs::read_to_string(root.join(page))?;
            let line = text.lines().find(|line| line.starts_with("cargo add "));
            let line = line.with_context(|| format!("{page} has no line `cargo add …`"))?;
            let words = line.split('#').next().unwrap_or_default();
            let mut add = workspace::cargo();
            add.args(words.split_whitespace().skip(1)).arg("--quiet");
            workspace::run(add.current_dir(into))?;
        }
        Ok(())
    }

    /// Checks one crate with its default features.
    pub fn check(&self, name: &str) -> Result<()> {
        workspace::run(self.cargo().args(["check", "--package", name]))
    }

    /// Checks each crate with its default features, tests all with all features, and runs the programs of a new user.
    pub fn test(&self) -> Result<()> {
        for one in self.published {
            self.check(&one.name)?;
        }
        workspace::run(
            self.cargo()
                .args(["test", "--no-fail-fast"])
                .args(self.with_all_features()),
        )?;
        for program in [README, GUIDE, STARTER] {
            workspace::run(self.cargo().args(["run", "--package", program]))?;
        }
        Ok(())
    }

    /// Makes the documentation as docs.rs does: nightly, without network and with the features of `[package.metadata.docs.rs]`.
    pub fn docs(&self) -> Result<()> {
        let mut doc = self.set_up(nightly::cargo()?);
        doc.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
        doc.args(["doc", "--lib", "--no-deps", "--offline"]);
        workspace::run(doc.args(self.with_all_features()))
    }

    /// Writes the CycloneDX bill of materials of each package, with the features of its documentation, into a folder.
    pub fn bills(&self, into: &Path) -> Result<()> {
        let mut list = self.set_up(Command::new(tool("cargo-cyclonedx", "0.5.9")?));
        list.args(["cyclonedx", "--quiet", "--format", "json"]);
        list.args(["--spec-version", "1.5"]);
        workspace::run(list.args(features(self.published)))?;
        let folder = format!("path+file://{}/", self.folder.display());
        for one in self.published {
            let name = format!("{}.cdx.json", one.name);
            let bill = fs::read_to_string(self.folder.join(&one.name).join(&name))?;
            // The packages are named as in the registry, not by their folders here.
            let bill = bill.replace(&folder, "");
            let mut parts = bill.split("?download_url=");
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                text += part.find(['"', '#']).map_or("", |end| &part[end..]);
            }
            fs::write(into.join(&name), text)?;
        }
        Ok(())
    }

    /// The packages with the features of their documentation.
    fn with_all_features(&self) -> Vec<String> {
        let packages = selected(self.published).map(str::to_owned);
        packages.chain(features(self.published)).collect()
    }

    fn cargo(&self) -> Command {
        self.set_up(workspace::cargo())
    }

    fn set_up(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", workspace::target().join("packages"));
        command
    }
}

/// A program of a crate, built once below the target folder.
fn tool(name: &str, version: &str) -> Result<PathBuf> {
    let root = workspace::target().join(format!("tools/{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.exists() {
        let mut install = workspace::cargo();
        install.args(["install", "--quiet", "--locked", "--debug", "--root"]);
        install.arg(&root).arg(format!("{name}@={version}"));
        install.env("CARGO_TARGET_DIR", root.join("build"));
        workspace::run(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
        fs::remove_dir_all(root.join("build"))?;
    }
    Ok(program)
}
